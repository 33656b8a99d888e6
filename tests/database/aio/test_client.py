"""The client of the tree for asyncio, on a replica of a log in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest

from tests.database.client.test_client import World, worlds
from tests.virtuallog.aio.asyncio_world import in_asyncio
from virtuallog.contract.errors import InvalidSettingError, UnavailableError
from virtuallog.runtime.bridge.asyncio_bridge import AsyncioBridge, open_bridge
from virtuallog_database.aio.client import AsyncioDatabaseClient
from virtuallog_database.client import (
    BadVersionError,
    Changed,
    DatabaseClient,
    Missed,
    NoNodeError,
    SessionExpiredError,
    TransactionError,
)
from virtuallog_database.tree.commands import OPEN_ACL, CloseSession, Mode, Origin
from virtuallog_database.tree.results import ChangeKind


@attrs.define
class Opened:
    """A client of a replica, and the way to its loop."""

    client: AsyncioDatabaseClient
    bridge: AsyncioBridge
    world: World


@asynccontextmanager
async def opened() -> AsyncIterator[Opened]:
    found = list[World]()

    @asynccontextmanager
    async def opens() -> AsyncIterator[DatabaseClient]:
        async with worlds() as world:
            found.append(world)
            yield await world.client()

    async with open_bridge(opens, "replica") as made:
        yield Opened(AsyncioDatabaseClient(made.opened, made.bridge), made.bridge, found[0])


@in_asyncio
async def test_what_is_written_is_read() -> None:
    """Each method returns and raises what the trio one does."""
    async with opened() as w:
        client = w.client
        assert await client.create("/a", b"1") == "/a"
        assert (await client.get("/a", linearizable=True)).data == b"1"
        assert (await client.set("/a", b"2", version=0)).version == 1
        with pytest.raises(BadVersionError):
            await client.set("/a", b"3", version=0)
        assert await client.create("/a/n-", mode=Mode.PERSISTENT_SEQUENTIAL) == "/a/n-0000000000"
        assert await client.children("/a") == ["n-0000000000"]
        assert await client.exists("/b") is None
        assert (await client.set_acl("/a", OPEN_ACL)).aversion == 1
        assert await client.acl("/a") == OPEN_ACL
        await client.sync()
        await client.delete("/a/n-0000000000")
        with pytest.raises(NoNodeError):
            await client.get("/a/n-0000000000")


@in_asyncio
async def test_a_transaction_is_done_or_refused() -> None:
    """Calls are chained, and nothing happens before the commit."""
    async with opened() as w:
        await w.client.create("/a")
        results = await w.client.transaction().check("/a", 0).create("/b", b"1").set("/a", b"2").delete("/b").commit()
        assert results[1] == "/b"
        with pytest.raises(TransactionError):
            await w.client.transaction().set("/a", b"3").check("/a", 7).commit()
        assert (await w.client.get("/a")).data == b"2"


@in_asyncio
async def test_changes_come_in_pieces_and_none_is_lost() -> None:
    """All that wait come with one crossing; a cancelled step loses none; the watch ends with its block."""
    async with opened() as w:
        async with w.client.watch("/", recursive=True) as changes:
            for number in range(50):
                await w.client.create(f"/{number}")
            step = asyncio.ensure_future(anext(changes))
            await asyncio.sleep(0)
            step.cancel()
            with pytest.raises(asyncio.CancelledError):
                await step
            before = w.bridge.trio_wake_ups
            found = [await anext(changes) for _ in range(50)]
            assert w.bridge.trio_wake_ups - before <= 1
            assert [change.path for change in found if isinstance(change, Changed)] == [
                f"/{number}" for number in range(50)
            ]
            step = asyncio.ensure_future(anext(changes))
            await w.client.delete("/7")
            change = await step
            assert isinstance(change, Changed)
            assert (change.kind, change.path) == (ChangeKind.DELETED, "/7")
        assert await w.client.run(watchers_of) == 0


async def watchers_of(client: DatabaseClient) -> int:
    return len(client._handle._listeners)


@in_asyncio
async def test_a_slow_reader_learns_that_it_missed_changes() -> None:
    """The backlog is bounded on the other side."""
    async with opened() as w, w.client.watch("/", recursive=True, backlog=2) as changes:
        for number in range(5):
            await w.client.create(f"/{number}")
        found = [await anext(changes) for _ in range(3)]
        assert isinstance(found[2], Missed)
        assert found[2].count == 3


@in_asyncio
async def test_ephemerals_live_as_long_as_their_block() -> None:
    """Also when the block fails, or is cancelled; a session that ends early says so."""
    async with opened() as w:
        client = w.client
        async with client.session() as session:
            assert await session.create_ephemeral("/e", sequential=True) == "/e0000000000"
            stat = await client.exists("/e0000000000")
            assert stat is not None
            assert stat.ephemeral_owner == session.id
        assert await client.children("/") == ["zookeeper"]

        async def fail() -> None:
            async with client.session() as session:
                await session.create_ephemeral("/e")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()

        async def time_out() -> None:
            async with asyncio.timeout(None) as timer, client.session() as session:
                await session.create_ephemeral("/e")
                timer.reschedule(0)
                await session.wait_expired()

        with pytest.raises(TimeoutError):
            await time_out()
        assert await client.children("/") == ["zookeeper"]
        with pytest.raises(InvalidSettingError):
            await client.session(0.1).__aenter__()

        async with client.session() as session:

            async def end(trio_client: DatabaseClient) -> None:
                await trio_client._handle.database.proposals.execute(CloseSession(session.id), Origin())

            await client.run(end)
            await session.wait_expired()
            assert session.expired
            with pytest.raises(SessionExpiredError):
                await session.create_ephemeral("/e")


@in_asyncio
async def test_a_client_is_closed_within_a_session_of_another_task() -> None:
    """The session is closed, and the body of its block ends with UnavailableError."""
    begun = asyncio.Event()

    async def hold(client: AsyncioDatabaseClient) -> None:
        async with client.session() as session:
            begun.set()
            await session.wait_expired()

    async with opened() as w:
        task = asyncio.create_task(hold(w.client))
        await begun.wait()
    with pytest.raises(UnavailableError, match="unknown outcome"):
        await task
