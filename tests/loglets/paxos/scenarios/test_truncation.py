"""Truncation: CoordinatorTest of Mesos, the part about dropping the beginning of a log."""

from __future__ import annotations

import pytest

from tests.loglets.paxos.world import World, playing
from tests.metastore.world import simulated
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.standalone.log import Position
from virtuallog_loglets.paxos.standalone.reader import LogReader, ReadRangeError
from virtuallog_loglets.paxos.standalone.writer import LogWriter

TEN = [str(number).encode() for number in range(1, 11)]


@simulated
async def test_truncate() -> None:
    """Ten appends, then everything below 7 is dropped: the entry that says so is at 11, 6 cannot be read, 7 to 10 can."""
    async with playing(replicas=2) as world:
        await world.start(2)
        log = await world.start_log(1)
        writer, reader = LogWriter(log), LogReader(log)
        assert await writer.start() == Position(0)
        for payload in TEN:
            assert await writer.append(payload) is not None

        assert await writer.truncate(Position(7)) == Position(11)

        with pytest.raises(ReadRangeError, match=r"Bad read range \(truncated position\)"):
            await reader.read(Position(6), Position(10))
        assert [entry.data for entry in await reader.read(Position(7), Position(10))] == TEN[6:]
        assert await _kept(world, node=1) == (7, TEN[6:], 7)


@simulated
async def test_truncate_not_learned_fill() -> None:
    """A third replica that is elected later truncates, too, although the survivor has only accepted the TRUNCATE."""
    async with playing() as world:
        world.unlearned = frozenset({2})
        await _truncated(world)
        assert world.standing(2).begin == 0

        await _take_over(world)

        assert await _kept(world, node=3) == (7, TEN[6:], 7)


@simulated
async def test_truncate_learned_fill() -> None:
    """The same, with a survivor that has truncated: what it has dropped comes to the third replica as a tombstone."""
    async with playing() as world:
        await _truncated(world)
        await world.until(lambda: world.standing(2).begin == 7)

        await _take_over(world)

        assert await _kept(world, node=3) == (7, TEN[6:], 7)


async def _truncated(world: World) -> None:
    await world.start(1, 2)
    leader = world.coordinator(1)
    assert await leader.elect() == 0
    for payload in TEN:
        assert await leader.append(payload) is not None
    assert await leader.truncate(7) == 11


async def _take_over(world: World) -> None:
    world.kill(1)
    await world.start(3)
    third = world.coordinator(3)
    assert await third.elect() is None  # it knows no number to beat
    assert await third.elect() == 11


async def _kept(world: World, node: int) -> tuple[int, list[bytes], int]:
    """Begin of the log on a node, its entries from there on, and the TRUNCATE at 11; it has nothing of 6."""
    assert await world.read(node, 6, 10) == []
    (record,) = await world.read(node, 11, 11)
    begin = world.standing(node).begin
    return begin, await world.payloads(node, begin, 10), values.truncation_of(record.value).to
