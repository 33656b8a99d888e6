"""Elections and appends, one coordinator at a time, then two: CoordinatorTest of Mesos.

Where Mesos waits for ever, our rounds end after their time, with "maybe": None from the world's coordinators.
"""

from __future__ import annotations

import pytest
import trio

from tests.loglets.paxos.core.leader_bench import Leader
from tests.loglets.paxos.world import World, playing
from tests.metastore.world import simulated
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.messages import Promise, Status
from virtuallog_loglets.paxos.standalone.log import Position
from virtuallog_loglets.paxos.standalone.reader import LogReader, ReadRangeError
from virtuallog_loglets.paxos.standalone.writer import LogWriter, WriterError

TEN = [str(number).encode() for number in range(1, 11)]


@simulated
async def test_elect() -> None:
    """An empty log: its first coordinator is elected at 0, where it has put a NOP."""
    async with playing(replicas=2) as world:
        await world.start(1, 2)

        assert await world.coordinator(1).elect() == 0

        (record,) = await world.read(1, 0, 0)
        assert values.kind_of(record.value) is values.ValueKind.NOP


@simulated
async def test_elect_with_clock_paused() -> None:
    """An election on an empty log meets no number that is in its way: it takes round trips, and no pause."""
    async with playing(replicas=2) as world:
        await world.start(1, 2)

        started = world.clock.monotonic()
        assert await world.coordinator(1).elect() == 0

        assert world.clock.monotonic() - started < 0.1  # less than the shortest pause; time is simulated
        assert world.count(Promise, to=2) == 2  # one for all positions, one for position 0


@simulated
async def test_append_read() -> None:
    """The first append is at 1, and can be read where its coordinator is."""
    async with playing(replicas=2) as world:
        leader = await _elected(world)

        assert await leader.append(b"hello world") == 1

        assert await world.payloads(1, 1, 1) == [b"hello world"]


@simulated
async def test_append_read_error() -> None:
    """Nothing can be read past the end; the error has the words of Mesos."""
    async with playing(replicas=2) as world:
        await world.start(2)
        log = await world.start_log(1)
        writer = LogWriter(log)
        assert await writer.start() == Position(0)
        assert await writer.append(b"hello world") == Position(1)

        with pytest.raises(ReadRangeError, match=r"Bad read range \(past end of log\)"):
            await LogReader(log).read(Position(2), Position(2))


@simulated
async def test_append_discarded() -> None:
    """An append may be decided although its caller gave up, so its writer must start again before
    it goes on. In Mesos the next append returns None; here an error says that nothing was done."""
    async with playing(replicas=2) as world:
        await world.start(2)
        log = await world.start_log(1)
        writer = LogWriter(log)
        assert await writer.start() == Position(0)
        world.kill(2)

        with world.clock.timeout(0.1) as given_up:
            await writer.append(b"hello world")
        assert given_up.cancelled_caught
        with pytest.raises(WriterError):
            await writer.append(b"hello moto")

        await world.start(2)
        assert await writer.start() == Position(1)
        (found,) = await LogReader(log).read(Position(1), Position(1))
        assert found.data == b"hello world"


@simulated
async def test_elect_no_quorum() -> None:
    """One of two replicas elects no coordinator. Mesos waits for ever; here the caller gets an
    answer and may try again."""
    async with playing(replicas=2) as world:
        await world.start(1)
        leader = world.coordinator(1)

        assert await leader.elect() is None

        assert not leader.running.is_leading
        assert world.standing(1).end == 0


@simulated
async def test_append_no_quorum() -> None:
    """An append without a quorum is never acknowledged. Mesos waits for ever; here it ends as a maybe, and the coordinator with it."""
    async with playing(replicas=2) as world:
        leader = await _elected(world)
        world.kill(2)

        assert await leader.append(b"hello world") is None

        assert not leader.running.is_leading
        assert world.acknowledged == []


@simulated
async def test_failover() -> None:
    """Another replica's coordinator is elected where the first one stopped, and its replica has everything."""
    async with playing(replicas=2) as world:
        first = await _elected(world)
        assert await first.append(b"hello world") == 1

        assert await world.coordinator(2).elect() == 1

        assert await world.payloads(2, 1, 1) == [b"hello world"]


@simulated
async def test_demoted() -> None:
    """A writer that was turned out appends nothing more; its successor continues at the next position."""
    async with playing(replicas=2) as world:
        first = await _elected(world)
        assert await first.append(b"hello world") == 1
        second = world.coordinator(2)
        assert await second.elect() == 1

        assert await first.append(b"hello moto") is None
        assert await second.append(b"hello hello") == 2

        assert await world.payloads(2, 2, 2) == [b"hello hello"]


@simulated
async def test_multiple_appends() -> None:
    """Ten appends, one after the other, are read back."""
    async with playing(replicas=2) as world:
        leader = await _elected(world)

        assert [await leader.append(payload) for payload in TEN] == [*range(1, 11)]

        assert await world.payloads(1, 1, 10) == TEN


@simulated
async def test_racing_elect() -> None:
    """Empty in Mesos. Coordinators stand for election at the same time, repeatedly: in the end one
    leads, and any other that believes it leads appends nothing."""
    async with playing(replicas=3) as world:
        await world.start(1, 2, 3)
        leaders = [world.coordinator(node) for node in (1, 2, 3)]

        async def race(index: int) -> None:
            while await leaders[index].elect() is None:
                await world.clock.sleep(world.random.uniform(0.1, 0.2))

        async with trio.open_nursery() as nursery:
            for index in range(3):
                nursery.start_soon(race, index)

        appended = [await leader.append(b"from %d" % leader.node) for leader in leaders]
        assert sum(position is not None for position in appended) == 1
        assert {world.standing(node).status for node in (1, 2, 3)} == {Status.VOTING}


async def _elected(world: World) -> Leader:
    await world.start(1, 2)
    leader = world.coordinator(1)
    assert await leader.elect() == 0
    return leader
