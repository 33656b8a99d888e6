"""Records of a state in a log: values of names, a change of a value, the end of a name.

Durable format, version 1, little-endian:

    magic "VS" | version u8 | kind u8 | crc32c u32 of all other bytes | body

    SNAPSHOT   body: for each name, of which there is at least one: name | version 16 bytes | bytes of the value u32 | value
    DIFF       body: name | base 16 bytes | version 16 bytes | prefix u32 | suffix u32 | middle, the rest
    EXPUNGE    body: name | version 16 bytes

    name: bytes u16, UTF-8

A record of a later version has the same magic, its version, and the checksum in the same place. So a record of some other
program is not taken for one.

Source: Mesos, src/messages/state.proto (Operation). A difference there is one of svndiff, without the version of its base.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from typing import Final, TypeAlias

import attrs
from crc32c import crc32c

from virtuallog.contract.errors import CorruptionError, InvalidSettingError, MalformedError
from virtuallog_database.errors import BinaryTooOldError
from virtuallog_database.state.variable import NAME_BYTES_MAX, VERSION_BYTES, StateEntry, encode_name

_MAGIC: Final = b"VS"
_VERSION: Final = 1
_TAG: Final = struct.Struct("<2sBB")
_CHECKSUM: Final = struct.Struct("<I")
_NAME: Final = struct.Struct("<H")
_LENGTH: Final = struct.Struct("<I")
_SHARED: Final = struct.Struct("<II")
_HEADER_BYTES: Final = _TAG.size + _CHECKSUM.size

FRAME_BYTES: Final = _HEADER_BYTES + _NAME.size + NAME_BYTES_MAX + VERSION_BYTES + _LENGTH.size
"""Most bytes of a SNAPSHOT of one name, beside its value."""
COST_BYTES: Final = 96
"""Cost of a record beside its name and value: its header here, and about as much in the log that it is in. A log of many
small records takes time to read, so they count."""


class _Kind(enum.IntEnum):
    SNAPSHOT = 1
    DIFF = 2
    EXPUNGE = 3


@attrs.frozen
class SnapshotRecord:
    """Values of names, each with its version. They are new, or written again as they are."""

    entries: Sequence[tuple[str, StateEntry]]

    @property
    def cost(self) -> int:
        """Bytes that the record counts for in a log."""
        return sum(cost_of(name, entry.value) for name, entry in self.entries)

    def encode(self) -> bytes:
        parts = []
        for name, entry in self.entries:
            parts += [_encode(name), entry.version, _LENGTH.pack(len(entry.value)), entry.value]
        return _build(_Kind.SNAPSHOT, parts)


@attrs.frozen
class DiffRecord:
    """A value as the difference to the one before: some first and last bytes are the same."""

    name: str
    base: bytes
    """Version of the value before."""
    version: bytes
    prefix: int
    """Number of first bytes that are kept."""
    suffix: int
    """Number of last bytes that are kept."""
    middle: bytes

    @classmethod
    def between(cls, name: str, base: StateEntry, entry: StateEntry) -> DiffRecord:
        """The smallest difference of this form."""
        prefix = _common(base.value, entry.value)
        before, after = base.value[prefix:][::-1], entry.value[prefix:][::-1]
        suffix = _common(before, after)
        middle = entry.value[prefix : len(entry.value) - suffix]
        return cls(name, base.version, entry.version, prefix, suffix, middle)

    @property
    def cost(self) -> int:
        """Bytes that the record counts for in a log."""
        return cost_of(self.name, self.middle)

    def applied(self, base: StateEntry) -> StateEntry:
        """The entry behind the difference.

        Raises:
            CorruptionError: `base` is another one than it was made for.
        """
        size = len(base.value)
        if base.version != self.base or self.prefix + self.suffix > size:
            raise CorruptionError(f"a difference of '{self.name}' is for version {self.base.hex()}, not {base}")
        value = b"".join((base.value[: self.prefix], self.middle, base.value[size - self.suffix :]))
        return StateEntry(value, self.version)

    def encode(self) -> bytes:
        shared = _SHARED.pack(self.prefix, self.suffix)
        return _build(_Kind.DIFF, [_encode(self.name), self.base, self.version, shared, self.middle])


@attrs.frozen
class ExpungeRecord:
    """The end of a name."""

    name: str
    version: bytes
    """Version that is removed."""

    @property
    def cost(self) -> int:
        """Bytes that the record counts for in a log."""
        return cost_of(self.name, b"")

    def encode(self) -> bytes:
        return _build(_Kind.EXPUNGE, [_encode(self.name), self.version])


LogRecord: TypeAlias = SnapshotRecord | DiffRecord | ExpungeRecord


def cost_of(name: str, value: bytes) -> int:
    """Bytes that a value counts for in a log. Never less than it takes in a record."""
    return COST_BYTES + len(name.encode()) + len(value)


def parse_untrusted(blob: bytes) -> LogRecord:
    """Parse a record.

    Raises:
        MalformedError: not a record of a state, or a damaged one: another program wrote it.
        BinaryTooOldError: a record of a later version.
    """
    if len(blob) < _HEADER_BYTES:
        raise MalformedError(f"not a record of a state: {len(blob)} bytes")
    magic, version, kind = _TAG.unpack_from(blob)
    if magic != _MAGIC or not version:
        raise MalformedError(f"not a record of a state: starts with {bytes(blob[:4]).hex()}")
    (checksum,) = _CHECKSUM.unpack_from(blob, _TAG.size)
    if checksum != _checksum(blob[: _TAG.size], memoryview(blob)[_HEADER_BYTES:]):
        raise MalformedError("a record of a state does not match its checksum")
    if version != _VERSION:
        raise BinaryTooOldError(
            f"the log has a record of a state of format {version}, and this program knows {_VERSION}: start a newer version of it"
        )
    try:
        return _parse_body(kind, _Cursor(blob, _HEADER_BYTES))
    except (struct.error, UnicodeDecodeError, InvalidSettingError) as error:
        raise MalformedError("a record of a state is not well formed") from error


def _parse_body(kind: int, cursor: _Cursor) -> LogRecord:
    if kind == _Kind.SNAPSHOT:
        entries = [cursor.entry()]
        while cursor.left:
            entries.append(cursor.entry())
        return SnapshotRecord(tuple(entries))
    name = cursor.name()
    version = cursor.take(VERSION_BYTES)
    if kind == _Kind.DIFF:
        after = cursor.take(VERSION_BYTES)
        prefix, suffix = cursor.unpack(_SHARED)
        return DiffRecord(name, version, after, prefix, suffix, cursor.take(cursor.left))
    if kind != _Kind.EXPUNGE or cursor.left:
        raise MalformedError(f"a record of a state of kind {kind} with {cursor.left} bytes more")
    return ExpungeRecord(name, version)


@attrs.define
class _Cursor:
    """Reader of one blob, from the start to the end."""

    _blob: bytes
    _at: int

    @property
    def left(self) -> int:
        return len(self._blob) - self._at

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise MalformedError("a record of a state ends too early")
        start, self._at = self._at, self._at + size
        return bytes(self._blob[start : self._at])

    def unpack(self, form: struct.Struct) -> tuple[int, ...]:
        return form.unpack(self.take(form.size))

    def name(self) -> str:
        (size,) = self.unpack(_NAME)
        name = self.take(size).decode()
        encode_name(name)
        return name

    def entry(self) -> tuple[str, StateEntry]:
        name, version = self.name(), self.take(VERSION_BYTES)
        (size,) = self.unpack(_LENGTH)
        return name, StateEntry(self.take(size), version)


def _encode(name: str) -> bytes:
    encoded = encode_name(name)
    return _NAME.pack(len(encoded)) + encoded


def _build(kind: _Kind, parts: Sequence[bytes]) -> bytes:
    tag, body = _TAG.pack(_MAGIC, _VERSION, kind), b"".join(parts)
    return b"".join((tag, _CHECKSUM.pack(_checksum(tag, body)), body))


def _checksum(tag: bytes, body: bytes | memoryview) -> int:
    return crc32c(body, crc32c(tag))


def _common(one: bytes, other: bytes) -> int:
    """Number of first bytes that are the same. A loop in Python over megabytes would take a tenth of a second each."""
    known, most = 0, min(len(one), len(other))
    while known < most:
        middle = (known + most + 1) // 2
        if one[known:middle] == other[known:middle]:
            known = middle
        else:
            most = middle - 1
    return known
