"""An open loop: operations start when they are due, whether or not earlier ones have been answered.

Latency is counted from when an operation was due. So an operation that waits, because the client is late or because
too many are in flight, counts that wait: a stall is seen by all operations that were due in it, and not only by those
that had been sent (no coordinated omission).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

import attrs
import trio

from virtuallog_lab.experiments.fixed_rate.punctual_clock import PunctualClock
from virtuallog_lab.harness.program import PeerError

Answered: TypeAlias = Callable[[object], None]
"""Called once with the outcome of an operation; an exception is a failure."""
Post: TypeAlias = Callable[[Sequence[Answered]], None]
"""Starts one operation for each callback, without waiting."""

_UNANSWERED: Final = -1.0


@attrs.frozen
class Waits:
    """Waits of operations, in seconds, ascending."""

    latencies: Sequence[float]
    """From due to answered; without an answer, from due to the end."""
    lateness: Sequence[float]
    """From due to sent, of operations that were sent."""
    unanswered: int
    """Operations without an answer."""


class OpenLoop:
    """Operations of an open loop. All times are those of one clock.

    Args:
        due: times at which they are due, ascending.
        in_flight_max: the most operations that are sent and not answered.
    """

    def __init__(self, due: Sequence[float], in_flight_max: int) -> None:
        self.due: Final = due
        self.answers = 0
        """Operations that are answered."""
        self._in_flight_max = in_flight_max
        self._lateness = array("d")
        self._latencies = array("d", [_UNANSWERED]) * len(due)

    @property
    def next_due(self) -> float | None:
        """Time at which the next operation can be sent; None if that takes an answer, or if there is no other."""
        sent = len(self._lateness)
        return self.due[sent] if sent < self._stop else None

    def take(self, now: float) -> range:
        """Operations to send now: all that are due, as far as there is room."""
        first = place = len(self._lateness)
        while place < self._stop and self.due[place] <= now:
            self._lateness.append(now - self.due[place])
            place += 1
        return range(first, place)

    def answer(self, operation: int, now: float) -> None:
        """Take the answer to an operation; they may come in any order."""
        self._latencies[operation] = now - self.due[operation]
        self.answers += 1

    def waits(self, begin: float, now: float) -> Waits:
        """Waits of the operations that were due since `begin`."""
        first = bisect_left(self.due, begin)
        ends = self._latencies[first:]
        latencies = [
            now - due if latency == _UNANSWERED else latency
            for due, latency in zip(self.due[first:], ends, strict=True)
        ]
        return Waits(sorted(latencies), sorted(self._lateness[first:]), ends.count(_UNANSWERED))

    @property
    def _stop(self) -> int:
        """Operations that may be sent by now, if they are due."""
        return min(len(self.due), self.answers + self._in_flight_max)


@attrs.define(eq=False)
class OpenLoopRun:
    """Drives an `OpenLoop`, with the times of a clock."""

    _loop: OpenLoop
    _post: Post
    _clock: PunctualClock
    _answered: trio.Event = attrs.field(factory=trio.Event, init=False)
    _failure: Exception | None = attrs.field(default=None, init=False)

    async def run(self, drain_seconds: float) -> None:
        """Send all, and wait for the answers, at most so long after the last operation was due.

        Cancelling leaves operations in flight, and takes their answers as long as the client does.

        Raises:
            PeerError: an operation has failed.
        """
        loop, clock = self._loop, self._clock
        with clock.timeout(loop.due[-1] + drain_seconds - clock.monotonic()):
            while loop.answers < len(loop.due):
                if operations := loop.take(clock.monotonic()):
                    self._post([partial(self._take_answer, operation) for operation in operations])
                if (due := loop.next_due) is not None:
                    await clock.wait_until(due)
                else:
                    self._answered = trio.Event()
                    await self._answered.wait()
                if self._failure:
                    raise PeerError(f"an operation failed: {self._failure}") from self._failure

    def _take_answer(self, operation: int, outcome: object) -> None:
        self._loop.answer(operation, self._clock.monotonic())
        if isinstance(outcome, Exception):
            self._failure = outcome
        self._answered.set()
