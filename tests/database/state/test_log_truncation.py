"""State in the replicated log of Mesos: crashes, truncation, and clients that read a log which is truncated meanwhile."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from tests.database.state.clients import cancelled_at, storages
from tests.database.state.log_world import ONE, TWO, append, held, state, stored, value
from tests.loglets.paxos.world import playing
from tests.metastore.world import simulated
from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog_database.state.core.log_records import DiffRecord, SnapshotRecord
from virtuallog_database.state.errors import StaleVersionError
from virtuallog_database.state.storages import replicated_log
from virtuallog_database.state.storages.replicated_log import ReplicatedLogStorage
from virtuallog_database.state.variable import Variable
from virtuallog_loglets.paxos.messages import PaxosWrite
from virtuallog_loglets.paxos.standalone import linearizable_read
from virtuallog_loglets.paxos.standalone.log import Log
from virtuallog_loglets.paxos.standalone.reader import LogReader


@simulated
async def test_a_crash_anywhere_in_a_write() -> None:
    """Before the record, between it and the truncation, behind both: another client reads the value before or behind, and writes on; so does
    the one that crashed, after its restart."""
    for wait in range(1, 100):
        async with playing(replicas=3) as world:
            settings = {"slack_bytes": 0, "diffs_between_snapshots": 0}
            storage, other, _ = await storages(world, 1, 2, 3, **settings)
            await stored(storage, "other", b"kept")
            zero = await stored(storage, "name", bytes(1000))
            assert await storage.set("name", ONE, zero.version, may_create=False)
            world.requests.clear()

            was_cancelled = await cancelled_at(wait, partial(storage.set, "name", TWO, ONE.version, may_create=False))
            writes = world.count(PaxosWrite, to=1)
            world.kill(1)

            found = await other.get("name")
            assert found in (ONE, TWO)
            (anew,) = await storages(world, 1, **settings)
            assert await anew.get("name") == found
            for each, number in ((other, b"3"), (anew, b"4")):
                last = await stored(each, "name", number)
            assert await state(other).fetch("name") == last
            assert await value(anew, "other") == b"kept"
        if not was_cancelled:
            break
    assert wait > 3
    assert writes == 3  # the record; the other name, moved to the tail; the TRUNCATE


@simulated
async def test_a_base_that_another_writer_truncated() -> None:
    """Defect 9: an old owner has an image, and the new one drops what it rests on. The old one begins anew, and writes no difference to a
    value that is gone."""
    async with playing(replicas=3) as world:
        old, new, away = await storages(world, 1, 2, 3, slack_bytes=0)
        mine = await stored(old, "name", bytes(1000))
        await stored(old, "gone", b"gone")
        assert await value(away, "gone") == b"gone"
        world.separate(3, 1, 2)
        await state(new).expunge(await state(new).fetch("gone"))
        theirs = await stored(new, "name", b"new" * 1000)
        begin = await LogReader(new._log).beginning()
        for number in range(5):
            theirs = await state(new).store(theirs.mutate(theirs.value + b"%d" % number))
        assert begin.value > 2

        with pytest.raises(StaleVersionError):
            await state(old).store(mine.mutate(bytes(1001)))
        assert await state(old).fetch("name") == theirs
        last = await state(old).store(theirs.mutate(theirs.value + b"!"))
        assert isinstance((await held(old))[-1], DiffRecord)
        world.separate(3, 1, 2, blocked=False)

        for storage in (new, away):
            assert await state(storage).fetch("name") == last
            assert await storage.names() == {"name"}


@simulated
async def test_a_log_that_lacks_a_base_is_refused() -> None:
    """Nothing else has been truncated, so the value of the name is lost. That is no name without a value."""
    async with playing(replicas=3) as world:
        storage, other, _ = await storages(world, 1, 2, 3)
        await append(storage._log, DiffRecord.between("name", ONE, TWO).encode())
        for _ in range(2):
            with pytest.raises(CorruptionError):
                await storage.get("name")
            with pytest.raises(CorruptionError):
                await other.set("name", TWO, b"", may_create=True)


@simulated
async def test_a_truncated_log_that_lacks_a_base_is_refused() -> None:
    """The same, of a log whose beginning is gone. One that begins with changes of no use is read."""
    async with playing(replicas=3) as world:
        storage, other, _ = await storages(world, 1, 2, 3)
        for name, written in (("name", bytes(1000)), ("other", b""), ("name", bytes(1001)), ("name", b"short")):
            await stored(storage, name, written)
        await storage._truncate()
        assert [type(each) for each in await held(storage)] == [SnapshotRecord, DiffRecord, SnapshotRecord]
        assert await other.names() == {"name", "other"}
        await append(storage._log, DiffRecord.between("lost", ONE, TWO).encode())
        for each in (storage, other, ReplicatedLogStorage(other._log)):
            with pytest.raises(CorruptionError, match="lost"):
                await each.get("name")


@simulated
async def test_a_log_of_another_program_is_not_touched() -> None:
    """Nothing is written to it, and nothing truncated."""
    async with playing(replicas=3) as world:
        storage, *_ = await storages(world, 1, 2, 3)
        await append(storage._log, b"theirs")
        for _ in range(2):
            with pytest.raises(MalformedError):
                await storage.names()
            with pytest.raises(MalformedError):
                await storage.set("name", ONE, b"", may_create=True)
        reader = LogReader(storage._log)
        found = await reader.read(await reader.beginning(), await reader.ending())
        assert [entry.data for entry in found] == [b"theirs"]


@simulated
async def test_a_rarely_written_name_does_not_pin_the_log() -> None:
    """One name is written once and another one for ever. The log stays short, and a new client knows both."""
    async with playing(replicas=3) as world:
        storage, other, fresh = await storages(world, 1, 2, 3, slack_bytes=5000)
        cold = await stored(storage, "cold", b"cold" * 100)
        for number in range(200):
            await stored(storage, "hot", b"%d" % number * 100)
        reader = LogReader(storage._log)
        begin, end = await reader.beginning(), await reader.ending()
        assert begin.value > 150
        assert end.value - begin.value < 80
        assert await state(fresh).fetch("cold") == await state(other).fetch("cold") == cold
        assert await value(fresh, "hot") == b"199" * 100
        assert (await state(other).store(cold)).value == cold.value


@simulated
async def test_a_failed_truncation_is_no_failed_write() -> None:
    """The record is decided, and the TRUNCATE behind it meets no quorum. The store succeeds, and the next one makes up for it."""
    async with playing(replicas=3) as world:
        storage, other, _ = await storages(world, 1, 2, 3, slack_bytes=0)
        kept = await stored(storage, "name", b"first")
        world.requests.clear()
        kept = await state(storage).store(kept.mutate(b"second"))
        writes = world.count(PaxosWrite, to=2)
        assert writes == 2  # the record, and the TRUNCATE
        before = (await LogReader(storage._log).beginning()).value

        made = list[Variable]()

        async def store() -> None:
            made.append(await state(storage).store(kept.mutate(b"third")))

        world.requests.clear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store)
            await world.until(lambda: world.count(PaxosWrite, to=1) == 1)
            for node in (2, 3):
                world.catch(PaxosWrite, to=node, times=1000)
            await world.until(lambda: bool(made))
        assert (await LogReader(storage._log).beginning()).value == before
        for each in world._caught:
            each.lift()

        last = await state(storage).store(made[0].mutate(b"fourth"))

        assert (await LogReader(storage._log).beginning()).value > before
        assert await state(other).fetch("name") == last


@simulated
async def test_a_replay_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that comes late reads the log piece by piece; so it needs memory for the image, and no more."""
    monkeypatch.setattr(replicated_log, "READ_BYTES", 300)
    async with playing(replicas=3) as world:
        storage, late, _ = await storages(world, 1, 2, 3)
        for number in range(50):
            await stored(storage, f"name {number % 7}", b"%d" % number * 20)
        assert await late.names() == await storage.names()
        assert await value(late, "name 0") == b"49" * 20


@simulated
async def test_a_log_that_is_truncated_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quorum says how far the log goes, and then all of that is dropped. What begins behind is whole only further on, so it is asked again."""
    async with playing(replicas=3) as world:
        writer, reader, _ = await storages(world, 1, 2, 3, slack_bytes=0)
        await stored(writer, "one", b"one")
        await stored(writer, "two", b"two")
        learn = linearizable_read.learn

        async def learn_later(log: Log, first: int, through: int) -> None:
            monkeypatch.setattr(replicated_log, "learn", learn)
            before = log.replica.core.begin
            for number in range(3):
                await stored(writer, "two", b"%d" % number)
            await world.until(lambda: log.replica.core.begin > max(before, through))
            await learn(log, first, through)

        monkeypatch.setattr(replicated_log, "learn", learn_later)
        assert await reader.names() == {"one", "two"}
        assert await value(reader, "two") == b"2"


@simulated
async def test_a_log_that_is_truncated_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader begins anew at the new beginning. What it reads is whole: no name is missing, and none that was expunged is back."""
    monkeypatch.setattr(replicated_log, "READ_BYTES", 1)
    async with playing(replicas=3) as world:
        writer, reader, _ = await storages(world, 1, 2, 3, slack_bytes=0)
        seen = 0
        for number in range(3):
            await stored(writer, f"name {number % 3}", b"%d" % number)

        async def write() -> None:
            for number in range(60):
                await stored(writer, f"name {number % 3}", b"%d" % number)
                if number % 3 == 2:
                    found = await state(writer).fetch("name 2")
                    assert await state(writer).expunge(found)

        async def read(scope: trio.CancelScope) -> None:
            nonlocal seen
            with scope:
                while True:
                    fresh = ReplicatedLogStorage(reader._log)
                    assert await fresh.names() >= {"name 0", "name 1"}
                    seen += 1

        scope = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, scope)
            await write()
            scope.cancel()

        assert seen > 10
        assert await reader.names() == {"name 0", "name 1"}
