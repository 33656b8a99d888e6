"""The command of tables in the log of a database, beside those of the tree and of variables.

Durable format, version 1, little-endian. Every replica executes a command, so all of them refuse an unreadable one alike.

    magic "T" | version u8 | tables u8 | checks u32 | ranges u32 | puts u32 | deletes u32
    for each table: bytes of its name u8 | flags u8 | indices u8 | version, layouts of key and indices: u32 each | name
                    for each index: bytes of its name u8 | is unique u8 | name
    for each check: table u8 | version u64 | bytes of the key u16 | key
    for each range: table u8 | index u8, 255: the rows | bytes of `start` and of `stop`, u16 each | keys found u32 | start | stop
                    for each key: bytes u16 | key
    for each put:   table u8 | entries u8 | bytes of the key u16 | bytes of the JSON u32 | key | JSON
                    for each entry: index u8 | bytes of the columns u16 | columns
    for each delete: table u8 | bytes of the key u16 | key
"""

from __future__ import annotations

import struct
from typing import Final

import attrs

from virtuallog.contract.errors import InvalidSettingError, MalformedError

MAGIC: Final = b"T"
"""First byte of every command of tables. A command of the tree begins with its version, a small number."""
KEY_BYTES_MAX: Final = 1024
"""Longest primary key, and longest encoding of the columns of an index entry."""
ENTRY_BYTES_MAX: Final = 3 * KEY_BYTES_MAX + 2
"""Longest key of an index entry behind the prefix of its index: escaped columns, and the primary key."""
NAME_BYTES_MAX: Final = 64
"""Longest name of a table or an index."""
INDICES_MAX: Final = 16
"""Most indices of a table: each write of a row rewrites an entry in each."""
TABLES_MAX: Final = 64
"""Most tables of one transaction."""
ROWS: Final = 255
"""Number of the rows themselves, in a range check: in order of their primary keys."""
_VERSION: Final = 1
_RAISES, _COMPLETES = 1, 2
_HEAD: Final = struct.Struct("<1sBBIIII")
_TABLE: Final = struct.Struct("<BBBIII")
_INDEX: Final = struct.Struct("<BB")
_CHECK: Final = struct.Struct("<BQH")
_RANGE: Final = struct.Struct("<BBHHI")
_PUT: Final = struct.Struct("<BBHI")
_NUMBERED: Final = struct.Struct("<BH")
_LENGTH: Final = struct.Struct("<H")


@attrs.frozen
class IndexUse:
    """An index of a table, as a program knows it."""

    name: bytes
    is_unique: bool


@attrs.frozen(kw_only=True)
class TableUse:
    """A table, as a program knows it."""

    name: bytes
    version: int
    """Version of the program's schema."""
    key_layout: int
    index_layout: int
    indices: tuple[IndexUse, ...] = ()
    raises: bool = False
    """True: the table gets this version, also without a put."""
    completes: bool = False
    """True: no row has a lower version any more."""


@attrs.frozen
class RowCheck:
    """Demand that a row has this version; 0: that there is none."""

    table: int
    """Place of the table in the command."""
    key: bytes
    version: int


@attrs.frozen
class RangeCheck:
    """Demand that exactly these keys are in a span of the rows or of an index. Says nothing about the content of rows."""

    table: int
    index: int
    """Place of the index in the table, or ROWS."""
    start: bytes
    stop: bytes
    """End of the span, exclusive; empty: the end."""
    found: tuple[bytes, ...]
    """Keys, in their order, behind the prefix of the rows or of the index."""


@attrs.frozen
class IndexEntry:
    """An entry of a row in an index."""

    index: int
    columns: bytes


@attrs.frozen
class RowPut:
    """A row to put, with all its index entries."""

    table: int
    key: bytes
    json: bytes
    entries: tuple[IndexEntry, ...] = ()


@attrs.frozen
class RowDelete:
    """A row to delete, if it exists."""

    table: int
    key: bytes


@attrs.frozen(kw_only=True)
class Commit:
    """End of a transaction: writes, on condition that what it has read is still true."""

    tables: tuple[TableUse, ...]
    checks: tuple[RowCheck, ...] = ()
    ranges: tuple[RangeCheck, ...] = ()
    puts: tuple[RowPut, ...] = ()
    deletes: tuple[RowDelete, ...] = ()

    @property
    def operations(self) -> int:
        """Steps to apply it."""
        looks = len(self.tables) + len(self.checks) + sum(1 + len(each.found) for each in self.ranges)
        return 1 + looks + sum(1 + len(each.entries) for each in self.puts) + len(self.deletes)


def is_table_command(payload: bytes) -> bool:
    """True for a command of tables, of any version."""
    return payload[:1] == MAGIC


def encode(command: Commit) -> bytes:
    """Encode a command.

    Raises:
        InvalidSettingError: something is too long, or there is too much of it.
    """
    try:
        encoded = _encode(command)
        parse_untrusted(encoded)
    except (struct.error, MalformedError) as error:
        raise InvalidSettingError("transaction", f"cannot be written to the log: {error}") from error
    return encoded


def _encode(command: Commit) -> bytes:
    checks, ranges, puts, deletes = command.checks, command.ranges, command.puts, command.deletes
    counts = (len(command.tables), len(checks), len(ranges), len(puts), len(deletes))
    parts = [_HEAD.pack(MAGIC, _VERSION, *counts)]
    for use in command.tables:
        flags = _RAISES * use.raises | _COMPLETES * use.completes
        layout = (use.version, use.key_layout, use.index_layout)
        parts += [_TABLE.pack(len(use.name), flags, len(use.indices), *layout), use.name]
        for index in use.indices:
            parts += [_INDEX.pack(len(index.name), index.is_unique), index.name]
    for check in checks:
        parts += [_CHECK.pack(check.table, check.version, len(check.key)), check.key]
    for span in ranges:
        sizes = (len(span.start), len(span.stop), len(span.found))
        parts += [_RANGE.pack(span.table, span.index, *sizes), span.start, span.stop]
        for key in span.found:
            parts += [_LENGTH.pack(len(key)), key]
    for put in puts:
        parts += [_PUT.pack(put.table, len(put.entries), len(put.key), len(put.json)), put.key, put.json]
        for entry in put.entries:
            parts += [_NUMBERED.pack(entry.index, len(entry.columns)), entry.columns]
    for delete in deletes:
        parts += [_NUMBERED.pack(delete.table, len(delete.key)), delete.key]
    return b"".join(parts)


def parse_untrusted(payload: bytes) -> Commit:
    """Parse a command. Raises MalformedError."""
    try:
        _, number, tables, *counts = _HEAD.unpack_from(payload)
        if number != _VERSION or not 0 < tables <= TABLES_MAX:
            raise MalformedError(f"a command of tables of version {number}, with {tables} tables")
        sizes = (_CHECK.size, _RANGE.size, _PUT.size, _NUMBERED.size)
        if sum(size * count for size, count in zip(sizes, counts, strict=True)) > len(payload):
            raise MalformedError("a command of tables with more parts than bytes")
        reader = _CommandReader(payload, _HEAD.size)
        uses = reader.tables = tuple(reader.table() for _ in range(tables))
        checks, ranges, puts, deletes = counts
        command = Commit(
            tables=uses,
            checks=tuple(reader.check() for _ in range(checks)),
            ranges=tuple(reader.range() for _ in range(ranges)),
            puts=tuple(reader.put() for _ in range(puts)),
            deletes=tuple(reader.delete() for _ in range(deletes)),
        )
    except struct.error as error:
        raise MalformedError("a command of tables is not well formed") from error
    written = [(put.table, put.key) for put in command.puts]
    written += [(delete.table, delete.key) for delete in command.deletes]
    names = {use.name for use in uses}
    if reader.at != len(payload) or len(set(written)) < len(written) or len(names) < len(uses):
        raise MalformedError("a command of tables with another length, or with a row or a table twice")
    return command


@attrs.define
class _CommandReader:
    _payload: bytes
    at: int
    tables: tuple[TableUse, ...] = ()
    """Tables that the other parts may refer to."""

    def table(self) -> TableUse:
        size, flags, indices, version, key_layout, index_layout = self._unpack(_TABLE)
        name = self._name(size)
        if indices > INDICES_MAX or not version or flags > _RAISES | _COMPLETES:
            raise MalformedError(f"a table with {indices} indices, version {version} and flags {flags}")
        return TableUse(
            name=name, version=version, key_layout=key_layout, index_layout=index_layout,
            indices=tuple(self._index() for _ in range(indices)),
            raises=bool(flags & _RAISES), completes=bool(flags & _COMPLETES),
        )  # fmt: skip

    def _index(self) -> IndexUse:
        size, is_unique = self._unpack(_INDEX)
        if is_unique > 1:
            raise MalformedError("an index that is neither unique nor not")
        return IndexUse(self._name(size), bool(is_unique))

    def check(self) -> RowCheck:
        table, version, size = self._unpack(_CHECK)
        return RowCheck(self._known(table), self._take(size, KEY_BYTES_MAX), version)

    def range(self) -> RangeCheck:
        table, index, start_bytes, stop_bytes, count = self._unpack(_RANGE)
        self._known(table, None if index == ROWS else index)
        if count * _LENGTH.size > len(self._payload):
            raise MalformedError("a range with more keys than bytes")
        start, stop = (self._take(size, ENTRY_BYTES_MAX + 1) for size in (start_bytes, stop_bytes))
        found = tuple(self._take(self._unpack(_LENGTH)[0], ENTRY_BYTES_MAX) for _ in range(count))
        return RangeCheck(table, index, start, stop, found)

    def put(self) -> RowPut:
        table, entries, key_bytes, json_bytes = self._unpack(_PUT)
        if entries > INDICES_MAX:
            raise MalformedError(f"a row with {entries} index entries")
        key, json = self._take(key_bytes, KEY_BYTES_MAX), self._take(json_bytes, len(self._payload))
        return RowPut(self._known(table), key, json, tuple(self._entry(table) for _ in range(entries)))

    def _entry(self, table: int) -> IndexEntry:
        index, size = self._unpack(_NUMBERED)
        self._known(table, index)
        return IndexEntry(index, self._take(size, KEY_BYTES_MAX))

    def delete(self) -> RowDelete:
        table, size = self._unpack(_NUMBERED)
        return RowDelete(self._known(table), self._take(size, KEY_BYTES_MAX))

    def _known(self, table: int, index: int | None = None) -> int:
        """Number of a table. Raises MalformedError: there is no such table, or no such index."""
        if table >= len(self.tables) or (index is not None and index >= len(self.tables[table].indices)):
            raise MalformedError(f"there is no table {table}, or it has no index {index}")
        return table

    def _name(self, size: int) -> bytes:
        if not size:
            raise MalformedError("a table or an index without a name")
        return self._take(size, NAME_BYTES_MAX)

    def _take(self, size: int, limit: int) -> bytes:
        start, self.at = self.at, self.at + size
        if size > limit or self.at > len(self._payload):
            raise MalformedError(f"{size} bytes in a command of tables, which ends or has a limit before")
        return self._payload[start : self.at]

    def _unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        values = layout.unpack_from(self._payload, self.at)
        self.at += layout.size
        return values
