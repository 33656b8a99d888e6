"""Tables for asyncio, on a replica of a log in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from trio.testing import MockClock

from tests.database.table.table_world import Account, worlds
from tests.virtuallog.aio.asyncio_world import in_asyncio
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.runtime.bridge.asyncio_bridge import open_bridge
from virtuallog_database.aio.tables import AsyncioTables, AsyncioTableTransaction
from virtuallog_database.table.client import Tables
from virtuallog_database.table.errors import ConflictError, UniqueViolationError


@asynccontextmanager
async def opened() -> AsyncIterator[AsyncioTables]:
    """Tables of a replica that is announced; its time runs fast until then."""
    clock = MockClock(rate=1000)

    @asynccontextmanager
    async def opens() -> AsyncIterator[Tables]:
        async with worlds() as world:
            tables = await world.tables()
            clock.rate = 1
            yield tables

    async with open_bridge(opens, "replica", clock=clock) as found:
        yield AsyncioTables(found.opened, found.bridge)


@in_asyncio
async def test_rows_are_put_and_read() -> None:
    """Each method returns and raises what the trio one does."""
    async with opened() as tables:
        await tables.put(Account("a", owner="ann", email="a@b"))
        await tables.put(Account("b", owner="ann"))
        assert await tables.get(Account, "a", linearizable=True) == Account("a", owner="ann", email="a@b")
        assert [row.id for row in await tables.scan(Account, "ann", index="by_owner")] == ["a", "b"]
        with pytest.raises(UniqueViolationError):
            await tables.put(Account("c", email="a@b"))
        await tables.delete(Account, "b")
        assert await tables.get(Account, "b") is None
        assert await tables.migrate(Account) == 0


@in_asyncio
async def test_a_transaction_happens_or_not() -> None:
    """Its writes are shown in the block, and stored at its end; after an exception or a cancellation nothing is."""
    async with opened() as tables:
        async with tables.transaction() as t:
            await t.put(Account("a", balance=1))
            assert await t.get(Account, "a") == Account("a", balance=1)
            assert len(await t.scan(Account)) == 1
            assert await tables.get(Account, "a") is None
        assert t.number > 0

        async def fail() -> None:
            async with tables.transaction() as t:
                await t.delete(Account, "a")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()

        async def time_out() -> None:
            async with asyncio.timeout(None) as timer, tables.transaction() as t:
                await t.delete(Account, "a")
                timer.reschedule(0)
                await asyncio.get_running_loop().create_future()

        with pytest.raises(TimeoutError):
            await time_out()
        assert await tables.get(Account, "a") == Account("a", balance=1)
        with pytest.raises(RuntimeError, match="has ended"):
            await t.get(Account, "a")


@in_asyncio
async def test_a_conflict_is_raised_or_tried_again() -> None:
    """Two transactions that read and write one row: one is refused; `run` repeats it."""
    async with opened() as tables:
        await tables.put(Account("a", balance=0))

        async def conflict() -> None:
            async with tables.transaction() as t:
                assert await t.get(Account, "a")
                await tables.put(Account("a", balance=5))
                await t.put(Account("a", balance=1))

        with pytest.raises(ConflictError):
            await conflict()
        tries = list[int]()

        async def add(t: AsyncioTableTransaction) -> int:
            tries.append(1)
            row = await t.get(Account, "a")
            assert row is not None
            if len(tries) == 1:
                await tables.put(Account("a", balance=10))
            await t.put(Account("a", balance=row.balance + 1))
            return row.balance + 1

        assert await tables.run(add) == 11
        assert len(tries) == 2
        assert await tables.get(Account, "a", linearizable=True) == Account("a", balance=11)
        with pytest.raises(InvalidSettingError):
            await tables.run(add, tries=0)
