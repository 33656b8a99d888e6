"""The pace of reads: so many bytes in a second, and no catching up."""

from __future__ import annotations

from collections.abc import Sequence

from trio.testing import MockClock

from tests.database.history.drawn_log import DrawnLog
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process
from virtuallog_database.tree.commands import Create
from virtuallog_server.history.read_pace import PacedLog, ReadPace


async def test_reads_wait_for_their_turn(autojump_clock: MockClock) -> None:
    """The first one goes at once, the next ones when those before are paid for; an idle time is not made up for."""
    log = DrawnLog()
    for number in range(4):
        log.do(Create(f"/{number}", bytes(1000)))
    clock = SimulatedClock(Process(NodeId(1)))
    pace = ReadPace(clock, bytes_per_second=100)
    paced, began = PacedLog(log, pace), clock.monotonic()
    found, times = list[Sequence[Placed]](), list[float]()
    for position in range(3):
        found.append(await paced.read(position, 4))
        times.append(clock.monotonic() - began)
    await clock.sleep(1000)
    idle = clock.monotonic()
    for position in (3, 3):
        await paced.read(position, 4)

    sizes = pace.taken_bytes / 5
    assert [each[0].start for each in found] == [0, 1, 2]
    assert times[0] < sizes / 100 and times[2] >= 2 * sizes / 100 * 0.99
    assert clock.monotonic() - idle >= sizes / 100 * 0.99
