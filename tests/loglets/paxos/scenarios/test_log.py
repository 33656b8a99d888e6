"""The log as it is used by itself: LogTest of Mesos."""

from __future__ import annotations

from tests.loglets.paxos.world import World, playing
from tests.metastore.world import simulated
from virtuallog_loglets.paxos.standalone.log import Log, Position
from virtuallog_loglets.paxos.standalone.reader import LogReader
from virtuallog_loglets.paxos.standalone.writer import LogWriter

TEN = [str(number).encode() for number in range(1, 11)]


@simulated
async def test_write_read() -> None:
    """A reader reads what a writer of the same log appends."""
    async with playing(replicas=2) as world:
        log = await _log_of_two(world)
        writer = await _started(log)

        position = await writer.append(b"hello world")

        assert position is not None
        (entry,) = await LogReader(log).read(position, position)
        assert (entry.position, entry.data) == (position, b"hello world")


@simulated
async def test_position() -> None:
    """The identity of a position names it."""
    async with playing(replicas=2) as world:
        log = await _log_of_two(world)
        writer = await _started(log)

        position = await writer.append(b"hello world")

        assert position is not None
        assert log.position(position.identity()) == position


@simulated
async def test_metrics() -> None:
    """A log of one replica has recovered, and says so, and how many replicas it has, under the names that its user wants.
    Unlike Mesos' test this one also looks before it has recovered."""
    async with playing(replicas=1, quorum=1) as world:
        fresh = await world.start_log(1, "prefix_", initialize=False)
        assert _figures(fresh) == {"prefix_log_recovered": 0, "prefix_log_ensemble_size": 1}
        world.kill(1)
        world.wipe(1)
        await world.start(1)
        world.kill(1)

        log = await world.start_log(1, "prefix_")
        await _started(log)

        assert _figures(log) == {"prefix_log_recovered": 1, "prefix_log_ensemble_size": 1}


@simulated
async def test_reader_catchup() -> None:
    """A replica that was away reads nine of ten entries after a catch-up: the last position is left
    alone, as a writer may have it in flight."""
    async with playing() as world:
        await world.start(1, 2)
        leader = world.coordinator(2)
        assert await leader.elect() == 0
        assert [await leader.append(payload) for payload in TEN] == [*range(1, 11)]

        reader = LogReader(await world.start_log(3))
        end = await reader.catchup()

        assert (await reader.beginning(), end) == (Position(0), Position(9))
        assert [entry.data for entry in await reader.read(await reader.beginning(), end)] == TEN[:9]


async def _log_of_two(world: World) -> Log:
    """Two replicas that may vote, the second one with a Log."""
    await world.start(1)
    return await world.start_log(2)


async def _started(log: Log) -> LogWriter:
    writer = LogWriter(log)
    assert await writer.start() is not None
    return writer


def _figures(log: Log) -> dict[str, object]:
    """Metrics about the state of the log."""
    found = [family for family in log.metrics() if family.name.startswith("prefix_")]
    return {family.name: family.samples[0].value for family in found}
