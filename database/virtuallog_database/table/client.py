"""Client of tables on one replica of the database.

    async with client.tables.transaction() as t:
        account = await t.get(Account, "alice")
        t.put(attrs.evolve(account, balance=account.balance - 10))

Guarantees. Transactions that commit are serializable, in the order of their numbers: each is as if it ran alone at the
moment when its command was applied. One that only reads is as of the moment of its snapshot. With `linearizable=True` that
moment is between beginning and end of the block (strict serializability), else a transaction that only reads may see an
older state. What has been read is checked when the command is applied: rows by their versions, and scans by their keys, so
also a row that was absent, or that appears in a scanned range, is a conflict.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from virtuallog.contract.errors import InvalidSettingError, TooLargeError
from virtuallog_database.replica.database import Database
from virtuallog_database.table.core.commands import Commit
from virtuallog_database.table.errors import ConflictError
from virtuallog_database.table.schema import KeyValue, RowT, Schema, schema_of
from virtuallog_database.table.transaction import (
    SCAN_COUNT,
    SCAN_COUNT_MAX,
    TableTransaction,
    check_result,
    reading_state,
)

if TYPE_CHECKING:  # its package imports this module
    from virtuallog_database.client.database_handle import DatabaseHandle

ResultT = TypeVar("ResultT")

TRIES: Final = 10
"""Times that `run` tries: with the pauses, some seconds of conflicts."""
PAUSE_SECONDS: Final = (0.01, 1.0)
"""Longest pause behind the first conflict, doubled behind each, and the longest of all."""
PAGE_COUNT: Final = 100
"""Rows that `migrate` puts in one transaction."""
PAGE_BYTES: Final = 512 << 10
"""Bytes of upgraded rows after which a page of `migrate` ends. With one row more it fits into a transaction."""


@attrs.define(eq=False)
class Tables:
    """Typed tables. Many tasks may call all methods at once. It follows its replica through its incarnations.

    Writes raise ConflictError, UniqueViolationError, TooLargeError and the errors of `TableTransaction`: nothing was written.
    UnavailableError: unknown outcome. UnsupportedError: a server of the database is of a version without tables. A cancelled
    write may still happen.
    """

    _handle: DatabaseHandle

    @asynccontextmanager
    async def transaction(self, *, linearizable: bool = True) -> AsyncIterator[TableTransaction]:
        """Block whose reads and writes happen at one moment, or its writes never: after an exception nothing is written.

        Keep it short: the store keeps what the block may still read.

        Args:
            linearizable: True: reads show all that was committed before the call, for a tail check. False: they show what
                this replica has applied. Writes are checked in both cases.
        """
        transaction = await self._begin(linearizable)
        try:
            yield transaction
        finally:
            transaction.end()
        command = transaction.command()
        if command is not None:
            transaction.number = await _commit(self._handle.database, command)

    async def run(
        self,
        function: Callable[[TableTransaction], Awaitable[ResultT]],
        *,
        tries: int = TRIES,
        linearizable: bool = True,
    ) -> ResultT:
        """Result of a function of a transaction, called again after each conflict. It must have no other effects.

        Raises:
            ConflictError: the last of so many tries has met one, too.
        """
        if tries < 1:
            raise InvalidSettingError("tries", "must be at least 1")
        pause = PAUSE_SECONDS[0]
        while True:
            tries -= 1
            try:
                async with self.transaction(linearizable=linearizable) as transaction:
                    return await function(transaction)
            except ConflictError:
                if not tries:
                    raise
            pause = await self.pause_behind_conflict(pause)

    async def pause_behind_conflict(self, pause: float) -> float:
        """Wait at random for up to `pause` seconds. Returns the longest pause behind the next conflict."""
        await self._handle.clock.sleep(self._handle.random.uniform(0, pause))
        return min(PAUSE_SECONDS[1], 2 * pause)

    async def get(self, kind: type[RowT], *key: KeyValue, linearizable: bool = False) -> RowT | None:
        """The row with this primary key; None if there is none. See `TableTransaction.get`."""
        transaction = await self._begin(linearizable)
        return await transaction.get(kind, *key)

    async def scan(
        self,
        kind: type[RowT],
        *prefix: KeyValue,
        index: str | None = None,
        start: KeyValue | None = None,
        stop: KeyValue | None = None,
        after: RowT | None = None,
        limit: int = SCAN_COUNT,
        linearizable: bool = False,
    ) -> list[RowT]:
        """Rows as of one moment, in the order of the primary key or of an index. See `TableTransaction.scan`."""
        transaction = await self._begin(linearizable)
        return await transaction.scan(kind, *prefix, index=index, start=start, stop=stop, after=after, limit=limit)

    async def put(self, row: RowT) -> None:
        """Put a row, in the place of any row with its primary key."""
        async with self.transaction(linearizable=False) as transaction:
            transaction.put(row)

    async def delete(self, kind: type[RowT], *key: KeyValue) -> None:
        """Delete a row, if it exists."""
        async with self.transaction(linearizable=False) as transaction:
            transaction.delete(kind, *key)

    async def migrate(self, kind: type[RowT], *, page_rows: int = PAGE_COUNT) -> int:
        """Rewrite all rows of lower versions of the schema, page by page, while the table is used. Returns their number.

        With the first rows that it puts the table has this version: programs of lower versions are refused from then on. At its end
        all indices are complete. It may be cancelled, repeated, and run by several programs at once.

        Args:
            kind: class of the rows.
            page_rows: most rows of one transaction.

        Raises:
            UniqueViolationError: two rows have the same values in a new unique index: change one, and repeat.
            InvalidSettingError, MalformedError, TooLargeError: a row cannot be upgraded. Rows before it may have been.
        """
        if not 1 <= page_rows <= SCAN_COUNT_MAX:
            raise InvalidSettingError("page_rows", f"must be from 1 to {SCAN_COUNT_MAX}")
        schema, count, start = schema_of(kind), 0, b""
        head = self._handle.database.tables.head(schema.use.name)
        if head is not None and head.version == head.complete == schema.version:
            return 0
        if head is None or head.version < schema.version:
            # The first page raises the version. Meanwhile a program of a lower one may put rows into it, so all begins anew.
            count, _ = await self._upgrade(schema, start, page_rows)
            if not count:
                await _commit(self._handle.database, Commit(tables=(attrs.evolve(schema.use, raises=True),)))
        while True:
            upgraded, following = await self._upgrade(schema, start, page_rows)
            count += upgraded
            if following is None:
                break
            start = following
        await _commit(self._handle.database, Commit(tables=(attrs.evolve(schema.use, completes=True),)))
        return count

    async def _upgrade(self, schema: Schema[RowT], start: bytes, rows: int) -> tuple[int, bytes | None]:
        """Upgrade a page, and one of fewer rows if a row of it is too large, so that only that row is left. Returns the number of
        rows, and the beginning of the next page."""
        while True:
            # A conflict is with a writer of this version or a later one: its row is done, so there is at most one for each row.
            page = partial(_upgraded_page, schema.kind, start, rows)
            try:
                return await self.run(page, tries=rows + 1)
            except TooLargeError:
                if rows == 1:
                    raise
            rows //= 2

    async def _begin(self, linearizable: bool) -> TableTransaction:
        database = self._handle.database
        if linearizable:
            await database.prepare_read()
        with reading_state():
            state = database.snapshot_tables()
        if linearizable:
            await database.confirm()
        return TableTransaction(state)


async def _upgraded_page(
    kind: type[RowT], start: bytes, count: int, transaction: TableTransaction
) -> tuple[int, bytes | None]:
    with reading_state():
        return transaction.upgrade_page(schema_of(kind), start, count, PAGE_BYTES)


async def _commit(database: Database, command: Commit) -> int:
    result = await database.commit_tables(command)
    check_result(command, result)
    return result.number
