"""Keys of tables in the local store, and values of a fixed form. Durable format, version 1; numbers are big-endian.

    tc                                      number of the last commit, u64
    th TABLE                                head of a table: version, complete version, layouts of key and indices, u32 each
    tv LENGTH TABLE KEY                     version of a row, u64: the number of the commit that has put it
    td LENGTH TABLE KEY                     the row: version u64, version of the schema u32, JSON
    tx LENGTH TABLE KEY                     its index entries, if any: for each, bytes of the key in the store u16, the key
    ti LENGTH TABLE LENGTH INDEX COLUMNS 00 01 KEY      entry of an index; the value is KEY
    tu LENGTH TABLE LENGTH INDEX COLUMNS                entry of a unique index; the value is KEY

LENGTH is one byte: that of the name behind it. KEY and COLUMNS are any bytes; COLUMNS are escaped (`key_codec.escape`), so
different pairs of COLUMNS and KEY are different keys. `tv` stands apart so that a check costs the same for rows of any size.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.ports import Span
from virtuallog_database.table.core.key_codec import escape, successor

COUNTER: Final = b"tc"
_NUMBER: Final = struct.Struct(">Q")
_HEAD: Final = struct.Struct(">IIII")
_ROW: Final = struct.Struct(">QI")
_LENGTH: Final = struct.Struct(">H")


def head(table: bytes) -> bytes:
    return b"th" + table


def versions(table: bytes) -> bytes:
    """Prefix of the versions of all rows."""
    return b"tv" + _named(table)


def row(table: bytes, key: bytes) -> bytes:
    return b"td" + _named(table) + key


def row_entries(table: bytes, key: bytes) -> bytes:
    return b"tx" + _named(table) + key


def index(table: bytes, name: bytes, *, is_unique: bool) -> bytes:
    """Prefix of the entries of an index."""
    return (b"tu" if is_unique else b"ti") + _named(table) + _named(name)


def entry(columns: bytes, key: bytes, *, is_unique: bool) -> bytes:
    """Key of an entry behind the prefix of its index."""
    return escape(columns) if is_unique else escape(columns) + b"\0\1" + key


def within(prefix: bytes, start: bytes, stop: bytes) -> Span:
    """Span of the keys behind a prefix; an empty `stop` stands for the end."""
    return prefix + start, prefix + stop if stop else successor(prefix)


def _named(name: bytes) -> bytes:
    return bytes((len(name),)) + name


@attrs.frozen
class TableHead:
    """State of a whole table."""

    version: int
    """Version of the schema. Programs of a lower one are refused."""
    complete: int
    """All rows have this version of the schema, or a higher one."""
    key_layout: int
    """Fingerprint of the columns of the primary key."""
    index_layout: int
    """Fingerprint of the indices of `version`."""

    def encode(self) -> bytes:
        return _HEAD.pack(self.version, self.complete, self.key_layout, self.index_layout)

    @classmethod
    def decode(cls, value: bytes | None) -> TableHead | None:
        """Decode a head; None for None. Raises CorruptionError."""
        if value is None:
            return None
        if len(value) != _HEAD.size:
            raise CorruptionError(f"a head of a table of {len(value)} bytes")
        return cls(*_HEAD.unpack(value))


@attrs.frozen
class StoredRow:
    """A row as it is stored."""

    version: int
    """Number of the commit that has put it."""
    schema: int
    """Version of the schema of its JSON."""
    json: bytes

    def encode(self) -> bytes:
        return _ROW.pack(self.version, self.schema) + self.json

    @classmethod
    def decode(cls, value: bytes | None) -> StoredRow | None:
        """Decode a row; None for None. Raises CorruptionError."""
        if value is None:
            return None
        if len(value) < _ROW.size:
            raise CorruptionError(f"a row of {len(value)} bytes")
        version, schema = _ROW.unpack_from(value)
        return cls(version, schema, value[_ROW.size :])


def encode_number(number: int) -> bytes:
    return _NUMBER.pack(number)


def decode_number(value: bytes | None) -> int:
    """Decode a number; 0 for None. Raises CorruptionError."""
    if value is None:
        return 0
    if len(value) != _NUMBER.size:
        raise CorruptionError(f"a number of {len(value)} bytes in a table")
    found: int = _NUMBER.unpack(value)[0]
    return found


def encode_entries(entries: Sequence[bytes]) -> bytes:
    """Value of `row_entries`: keys in the store."""
    return b"".join(_LENGTH.pack(len(entry)) + entry for entry in entries)


def decode_entries(value: bytes | None) -> Iterator[bytes]:
    """Keys of the index entries of a row. Raises CorruptionError."""
    at, blob = 0, value or b""
    while at < len(blob):
        size = int.from_bytes(blob[at : at + _LENGTH.size], "big")
        at += _LENGTH.size + size
        if at > len(blob):
            raise CorruptionError("the index entries of a row end too early")
        yield blob[at - size : at]
