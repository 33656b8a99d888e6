"""Typed tables for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import attrs

from virtuallog.contract.errors import InvalidSettingError
from virtuallog.runtime.bridge.asyncio_bridge import AsyncioBridge
from virtuallog_database.table.client import PAGE_COUNT, PAUSE_SECONDS, TRIES, Tables
from virtuallog_database.table.errors import ConflictError
from virtuallog_database.table.schema import KeyValue, RowT
from virtuallog_database.table.transaction import SCAN_COUNT, TableTransaction

ResultT = TypeVar("ResultT")


@attrs.define(eq=False)
class AsyncioTables:
    """Tables for asyncio. Many tasks may call all methods at once. A cancelled write may still happen."""

    _tables: Tables
    _bridge: AsyncioBridge

    @asynccontextmanager
    async def transaction(self, *, linearizable: bool = True) -> AsyncIterator[AsyncioTableTransaction]:
        """See `Tables.transaction`. Each read and write takes a way to the other loop."""
        opens = partial(self._tables.transaction, linearizable=linearizable)
        async with self._bridge.hold(opens) as transaction:
            yield AsyncioTableTransaction(transaction, self._bridge)

    async def run(
        self,
        function: Callable[[AsyncioTableTransaction], Awaitable[ResultT]],
        *,
        tries: int = TRIES,
        linearizable: bool = True,
    ) -> ResultT:
        """See `Tables.run`. The function runs on asyncio's loop."""
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
            pause = await self._bridge.wait(self._tables.pause_behind_conflict, pause)

    async def get(self, kind: type[RowT], *key: KeyValue, linearizable: bool = False) -> RowT | None:
        """See `Tables.get`."""
        return await self._bridge.call(partial(self._tables.get, kind, *key, linearizable=linearizable))

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
        """See `Tables.scan`."""
        scan = partial(
            self._tables.scan,
            kind,
            *prefix,
            index=index,
            start=start,
            stop=stop,
            after=after,
            limit=limit,
            linearizable=linearizable,
        )
        return await self._bridge.call(scan)

    async def put(self, row: RowT) -> None:
        """See `Tables.put`."""
        await self._bridge.call(self._tables.put, row)

    async def delete(self, kind: type[RowT], *key: KeyValue) -> None:
        """See `Tables.delete`."""
        await self._bridge.call(self._tables.delete, kind, *key)

    async def migrate(self, kind: type[RowT], *, page_rows: int = PAGE_COUNT) -> int:
        """See `Tables.migrate`."""
        return await self._bridge.call(partial(self._tables.migrate, kind, page_rows=page_rows))


@attrs.define(eq=False)
class AsyncioTableTransaction:
    """A TableTransaction for asyncio; made by `AsyncioTables.transaction`; for one task. `put` and `delete` are awaited here."""

    _transaction: TableTransaction
    _bridge: AsyncioBridge

    @property
    def number(self) -> int:
        """See `TableTransaction.number`."""
        return self._transaction.number

    async def get(self, kind: type[RowT], *key: KeyValue) -> RowT | None:
        """See `TableTransaction.get`."""
        return await self._bridge.call(self._transaction.get, kind, *key)

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
        """See `TableTransaction.scan`."""
        scan = partial(
            self._transaction.scan, kind, *prefix, index=index, start=start, stop=stop, after=after, limit=limit
        )
        return await self._bridge.call(scan)

    async def put(self, row: RowT) -> None:
        """See `TableTransaction.put`."""
        await self._bridge.call_sync(self._transaction.put, row)

    async def delete(self, kind: type[RowT], *key: KeyValue) -> None:
        """See `TableTransaction.delete`."""
        await self._bridge.call_sync(self._transaction.delete, kind, *key)
