"""Due times, and the open loop that keeps to them, on a mock clock."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise

import attrs
import pytest
import trio

from tests.lab.fixed_rate.mock_clock import MockPunctualClock
from virtuallog.contract.errors import UnavailableError
from virtuallog_lab.experiments.fixed_rate.open_loop import Answered, OpenLoop, OpenLoopRun, Waits
from virtuallog_lab.experiments.fixed_rate.schedule import ARRIVALS, JITTER, constant, poisson
from virtuallog_lab.harness.program import PeerError


def test_constant_arrivals_have_an_interval_each() -> None:
    """Each is at most some part of its interval late, and they are in no step."""
    due = constant(1000, 2.0, random.Random(1))

    late = [1000 * time - index for index, time in enumerate(due)]
    assert len(due) == 2000
    assert all(0 <= share < JITTER + 1e-9 for share in late)
    assert max(late) - min(late) > 0.9 * JITTER


def test_poisson_arrivals_come_at_the_rate_and_in_bursts() -> None:
    """As many as a count with that mean may be; a third of the intervals is more than the mean, some are next to nothing."""
    due = poisson(1000, 4.0, random.Random(1))

    intervals = [later - earlier for earlier, later in pairwise(due)]
    assert 4000 - 4 * 4000**0.5 < len(due) < 4000 + 4 * 4000**0.5
    assert min(intervals) >= 0 and due[-1] < 4.0
    assert sum(interval > 1e-3 for interval in intervals) / len(intervals) == pytest.approx(0.368, abs=0.03)


@pytest.mark.parametrize("arrivals", ARRIVALS.values(), ids=ARRIVALS)
def test_systems_of_a_round_get_the_same_times(
    arrivals: Callable[[float, float, random.Random], Sequence[float]],
) -> None:
    """A seed draws the same times again, and another one draws others."""
    drawn = [list(arrivals(100, 1.0, random.Random(seed))) for seed in (3, 3, 4)]

    assert drawn[0] == drawn[1] != drawn[2]


def test_operations_are_sent_when_they_are_due_and_there_is_room() -> None:
    """Answers come in any order; each makes room for one more, which waits since it was due."""
    loop = OpenLoop([0.0, 1.0, 2.0, 3.0], in_flight_max=2)

    assert (loop.take(0.5), loop.next_due) == (range(1), 1.0)
    assert (loop.take(2.5), loop.next_due) == (range(1, 2), None), "two are in flight"
    loop.answer(1, 2.75)
    assert (loop.next_due, loop.take(2.75), loop.next_due) == (2.0, range(2, 3), None)
    loop.answer(0, 3.5)
    loop.answer(2, 3.5)
    assert (loop.take(3.5), loop.next_due) == (range(3, 4), None), "there are no more"
    assert loop.waits(0.0, 5.0) == Waits([1.5, 1.75, 2.0, 3.5], [0.5, 0.5, 0.75, 1.5], 1)
    assert loop.waits(2.0, 5.0) == Waits([1.5, 2.0], [0.5, 0.75], 1), "the first two were due before"


@attrs.frozen
class StallingServer:
    """Answers after a millisecond, but nothing between two times."""

    nursery: trio.Nursery
    clock: MockPunctualClock
    stall: tuple[float, float]
    outcome: object = None

    def post(self, calls: Sequence[Answered]) -> None:
        self.nursery.start_soon(self._answer, calls)

    async def _answer(self, calls: Sequence[Answered]) -> None:
        begin, end = self.stall
        await self.clock.sleep(0.001)
        if begin <= self.clock.monotonic() < end:
            await self.clock.wait_until(end)
        for done in calls:
            done(self.outcome)


async def _waits(stall: tuple[float, float], *, in_flight: int = 1000, outcome: object = None) -> Waits:
    """Of 200 operations in two seconds, with a second for the last answers, and a server that stands still meanwhile."""
    clock = MockPunctualClock()
    now = clock.monotonic()
    loop = OpenLoop([now + index / 100 for index in range(200)], in_flight)
    async with trio.open_nursery() as nursery:
        server = StallingServer(nursery, clock, (now + stall[0], now + stall[1]), outcome)
        await OpenLoopRun(loop, server.post, clock).run(1.0)
        nursery.cancel_scope.cancel()
    return loop.waits(now, clock.monotonic())


@pytest.mark.parametrize("in_flight", [1000, 5])
async def test_a_stall_is_seen_by_all_that_were_due_in_it(autojump_clock: trio.abc.Clock, in_flight: int) -> None:
    """A second in which a server stands still delays a hundred of two hundred writes, half of them by more than half a
    second, however few may be in flight. A closed loop would have seen one of them."""
    waits = await _waits((0.5, 1.5), in_flight=in_flight)

    assert waits.unanswered == 0
    assert sum(latency > 0.0011 for latency in waits.latencies) == pytest.approx(100, abs=3)
    assert sum(latency > 0.5 for latency in waits.latencies) == pytest.approx(50, abs=1)
    assert waits.latencies[-1] == pytest.approx(1.0, abs=0.01)
    assert (waits.lateness[-1] > 0.5) == (in_flight == 5), "the client itself is late only if it has to wait"


async def test_writes_without_an_answer_count_as_long_as_they_have_waited(autojump_clock: trio.abc.Clock) -> None:
    """A server that stands still in the middle, and for ever: a second after the last write was due, the run ends."""
    waits = await _waits((1.0, 100.0), in_flight=20)

    assert waits.unanswered == pytest.approx(100, abs=1)
    assert len(waits.latencies) == 200 and len(waits.lateness) == pytest.approx(120, abs=1)
    assert waits.latencies[-1] == pytest.approx(1.99, abs=0.01)


async def test_a_write_that_fails_ends_the_run(autojump_clock: trio.abc.Clock) -> None:
    """A latency of writes of which some have failed would say nothing."""
    with pytest.RaisesGroup(pytest.RaisesExc(PeerError, match="the disk is full")):
        await _waits((0.0, 0.0), outcome=UnavailableError("the disk is full"))
