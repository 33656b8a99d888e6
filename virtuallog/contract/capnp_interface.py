"""Binding of request classes to the methods of Cap'n Proto interfaces.

A package that serves requests keeps three things side by side: `messages.py` (attrs classes), a
`.capnp` schema with structs of the same fields in camelCase, and one `Interface` value that pairs
them. `virtuallog.rpc.protocol.codec` derives encoders and decoders from that; a hot method may
bring its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from virtuallog.contract.caller_roles import Role
from virtuallog.contract.ports import Request


@attrs.frozen(kw_only=True)
class Method:
    """One method: its name in the schema, the request (its parameter struct) and the reply (its
    result struct)."""

    name: str
    request: type[Request[Any]]
    reply: type[Any]
    role: Role | None = None
    """Least role that may call it where callers are known (docs/howto/secure.md). None if the interface
    decides."""
    distrusted: Mapping[str, Any] = attrs.field(factory=dict)
    """Fields that are ignored in calls of clients, with the values used instead. A hint that may do
    something could also lie."""
    appends: bool = False
    """True if it puts entries into the loglet that the field `segment` of its request names.

    Clients may call it only while they may append to that log
    (`virtuallog.rpc.security.permissions.AppendPermission`).
    """

    @property
    def title(self) -> str:
        """Name of the method in metrics, errors and documents: `Append` for `append`. Stays if a
        class is renamed."""
        return self.name[0].upper() + self.name[1:]


@attrs.frozen(kw_only=True)
class Interface:
    """A Cap'n Proto interface as loaded by `schema.load`, and the methods of it that we use."""

    schema: Any
    methods: tuple[Method, ...]
    role: Role = Role.NODE
    """Least role for methods without their own. Defaults to NODE, so a forgotten role fails closed."""

    def role_of(self, method: Method) -> Role:
        return self.role if method.role is None else method.role
