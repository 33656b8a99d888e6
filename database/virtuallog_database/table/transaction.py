"""A transaction on tables: reads of a snapshot, own writes before them, and one command at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import attrs
import trio

from virtuallog.contract.errors import InvalidSettingError, StorageError, TooLargeError, UnavailableError
from virtuallog_database.table.core.commands import ROWS, Commit, RangeCheck, RowCheck, RowDelete, RowPut, TableUse
from virtuallog_database.table.core.execution import CommitResult, Verdict, look
from virtuallog_database.table.core.keys import StoredRow, TableHead
from virtuallog_database.table.core.table_state import TableState
from virtuallog_database.table.errors import (
    ConflictError,
    IndexNotReadyError,
    SchemaDiffersError,
    SchemaTooOldError,
    UniqueViolationError,
)
from virtuallog_database.table.schema import KeyValue, RowT, Schema, schema_of

COMMIT_BYTES_MAX: Final = 2 << 20
"""Bytes of all that a transaction has read and written, about. A command takes 3 MiB."""
PART_BYTES: Final = 16
"""Bytes of each read or write beside its content."""
SCAN_COUNT: Final = 1000
"""Rows of a scan, if the caller names no number."""
SCAN_COUNT_MAX: Final = 10_000
"""Most rows of one scan: some 0.1 s of the processor."""
ROWS_AT_ONCE: Final = 64
"""Rows decoded in one scheduler turn (some 1 ms)."""


@attrs.frozen
class _Written:
    """A row to put."""

    row: Any
    put: RowPut


@attrs.frozen
class _Opened:
    """A table that the transaction has looked at."""

    schema: Schema[Any]
    head: TableHead | None
    number: int
    """Place of the table in the command."""


@attrs.define(eq=False)
class TableTransaction:
    """Reads and writes, all at one moment or none. Made by `Tables.transaction`; for one task.

    All methods raise InvalidSettingError for a class without a table or for values of other types, SchemaTooOldError,
    SchemaDiffersError, MalformedError for a stored row that is none of the class, and UnavailableError if the replica has
    no state.
    """

    _state: TableState | None
    """Snapshot that is read; None once the block has ended."""
    number: int = attrs.field(default=0, init=False)
    """Number of the commit in the order of all transactions, once the block has ended; 0 if it wrote nothing."""
    _opened: dict[bytes, _Opened] = attrs.field(factory=dict, init=False)
    _checks: dict[tuple[int, bytes], int] = attrs.field(factory=dict, init=False)
    _ranges: list[RangeCheck] = attrs.field(factory=list, init=False)
    _writes: dict[tuple[int, bytes], _Written | None] = attrs.field(factory=dict, init=False)
    """Rows to put; None to delete."""

    async def get(self, kind: type[RowT], *key: KeyValue) -> RowT | None:
        """The row with this primary key; None if there is none."""
        await trio.lowlevel.checkpoint()
        with reading_state():
            opened = self._open(kind)
            row: RowT | None = self._row(opened, opened.schema.encode_key(key))
        return row

    async def scan(
        self,
        kind: type[RowT],
        *prefix: KeyValue,
        index: str | None = None,
        start: KeyValue | None = None,
        stop: KeyValue | None = None,
        after: RowT | None = None,
        limit: int = SCAN_COUNT,
    ) -> list[RowT]:
        """Rows in the order of the primary key, or of an index and then of the primary key.

        Args:
            kind: class of the rows.
            prefix: values of the first columns.
            index: name of an index; None for the primary key.
            start: least value of the next column.
            stop: the first value of the next column that is not wanted.
            after: the last row of the page before; the result begins behind it.
            limit: most rows.

        Raises:
            IndexNotReadyError: some rows are not in the index yet.
        """
        await trio.lowlevel.checkpoint()
        if not 0 < limit <= SCAN_COUNT_MAX:
            raise InvalidSettingError("limit", f"must be from 1 to {SCAN_COUNT_MAX}")
        with reading_state():
            opened = self._open(kind)
            begin, end = opened.schema.span(index, prefix, start, stop)
            if after is not None:
                begin = max(begin, _behind(opened.schema, after, index))
            places = self._places(opened, index, begin, end, limit)
        rows = list[RowT]()
        for at in range(0, len(places), ROWS_AT_ONCE):
            if at:
                await trio.lowlevel.checkpoint()
            with reading_state():
                found = (self._row(opened, key) for key in places[at : at + ROWS_AT_ONCE])
                rows += (row for row in found if row is not None)
        return rows

    def put(self, row: RowT) -> None:
        """Put a row at the end of the block, in the place of any row with its primary key.

        Raises:
            TooLargeError: the row or a key of it is too long.
        """
        with reading_state():
            opened = self._open(type(row))
        self._put(opened, row)

    def delete(self, kind: type[RowT], *key: KeyValue) -> None:
        """Delete a row at the end of the block. One that does not exist is no error."""
        with reading_state():
            opened = self._open(kind)
        self._writes[opened.number, opened.schema.encode_key(key)] = None

    # -- for `Tables` -------------------------------------------------------------------------------------------------

    def command(self) -> Commit | None:
        """Command that ends the transaction; None if it writes nothing. Raises TooLargeError."""
        if not self._writes:
            return None
        command = Commit(
            tables=tuple(each.schema.use for each in self._opened.values()),
            checks=tuple(RowCheck(table, key, version) for (table, key), version in self._checks.items()),
            ranges=tuple(self._ranges),
            puts=tuple(written.put for written in self._writes.values() if written is not None),
            deletes=tuple(RowDelete(*place) for place, written in self._writes.items() if written is None),
        )
        if (size := _size(command)) > COMMIT_BYTES_MAX:
            raise TooLargeError("bytes of reads and writes in a transaction", size, COMMIT_BYTES_MAX)
        return command

    def end(self) -> None:
        """Release the snapshot. Reads and writes raise RuntimeError from now on."""
        self._state = None

    def upgrade_page(self, schema: Schema[Any], start: bytes, count: int, size: int) -> tuple[int, bytes | None]:
        """Put the rows of a page that have a lower version again. Returns their number, and the beginning of the next page,
        None behind the last one.

        Args:
            schema: of the table.
            start: key of the first row.
            count: most rows to look at.
            size: bytes of rows read, or put if that is more, after which the page ends.
        """
        opened, state = self._open(schema.kind), self._snapshot
        places = state.primary_keys(schema.use.name, (start, b""), count)
        upgraded = 0
        for _, key in places:
            stored = state.row(schema.use.name, key)
            read = len(stored.json) if stored else 0
            if stored is not None and stored.schema < schema.version:
                self._checks[opened.number, key] = stored.version
                put = self._put(opened, schema.decode(key, stored))
                read = max(read, PART_BYTES + len(key) + _put_size(put))
                upgraded += 1
            size -= read
            if size < 0:
                return upgraded, key + b"\0"
        return upgraded, places[-1][1] + b"\0" if len(places) == count else None

    # -- reads --------------------------------------------------------------------------------------------------------

    @property
    def _snapshot(self) -> TableState:
        if self._state is None:
            raise RuntimeError("the transaction has ended")
        return self._state

    def _open(self, kind: type[RowT]) -> _Opened:
        schema, state = schema_of(kind), self._snapshot
        opened = self._opened.get(schema.use.name)
        if opened is None:
            head = state.head(schema.use.name)
            check_schema(look(head, schema.use), schema.use)
            opened = self._opened[schema.use.name] = _Opened(schema, head, len(self._opened))
        if opened.schema is not schema:
            raise InvalidSettingError(schema.name, "the transaction uses another class for this table")
        return opened

    def _row(self, opened: _Opened, key: bytes) -> Any:
        place = (opened.number, key)
        if place in self._writes:
            written = self._writes[place]
            return None if written is None else written.row
        stored = self._look(opened, key)
        return None if stored is None else opened.schema.decode(key, stored)

    def _look(self, opened: _Opened, key: bytes) -> StoredRow | None:
        """Read a row of the snapshot, and remember so."""
        stored = self._snapshot.row(opened.schema.use.name, key)
        self._checks[opened.number, key] = stored.version if stored else 0
        return stored

    def _put(self, opened: _Opened, row: Any) -> RowPut:
        schema = opened.schema
        key = schema.key_of(row)
        put = RowPut(opened.number, key, schema.encode(row), schema.entries_of(row))
        self._writes[opened.number, key] = _Written(row, put)
        return put

    def _places(self, opened: _Opened, index: str | None, begin: bytes, end: bytes, limit: int) -> list[bytes]:
        """Primary keys of the first rows of a span, with those that this transaction has written."""
        if end and begin >= end:
            return []
        schema, number = opened.schema, opened.number
        written = {key: row for (table, key), row in self._writes.items() if table == number}
        count = limit + len(written)
        if index is None:
            found, place = self._snapshot.primary_keys(schema.use.name, (begin, end), count), ROWS
        else:
            each = schema.indices[index]
            if opened.head is not None and opened.head.complete < (each.since or schema.version):
                raise IndexNotReadyError(schema.name, index)
            span, place = (begin, end), schema.numbers[index]
            found = self._snapshot.entries(schema.use.name, index.encode(), span, count, is_unique=each.is_unique)
        seen_end = end if len(found) < count else found[-1][0] + b"\0"
        self._ranges.append(RangeCheck(number, place, begin, seen_end, tuple(entry for entry, _ in found)))
        merged = [(entry, key) for entry, key in found if key not in written]
        for _, key in found:
            if key in written:  # else an entry of a unique index might move to another row unnoticed
                self._look(opened, key)
        for key, each_written in written.items():
            entry = schema.place_of(each_written.row, index) if each_written else b""
            if entry and begin <= entry and (not seen_end or entry < seen_end):
                merged.append((entry, key))
        return [key for _, key in sorted(merged)[:limit]]


def _behind(schema: Schema[Any], row: Any, index: str | None) -> bytes:
    place = schema.place_of(row, index)
    if not place:
        raise InvalidSettingError("after", f"this row is not in the index '{index}'")
    return place + b"\0"


def _size(command: Commit) -> int:
    """Bytes of a command, about."""
    size = sum(PART_BYTES + len(check.key) for check in command.checks)
    size += sum(PART_BYTES + len(delete.key) for delete in command.deletes)
    size += sum(PART_BYTES + len(key) for each in command.ranges for key in each.found)
    return size + sum(map(_put_size, command.puts))


def _put_size(put: RowPut) -> int:
    columns = sum(PART_BYTES + len(entry.columns) for entry in put.entries)
    return PART_BYTES + len(put.key) + len(put.json) + columns


@contextmanager
def reading_state() -> Iterator[None]:
    """Raise UnavailableError where the replica has no state to read."""
    try:
        yield
    except StorageError as error:
        raise UnavailableError(f"this replica has no state to read: {error}") from error


def check_schema(verdict: Verdict, use: TableUse) -> None:
    """Raise SchemaTooOldError or SchemaDiffersError for such a verdict."""
    if verdict is Verdict.PROGRAM_TOO_OLD:
        raise SchemaTooOldError(use.name.decode(), use.version)
    if verdict is Verdict.SCHEMA_DIFFERS:
        raise SchemaDiffersError(use.name.decode())


def check_result(command: Commit, result: CommitResult) -> None:
    """Raise the error of a refused command."""
    if result.verdict is Verdict.DONE:
        return
    table, index = result.table.decode(), result.index.decode()
    if result.verdict is Verdict.NOT_UNIQUE:
        puts = (put for put in command.puts if put.key == result.key and command.tables[put.table].name == result.table)
        raise UniqueViolationError(table, index, next(puts).json[:60].decode(errors="replace"))
    if result.verdict is Verdict.CONFLICT:
        read = f"a range of the index '{index}'" if index else f"the row {result.key!r}" if result.key else "a range"
        raise ConflictError(table, read)
    check_schema(result.verdict, next(use for use in command.tables if use.name == result.table))
