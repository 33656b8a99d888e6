"""Commands on variables in the log of a database, beside those of the tree.

Durable format, version 1, little-endian. Every replica executes a command, so all of them refuse an unreadable one alike.

    magic "V" | version u8 | kind u8 | flags u8 | bytes of the name u16, of `expected` u8, of `version` u8 | puts u32 | deletes u32 | needs u32
    name | expected | version | for each put: bytes of the key u16, of the value u32 | key | value
    for each delete and each need: bytes of the key u16 | key
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import attrs

from virtuallog.contract.errors import InvalidSettingError, MalformedError

MAGIC: Final = b"V"
"""First byte of every command on variables. A command of the tree begins with its version, a small number."""
KEY_BYTES_MAX: Final = 2048
"""Longest key of a record, in bytes."""
_VERSION: Final = 1
_UPDATE, _STAGE = 1, 2
_MAY_CREATE: Final = 1
_HEAD: Final = struct.Struct("<1sBBBHBBIII")
_PUT: Final = struct.Struct("<HI")
_KEY: Final = struct.Struct("<H")


@attrs.frozen(kw_only=True)
class Update:
    """Change records of a variable and give it another version, if it has the expected one."""

    name: bytes
    expected: bytes
    """Version that it must have."""
    version: bytes
    """Its next version; empty: the variable is removed, and `deletes` names all its records."""
    may_create: bool = False
    """True if it may be made where it does not exist."""
    puts: Sequence[tuple[bytes, bytes]] = ()
    deletes: Sequence[bytes] = ()
    needs: Sequence[bytes] = ()
    """Keys of records that must be there: those that were staged for it."""

    @property
    def operations(self) -> int:
        """Steps to apply it."""
        return 1 + len(self.puts) + len(self.deletes) + len(self.needs)


@attrs.frozen(kw_only=True)
class Stage:
    """Put records that no version refers to yet, such as pieces of a value that is too large for one command."""

    name: bytes
    puts: Sequence[tuple[bytes, bytes]]
    expected: bytes = b""
    """Version that the variable must have; empty: any, where the keys are of this write alone."""

    @property
    def operations(self) -> int:
        """Steps to apply it."""
        return 1 + len(self.puts)


def is_variable_command(payload: bytes) -> bool:
    """True for a command on variables, of any version."""
    return payload[:1] == MAGIC


def encode(command: Update | Stage) -> bytes:
    """Encode a command.

    Raises:
        InvalidSettingError: the name, a version or a key is too long.
    """
    kind, flags, expected, version = _STAGE, 0, command.expected, b""
    deletes: Sequence[bytes] = ()
    needs: Sequence[bytes] = ()
    if isinstance(command, Update):
        kind, flags = _UPDATE, _MAY_CREATE * command.may_create
        version, deletes, needs = command.version, command.deletes, command.needs
    keys = (*deletes, *needs, *(key for key, _ in command.puts))
    long = next((key for key in keys if len(key) > KEY_BYTES_MAX), None)
    if long is not None:
        raise InvalidSettingError("key", f"a key of a record has at most {KEY_BYTES_MAX} bytes, this one {len(long)}")
    try:
        head = _HEAD.pack(
            MAGIC, _VERSION, kind, flags, len(command.name), len(expected), len(version),
            len(command.puts), len(deletes), len(needs),
        )  # fmt: skip
    except struct.error as error:
        raise InvalidSettingError("variable", f"a name or a version is too long: {error}") from error
    parts = [head, command.name, expected, version]
    for key, value in command.puts:
        parts += [_PUT.pack(len(key), len(value)), key, value]
    for key in (*deletes, *needs):
        parts += [_KEY.pack(len(key)), key]
    return b"".join(parts)


def parse_untrusted(payload: bytes) -> Update | Stage:
    """Parse a command. Raises MalformedError."""
    try:
        _, number, kind, flags, *sizes, puts, deletes, needs = _HEAD.unpack_from(payload)
        if number != _VERSION or kind not in (_UPDATE, _STAGE):
            raise MalformedError(f"a command on variables of version {number}, kind {kind}")
        if puts * _PUT.size + (deletes + needs) * _KEY.size > len(payload):
            raise MalformedError("a command on variables with more records than bytes")
        reader = _Reader(payload, _HEAD.size)
        name, expected, version = (reader.take(size) for size in sizes)
        put = tuple(reader.put() for _ in range(puts))
        deleted, needed = (tuple(reader.key() for _ in range(count)) for count in (deletes, needs))
    except struct.error as error:
        raise MalformedError("a command on variables is not well formed") from error
    if reader.at != len(payload) or not name:
        raise MalformedError("a command on variables with another length, or without a name")
    if kind == _STAGE:
        return Stage(name=name, puts=put, expected=expected)
    may_create = bool(flags & _MAY_CREATE)
    return Update(
        name=name, expected=expected, version=version, may_create=may_create, puts=put, deletes=deleted, needs=needed
    )


@attrs.define
class _Reader:
    _payload: bytes
    at: int

    def take(self, size: int) -> bytes:
        start, self.at = self.at, self.at + size
        if self.at > len(self._payload):
            raise MalformedError("a command on variables ends too early")
        return self._payload[start : self.at]

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        values = layout.unpack_from(self._payload, self.at)
        self.at += layout.size
        return values

    def key(self, key_bytes: int = -1) -> bytes:
        if key_bytes < 0:
            (key_bytes,) = self.unpack(_KEY)
        if key_bytes > KEY_BYTES_MAX:
            raise MalformedError(f"a key of {key_bytes} bytes")
        return self.take(key_bytes)

    def put(self) -> tuple[bytes, bytes]:
        key_bytes, value_bytes = self.unpack(_PUT)
        return self.key(key_bytes), self.take(value_bytes)
