"""Binds our request classes to the methods of Cap'n Proto interfaces.

A package that serves requests keeps three things side by side: `messages.py` (attrs classes), a `.capnp` schema whose
structs have the same fields in camelCase, and one `Interface` value that pairs them. `codec.py` derives encoders and
decoders from that; a hot method may bring its own.
"""

from __future__ import annotations

from typing import Any

import attrs

from virtuallog.ports import Request


@attrs.frozen(kw_only=True)
class Method:
    """One method: its name in the schema, the request that is its parameter struct, the class of its result struct."""

    name: str
    request: type[Request[Any]]
    reply: type[Any]


@attrs.frozen(kw_only=True)
class Interface:
    """A Cap'n Proto interface as loaded by `schema.load`, and the methods of it that we use."""

    schema: Any
    methods: tuple[Method, ...]
