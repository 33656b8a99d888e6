"""Reads while a replica has the lease, and is behind: linearizable reads of the Python API, and
reads after a `sync`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from trio.testing import MockClock

from tests.database.engines.test_lease import WANTED, enabled_over, lagging
from tests.database.engines.world import Running, replicas
from virtuallog_database.client import DatabaseClient, DatabaseHandle, NoNodeError
from virtuallog_database.replica.database import Database


def client(running: Running) -> DatabaseClient:
    database = running.application
    assert isinstance(database, Database)
    access = DatabaseHandle(clock=database.clock, random=database.random, node=running.replica.identity.node)
    access.begin(database)
    return DatabaseClient(access)


async def _nothing_there(reader: DatabaseClient) -> None:
    with pytest.raises(NoNodeError):
        await reader.get("/a", linearizable=True)


@asynccontextmanager
async def deletion_that_the_holder_has_not_applied() -> AsyncIterator[tuple[DatabaseClient, DatabaseClient]]:
    """Clients of the holder and of another replica, where /a is deleted already; the deleting
    client has no answer yet."""
    async with replicas() as world:
        world.make_application = lambda environment: Database(clock=environment.clock, random=environment.random)
        running = [await world.start(1, settings=lagging(WANTED, 0.5)), await world.start(2), await world.start(3)]
        holder, writer, reader = [client(each) for each in running]
        await writer.create("/a")
        await enabled_over(running)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.delete, "/a")
            while await reader.exists("/a") is not None:
                await trio.sleep(0.0001)
            assert await holder.exists("/a") is not None, "the holder is behind"
            yield holder, reader


READS: list[Callable[[DatabaseClient], Awaitable[object]]] = [
    partial(DatabaseClient.exists, path="/a", linearizable=True),
    partial(DatabaseClient.children, path="/", linearizable=True),
    _nothing_there,
]


@pytest.mark.parametrize("read", READS)
async def test_what_is_told_the_holder_has_seen(
    read: Callable[[DatabaseClient], Awaitable[object]], autojump_clock: MockClock
) -> None:
    """A strong read also shows that a znode does not exist (any more)."""
    async with deletion_that_the_holder_has_not_applied() as (holder, reader):
        await read(reader)
        assert await holder.exists("/a", linearizable=True) is None, "what was told, a later read shows"


async def test_a_sync_at_the_holder_asks_the_log(autojump_clock: MockClock) -> None:
    """ZooKeeper's clients tell each other what they have read, wherever: who syncs then sees no less. A lease knows only of writes
    that are completed, and what a plain read shows elsewhere may not be."""
    async with deletion_that_the_holder_has_not_applied() as (holder, reader):
        assert await reader.exists("/a") is None
        await holder.sync()
        assert await holder.exists("/a") is None, "what anybody was told before the sync"
