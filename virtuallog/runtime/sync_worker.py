"""A worker for synced writes, which are done on the event loop while the disk is fast.

A sync of a good disk takes some hundred microseconds. To hand it to a thread and to come back costs as much again: two
changes of threads, the interpreter's lock twice, a byte through a pipe. So while a disk is fast, its writes are done
where they come up, and other work of the process waits that long.

A slow write is a debt in proportion to its length, which fast ones pay off. Until then all are done in the thread. So
the loop stands still for one slow write when a disk begins to be slow. Over time slow writes hold it for no longer than
`FAST_SECONDS / PENALTY` a write, beside what fast ones take.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Final, TypeVar

import attrs
import outcome

from virtuallog.runtime.end_of_turn import end_of_turn
from virtuallog.runtime.worker import Worker

ResultT = TypeVar("ResultT")

FAST_SECONDS: Final = 0.005
"""Longest time that a write and its sync take on a disk that is fast: a small part of what it takes to be suspected."""
PENALTY: Final = 8
"""Fast writes that pay off `FAST_SECONDS` of a slow one."""
DEBT_MAX: Final = 100_000
"""Most fast writes that have to be seen: those of a minute or more under load, after a stall of a minute."""
LOOP_BYTES_MAX: Final = 128 << 10
"""Largest write done on the event loop."""


@attrs.define(eq=False)
class SyncPace:
    """Judgement of one disk, from how long its last writes took."""

    _debt: float = attrs.field(default=PENALTY, init=False)
    """Fast writes that have yet to be seen."""

    @property
    def is_fast(self) -> bool:
        """True if the next write may be done on the event loop."""
        return self._debt <= 0

    def took(self, seconds: float) -> None:
        """Take in the time of one write and its sync."""
        if seconds > FAST_SECONDS:
            self._debt = min(self._debt + PENALTY * seconds / FAST_SECONDS, DEBT_MAX)
        elif self._debt > 0:
            self._debt -= 1


class SyncWorker(Worker):
    """A `Worker` that may do a write without its thread. Writes and other jobs stay in order all the same."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.pace = SyncPace()

    def write_soon(
        self, cut: Callable[[], tuple[Callable[[], ResultT], int]], done: Callable[[outcome.Outcome[ResultT]], None]
    ) -> None:
        """Begin a synced write at the end of this scheduler turn, behind the messages that leave then.

        Args:
            cut: called then; returns a job that writes and syncs, and its size in bytes. Must not raise.
            done: called on the event loop with the outcome of the job. Must not raise. What it puts at the end of the
                turn is run at once: callers wait for it.
        """
        end = end_of_turn()

        def begin() -> None:
            job, size = cut()
            # `done` may wake tasks, so the loop must not have decided yet how long it waits.
            if self.pace.is_fast and size <= LOOP_BYTES_MAX and self.is_idle and end.may_wake:
                finished(outcome.capture(self._timed, job))
            else:
                self.post(lambda: self._timed(job), finished)

        def finished(result: outcome.Outcome[ResultT]) -> None:
            done(result)
            end.flush()

        end.put_last(begin)

    def _timed(self, job: Callable[[], ResultT]) -> ResultT:
        began = perf_counter()
        try:
            return job()
        finally:
            self.pace.took(perf_counter() - began)
