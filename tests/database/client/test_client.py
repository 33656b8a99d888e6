"""The Python API of the tree, on replicas of a log in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.database.engines.world import Replicas, Running, replicas
from virtuallog.contract.errors import InvalidSettingError, RetryableError, StorageError, UnavailableError
from virtuallog_database.client import (
    BadVersionError,
    Changed,
    DatabaseClient,
    DatabaseHandle,
    Missed,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    TransactionError,
)
from virtuallog_database.client.errors import DatabaseError, refusal
from virtuallog_database.replica.database import Database
from virtuallog_database.testing.memory_store import MemoryDisk
from virtuallog_database.tree.commands import Acl, CloseSession, Mode, Origin, Permission
from virtuallog_database.tree.results import ChangeKind, Error


def database_of(running: Running) -> Database:
    found = running.application
    assert isinstance(found, Database)
    return found


@attrs.define
class World:
    """Replicas, and clients of them."""

    replicas: Replicas
    access: dict[int, DatabaseHandle] = attrs.field(factory=dict)

    async def client(self, node: int = 1, disk: MemoryDisk | None = None) -> DatabaseClient:
        """Client of the started replica of this node."""
        database = database_of(await self.replicas.start(node, disk))
        self.access[node] = access = DatabaseHandle(clock=database.clock, random=database.random, node=node)
        access.begin(database)
        return DatabaseClient(access)


@asynccontextmanager
async def worlds() -> AsyncIterator[World]:
    async with replicas() as found:
        found.make_application = lambda environment: Database(clock=environment.clock, random=environment.random)
        yield World(found)


async def test_what_is_written_is_read(autojump_clock: MockClock) -> None:
    """By the one who wrote it at once, by others with a linearizable read."""
    async with worlds() as w:
        one, two = await w.client(1), await w.client(2)
        assert await one.create("/a", b"1") == "/a"
        assert (await one.get("/a")).data == b"1"
        assert (await two.get("/a", linearizable=True)).data == b"1"
        stat = await two.set("/a", b"2", version=0)
        assert stat.version == 1
        assert await one.exists("/a", linearizable=True) == stat
        assert await one.create("/a/n-", mode=Mode.PERSISTENT_SEQUENTIAL) == "/a/n-0000000000"
        assert await two.children("/a", linearizable=True) == ["n-0000000000"]
        await two.delete("/a/n-0000000000")
        await two.delete("/a", version=1)
        assert await two.exists("/a") is None


async def test_a_local_read_may_be_older_and_a_sync_makes_up_for_it(autojump_clock: MockClock) -> None:
    """It never asks the log: what another replica has written in the same instant is not there yet."""
    async with worlds() as w:
        one, two = await w.client(1), await w.client(2)
        await one.create("/a")
        assert await two.exists("/a") is None
        await two.sync()
        assert await two.exists("/a") is not None


async def test_refusals_are_exceptions_of_their_own(autojump_clock: MockClock) -> None:
    """Each says where, and what ZooKeeper would call it; none is a reason to try again."""
    async with worlds() as w:
        client = await w.client()
        await client.create("/a")
        await client.create("/a/b")
        for error, call in (
            (NodeExistsError, client.create("/a")),
            (NoNodeError, client.create("/x/y")),
            (NoNodeError, client.get("/x")),
            (NoNodeError, client.children("/x")),
            (BadVersionError, client.set("/a", b"", version=7)),
            (NotEmptyError, client.delete("/a")),
        ):
            with pytest.raises(error) as raised:
                await call
            assert raised.value.path in {"/a", "/x", "/x/y"}
            assert not isinstance(raised.value, RetryableError)
        assert str(refusal(Error.NO_NODE, "/x")) == "/x: no node"


def test_every_error_of_the_tree_has_an_exception() -> None:
    """One that has no class of its own still says what it is."""
    for error in Error:
        raised = refusal(error, "/a")
        assert isinstance(raised, DatabaseError)
        assert raised.error is error


async def test_acls_bind_a_client_that_says_who_it_is(autojump_clock: MockClock) -> None:
    """This client has no identity of its own."""
    async with worlds() as w:
        client = await w.client()
        await client.create("/a", acl=(Acl(int(Permission.READ), "world", "anyone"),))
        assert (await client.acl("/a"))[0].permissions == Permission.READ
        with pytest.raises(DatabaseError) as raised:
            await client.set("/a", b"")
        assert raised.value.error is Error.NO_AUTH


async def test_a_transaction_is_done_as_a_whole(autojump_clock: MockClock) -> None:
    """Later operations see what earlier ones do; all have one zxid."""
    async with worlds() as w:
        client = await w.client()
        await client.create("/a")
        created, stat, nothing, checked = await (
            client.transaction().create("/a/b", b"1").set("/a", b"2").delete("/a/b").check("/a", 1).commit()
        )
        assert (created, nothing, checked) == ("/a/b", None, None)
        assert (await client.get("/a")) == (b"2", await client.exists("/a"))
        assert stat.version == 1


async def test_a_transaction_that_is_refused_changes_nothing(autojump_clock: MockClock) -> None:
    """It says which operation was the reason."""
    async with worlds() as w:
        client = await w.client()
        await client.create("/a")
        with pytest.raises(TransactionError) as raised:
            await client.transaction().set("/a", b"2").check("/a", 7).create("/b").commit()
        assert (raised.value.index, raised.value.path, raised.value.error) == (1, "/a", Error.BAD_VERSION)
        assert [result.error for result in raised.value.results][1] is Error.BAD_VERSION
        assert (await client.get("/a")).data == b""
        assert await client.exists("/b") is None


async def test_a_watch_tells_of_changes_in_their_order(autojump_clock: MockClock) -> None:
    """A watch on one znode, or on a whole tree; nothing comes after the block."""
    async with worlds() as w:
        client = await w.client()
        async with client.watch("/a") as changes, client.watch("/", recursive=True) as everything:
            await client.create("/a")
            await client.set("/a", b"1")
            await client.create("/a/b")
            kinds = [(await anext(changes)) for _ in range(3)]
            assert [(each.kind, each.path) for each in kinds if isinstance(each, Changed)] == [
                (ChangeKind.CREATED, "/a"), (ChangeKind.DATA_CHANGED, "/a"), (ChangeKind.CHILDREN_CHANGED, "/a"),
            ]  # fmt: skip
            paths = [(await anext(everything)) for _ in range(3)]
            assert [each.path for each in paths if isinstance(each, Changed)] == ["/a", "/a", "/a/b"]
        assert w.access[1].database.watches.count == 0


async def test_a_slow_reader_hears_that_it_has_missed_something(autojump_clock: MockClock) -> None:
    """`Missed` stands where the changes would have stood, with their number: a read then shows them
    all."""
    async with worlds() as w:
        client = await w.client()
        await client.create("/a")
        async with client.watch("/a", backlog=2) as changes:
            for number in range(5):
                stat = await client.set("/a", b"%d" % number)
            assert [type(await anext(changes)) for _ in range(2)] == [Changed, Changed]
            assert await anext(changes) == Missed(3, stat.mzxid)
            await client.set("/a", b"last")
            assert isinstance(await anext(changes), Changed)


async def test_a_watch_waits_for_the_next_change(autojump_clock: MockClock) -> None:
    """A watch fires at a change by any replica; a cancelled wait loses nothing."""
    async with worlds() as w:
        one, two = await w.client(1), await w.client(2)
        async with one.watch("/a") as changes:
            with trio.move_on_after(1) as scope:
                await anext(changes)
            assert scope.cancelled_caught
            await two.create("/a")
            assert await anext(changes) == Changed(ChangeKind.CREATED, "/a", 1)


async def test_ephemerals_live_as_long_as_their_session(autojump_clock: MockClock) -> None:
    """The end of the block is the end of the session; others see that at once."""
    async with worlds() as w:
        one, two = await w.client(1), await w.client(2)
        async with one.session(timeout_seconds=5) as session:
            assert session.id >> 56 == 1
            path = await session.create_ephemeral("/here", b"1")
            found = await two.exists(path, linearizable=True)
            assert found is not None
            assert found.ephemeral_owner == session.id
            await trio.sleep(60)
            assert not session.expired
            assert await two.exists(path, linearizable=True) is not None
        assert await two.exists(path, linearizable=True) is None


async def test_a_session_that_was_ended_elsewhere_says_so(autojump_clock: MockClock) -> None:
    """Its writes fail from then on, and a task that waits for the expiry wakes."""
    async with worlds() as w:
        one, two = await w.client(1), await w.client(2)
        async with one.session() as session:
            await two.sync()
            await w.access[2].database.proposals.execute(CloseSession(session.id), Origin(session.id, 1))
            await session.wait_expired()
            assert session.expired
            with pytest.raises(SessionExpiredError):
                await session.create_ephemeral("/here")
        assert await one.exists("/here") is None


async def test_a_transaction_of_a_session_that_is_over_says_so(autojump_clock: MockClock) -> None:
    """The session is refused, no operation, even if this replica learns of the end only from the answer."""
    async with worlds() as w:
        one, _ = await w.client(1), await w.client(2)
        async with one.session() as session:
            await w.access[2].database.sync()
            await w.access[2].database.proposals.execute(CloseSession(session.id), Origin(session.id, 1))
            assert not session.expired
            with pytest.raises(SessionExpiredError):
                await session.transaction().create("/here").commit()


@pytest.mark.parametrize("seconds", [-1, 0, 0.0004, 1.9, 1e9, float("nan"), float("inf")])
async def test_a_session_has_a_timeout_that_can_be_kept(autojump_clock: MockClock, seconds: float) -> None:
    """One of no time would be kept alive without a pause, and one below two seconds ends between two signs of life."""
    async with worlds() as w:
        client = await w.client()
        with pytest.raises(InvalidSettingError, match="timeout_seconds"):
            async with client.session(seconds):
                raise AssertionError


async def test_numbers_that_no_znode_has_are_refused_for_what_they_are(autojump_clock: MockClock) -> None:
    """Before they are offered to the log; the message names no limit of texts."""
    async with worlds() as w:
        client = await w.client()
        for call in (client.set("/", b"", 1 << 40), client.create("/a", mode=cast("Mode", -(1 << 40)))):
            with pytest.raises(InvalidSettingError, match="number"):
                await call


async def test_a_stream_of_changes_is_for_one_block(autojump_clock: MockClock) -> None:
    """Entered within its own block it says so at once, and the watch stays; after the block it can be entered anew."""
    async with worlds() as w:
        client = await w.client()
        changes = client.watch("/a")
        async with changes:
            with pytest.raises(trio.BusyResourceError):
                await changes.__aenter__()
            await client.create("/a")
            assert isinstance(await anext(changes), Changed)
        async with changes:
            await client.delete("/a")
            assert isinstance(await anext(changes), Changed)


async def test_without_a_replica_there_is_nothing_to_read(autojump_clock: MockClock) -> None:
    """Unavailable, as for writes: the store is closed or has failed. The owner of the replica learns which; a reader can only
    try again."""
    async with worlds() as w:
        disk = MemoryDisk()
        client = await w.client(disk=disk)
        await client.create("/a")
        disk.failure = lambda: StorageError("worn out")
        with pytest.raises(UnavailableError):
            await client.set("/a", b"")
        for read in (client.get, client.exists, client.children, client.acl):
            with pytest.raises(UnavailableError):
                await read("/a")


async def test_a_new_life_keeps_sessions_and_tells_watches_that_they_missed_something(
    autojump_clock: MockClock,
) -> None:
    """When a snapshot was put under the replica, its soft state is gone; who has something there begins anew."""
    async with worlds() as w:
        one, access = await w.client(1), w.access[1]
        async with one.session(timeout_seconds=5) as session, one.watch("/a") as changes:
            await session.create_ephemeral("/here")
            other = database_of(await w.replicas.start(2))  # stands for the same node, with another store
            await other.sync()  # as a host does before clients may use it
            access.begin(other)
            assert await anext(changes) == Missed(0, access.database.tree.last_zxid)
            await one.create("/a")
            assert isinstance(await anext(changes), Changed)
            await trio.sleep(60)
            assert not session.expired
            assert await one.exists("/here", linearizable=True) is not None
