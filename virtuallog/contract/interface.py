"""Binds our request classes to the methods of Cap'n Proto interfaces.

A package that serves requests keeps three things side by side: `messages.py` (attrs classes), a `.capnp` schema whose
structs have the same fields in camelCase, and one `Interface` value that pairs them. `codec.py` derives encoders and
decoders from that; a hot method may bring its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from virtuallog.contract.ports import Request
from virtuallog.contract.roles import Role


@attrs.frozen(kw_only=True)
class Method:
    """One method: its name in the schema, the request that is its parameter struct, the class of its result struct."""

    name: str
    request: type[Request[Any]]
    reply: type[Any]
    role: Role | None = None
    """The least role that may call it, where callers are known (docs/howto/secure.md). None: what the interface says."""
    distrusted: Mapping[str, Any] = attrs.field(factory=dict)
    """Fields that no client is believed, and what is read in place of what it says. What a hint may do, a lie can."""
    appends: bool = False
    """It puts entries into the loglet that the field `segment` of its request names: clients may call it only while they may append to
    that log (`virtuallog.rpc.security.permissions.AppendPermission`)."""

    @property
    def title(self) -> str:
        """The method as metrics, errors and documents call it: `Append` for `append`. Classes may be renamed; this stays."""
        return self.name[0].upper() + self.name[1:]


@attrs.frozen(kw_only=True)
class Interface:
    """A Cap'n Proto interface as loaded by `schema.load`, and the methods of it that we use."""

    schema: Any
    methods: tuple[Method, ...]
    role: Role = Role.NODE
    """The least role that may call a method which does not say so itself. Who thinks of nobody is called by nodes only."""

    def role_of(self, method: Method) -> Role:
        return self.role if method.role is None else method.role
