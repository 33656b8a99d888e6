"""The database on replicas of a log: what its users see, on one replica and on the others."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from trio.testing import MockClock

from tests.database.engines.world import Replicas, Running, replicas
from tests.database.tree.world import Recorder
from virtuallog.contract.errors import TooLargeError, UnavailableError, VirtualLogError
from virtuallog.contract.ports import Environment
from virtuallog_database.replica.database import Database, UpkeepSettings
from virtuallog_database.testing.memory_store import MemoryDisk
from virtuallog_database.tree.commands import Acl, Create, CreateSession, Delete, Mode, Operation, Origin, SetData
from virtuallog_database.tree.results import ChangeKind, Error, RefusedError, Result
from virtuallog_database.tree.watches import WatchMode

CREATED, DELETED, DATA, CHILDREN = ChangeKind


def database(environment: Environment) -> Database:
    return Database(
        clock=environment.clock, random=environment.random, settings=UpkeepSettings(reap_seconds=20)
    )  # fmt: skip


@asynccontextmanager
async def databases() -> AsyncIterator[Replicas]:
    async with replicas() as found:
        found.make_application = database
        yield found


def of(running: Running) -> Database:
    found = running.application
    assert isinstance(found, Database)
    return found


async def test_commands_are_seen_everywhere_after_a_sync(autojump_clock: MockClock) -> None:
    """Commands are seen at once at their proposer, and elsewhere after a sync."""
    async with databases() as r:
        one, two = of(await r.start(1)), of(await r.start(2))
        result = await one.proposals.execute(Create("/a", b"1"))
        assert one.tree.get_data("/a", ())[0] == b"1"
        assert one.tree.last_zxid == result.zxid
        await two.sync()
        assert two.tree.exists("/a") == result.value.stat
        assert (await two.proposals.execute(Create("/a", b""))).error is Error.NODE_EXISTS


async def test_watches_fire_on_every_replica_before_the_command_is_answered(autojump_clock: MockClock) -> None:
    """In the order of zxids, and only then the proposer hears."""
    async with databases() as r:
        one, two = of(await r.start(1)), of(await r.start(2))
        here, there = Recorder(), Recorder()
        for each, watcher in ((one, here), (two, there)):
            each.watches.add("/", watcher, WatchMode.PERSISTENT_RECURSIVE)
        seen: list[int] = []
        done = trio.Event()

        def told(outcome: Result | VirtualLogError) -> None:
            seen.append(len(here.events))
            if len(seen) == 3:
                done.set()

        for operation in (Create("/a", b""), SetData("/a", b"1"), Delete("/a")):
            one.proposals.submit(operation, Origin(), told)
        await done.wait()
        assert all(events > number for number, events in enumerate(seen))
        await two.sync()
        assert here.events == there.events == [(CREATED, "/a"), (DATA, "/a"), (DELETED, "/a")]


async def test_watches_of_a_client_that_comes_back(autojump_clock: MockClock) -> None:
    """Missed changes fire at once, the rest is set (ZooKeeper's setWatches)."""
    async with databases() as r:
        one, watcher = of(await r.start()), Recorder()
        for path in ("/same", "/changed", "/parent"):
            seen = (await one.proposals.execute(Create(path, b""))).zxid
        await one.proposals.execute(SetData("/changed", b""))
        await one.proposals.execute(Create("/parent/new", b""))
        one.set_watches(
            watcher, seen, data=["/same", "/changed", "/gone"], exist=["/parent/new", "/none"],
            child=["/same", "/parent", "/gone"], persistent=["/p"], recursive=["/r"],
        )  # fmt: skip
        assert watcher.take() == [
            (DATA, "/changed"), (DELETED, "/gone"), (CREATED, "/parent/new"), (CHILDREN, "/parent"), (DELETED, "/gone"),
        ]  # fmt: skip
        for operation in (
            SetData("/same", b""),
            Create("/none", b""),
            Create("/same/x", b""),
            Create("/p", b""),
            Create("/r/", b""),
        ):
            await one.proposals.execute(operation)
        assert watcher.take() == [(DATA, "/same"), (CREATED, "/none"), (CHILDREN, "/same"), (CREATED, "/p")]


def _now() -> dict[str, float]:
    """The times of a command that is applied as soon as it is proposed."""
    return {"proposed": trio.current_time(), "now": trio.current_time()}


def _note(told: list[tuple[int, Error]], session: int, error: Error) -> None:
    told.append((session, error))


async def test_a_silent_session_expires_on_every_replica(autojump_clock: MockClock) -> None:
    """One that is heard of at its server lives on, also as the others see it."""
    async with databases() as r, trio.open_nursery() as nursery:
        one, two = of(await r.start(1)), of(await r.start(2))
        for each in (one, two):
            await nursery.start(each.run)
        told: list[tuple[int, Error]] = []
        for session in (1, 2):
            assert (await one.proposals.execute(CreateSession(session, b"", 4000))).error is Error.OK
            ended = partial(_note, told, session)
            one.expiry.attach(session, 1, ended, **_now())
            await one.proposals.execute(Create(f"/e{session}", b"", mode=Mode.EPHEMERAL), Origin(session, 1))
        for _ in range(12):
            one.expiry.heard(2, trio.current_time())
            await trio.sleep(1)
        assert told == [(1, Error.SESSION_EXPIRED)]
        assert list(two.tree.sessions()) == [2]
        assert two.tree.get_ephemerals(2, "/") == ["/e2"]
        with pytest.raises(RefusedError):
            two.tree.exists("/e1")
        nursery.cancel_scope.cancel()


async def test_the_sessions_of_a_server_that_died_expire_as_well(autojump_clock: MockClock) -> None:
    """Some other server proposes it."""
    async with databases() as r, trio.open_nursery() as nursery:
        first = await r.start(1)
        two = of(await r.start(2))
        await nursery.start(two.run)
        await of(first).proposals.execute(CreateSession(1, b"", 4000))
        of(first).expiry.attach(1, 1, lambda error: None, **_now())
        await first.crash()
        await trio.sleep(4)
        assert list(two.tree.sessions()) == [1]
        await trio.sleep(6)
        assert list(two.tree.sessions()) == []
        nursery.cancel_scope.cancel()


async def test_while_the_log_cannot_be_asked_nobody_expires(autojump_clock: MockClock) -> None:
    """No session could be heard; afterwards all have their timeout anew."""
    async with databases() as r, trio.open_nursery() as nursery:
        one = of(await r.start(1))
        await nursery.start(one.run)
        await one.proposals.execute(CreateSession(1, b"", 4000))
        one.expiry.attach(1, 1, lambda error: None, **_now())
        r.provider.tail_seconds = 60.0
        await trio.sleep(90)
        r.provider.tail_seconds = 0.0
        assert list(one.tree.sessions()) == [1]
        await trio.sleep(40)
        assert list(one.tree.sessions()) == []
        nursery.cancel_scope.cancel()


async def test_what_nobody_needs_is_reaped(autojump_clock: MockClock) -> None:
    """Containers that have emptied, and znodes whose time is over."""
    async with databases() as r, trio.open_nursery() as nursery:
        one = of(await r.start())
        await nursery.start(one.run)
        for operation in (
            Create("/c", b"", mode=Mode.CONTAINER), Create("/c/x", b""), Delete("/c/x"), Create("/d", b"", mode=Mode.CONTAINER),
            Create("/t", b"", mode=Mode.TTL, ttl_ms=1000), Create("/u", b"", mode=Mode.TTL, ttl_ms=10**9),
        ):  # fmt: skip
            await one.proposals.execute(operation)
        await trio.sleep(70)
        assert one.tree.get_children("/", ())[0] == ["d", "u", "zookeeper"]
        nursery.cancel_scope.cancel()


async def test_what_cannot_be_proposed_is_refused_at_once(autojump_clock: MockClock) -> None:
    """Nothing reaches the log; the outcome of what has reached it may be unknown."""
    async with databases() as r:
        running = await r.start()
        one = of(running)
        with pytest.raises(TooLargeError):
            await one.proposals.execute(Create("/a", b"", (Acl(1, "digest", "x" * 70_000),)))
        r.provider.deaf = True
        with pytest.raises(UnavailableError):
            await one.proposals.execute(Create("/a", b""))
        r.provider.deaf = False


async def test_figures(autojump_clock: MockClock) -> None:
    """From the state, and from what this server serves."""
    async with databases() as r:
        one = of(await r.start())
        await one.proposals.execute(CreateSession(5, b"", 4000))
        one.expiry.attach(5, 1, lambda error: None, **_now())
        await one.proposals.execute(Create("/e", b"123", mode=Mode.EPHEMERAL), Origin(5, 1))
        one.watches.data.add("/e", Recorder())
        assert {family.name.removeprefix("virtuallog_database_"): family.samples[0].value for family in one.metrics()} == {
            "zxid": 2, "znodes": 5, "ephemerals": 1, "sessions": 1, "attached_sessions": 1, "data_bytes": 3, "watches": 1,
            "outstanding_commands": 0,
        }  # fmt: skip


def workload(chance: random.Random, count: int) -> list[tuple[Operation, Origin]]:
    """Commands of all kinds, many of them refused."""
    found: list[tuple[Operation, Origin]] = [(CreateSession(session, b"p", 4000), Origin()) for session in (1, 2)]
    for _ in range(count):
        path = "/" + "/".join(chance.choices("abc", k=chance.randint(1, 2)))
        session = chance.choice([0, 1, 2])
        mode = chance.choice([Mode.PERSISTENT, Mode.EPHEMERAL, Mode.PERSISTENT_SEQUENTIAL, Mode.CONTAINER])
        data = chance.choice([None, chance.randbytes(2)])
        choices: list[Operation] = [
            Create(path, data, mode=mode),
            Delete(path),
            SetData(path, data),
            SetData(path, data, 1),
        ]
        found.append((chance.choice(choices), Origin(session, 1 if session else 0)))
    return found


@pytest.mark.parametrize("seed", range(4))
async def test_equal_prefixes_make_equal_stores_whatever_crashed_where(seed: int, autojump_clock: MockClock) -> None:
    """Invariant I8. One replica crashes at some places and loses what it had not flushed; in the end not one byte differs."""
    chance = random.Random(seed)
    async with databases() as r:
        steady, disk = await r.start(1), MemoryDisk()
        shaky = await r.start(2, disk)
        for operation, origin in workload(chance, 150):
            await of(steady).proposals.execute(operation, origin)
            if chance.random() < 0.1:
                await disk.open().flush()
            if chance.random() < 0.04:
                await shaky.crash(chance)
                shaky = await r.start(2, disk)
        for each in (steady, shaky):
            await each.replica.sync()
        stores = [
            {key: value for key, value in each.disk.content.pairs.items() if not key.startswith(b"\0")}
            for each in (steady, shaky)
        ]
        assert len(stores[0]) > 10
        assert stores[0] == stores[1]
        assert of(steady).tree.last_zxid == of(shaky).tree.last_zxid == 152
