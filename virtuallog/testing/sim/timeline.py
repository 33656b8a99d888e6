"""Callbacks at simulated times, run by one task: a message in flight or a pending timeout costs no task of its own.

Times are trio's own, so any clock that trio runs on will do. Tests use a `MockClock`; the simulator uses the
`JumpingClock` here, which does the same for a third of the cost: a run of the simulator is mostly jumps.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import attrs
import trio


class JumpingClock(trio.abc.Clock):
    """A clock that stands still while any task can run, then jumps to the next deadline or timeline
    callback.

    `MockClock` goes through the scheduler twice for each jump and needs a cancel scope for each
    wait. Trio asks a clock how long to sleep only when no task can run, so this one jumps right
    there. It assumes that nothing outside of the run can wake a task: no sockets, no threads.
    """

    def __init__(self, has_idle_waiters: Callable[[], bool]) -> None:
        """Make a clock at time 0.

        Args:
            has_idle_waiters: tells if a task is in `trio.testing.wait_all_tasks_blocked`, which
                comes before any jump. Trio has no public way to ask.
        """
        self._now = 0.0
        self._has_idle_waiters = has_idle_waiters
        self._timelines: list[Timeline] = []

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return self._now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        if deadline <= self._now:
            return 0.0
        if self._has_idle_waiters():
            return math.inf  # trio wakes them without waiting
        next_time = deadline
        for timeline in self._timelines:
            next_time = min(next_time, timeline.waits_until)
        if next_time == math.inf:
            return math.inf  # nothing will ever happen again
        self._now = next_time
        for timeline in self._timelines:
            if timeline.waits_until <= next_time:
                timeline.wake()
        return 0.0

    @contextmanager
    def serving(self, timeline: Timeline) -> Iterator[None]:
        """Prevent jumps past a callback of the timeline inside the block."""
        self._timelines.append(timeline)
        try:
            yield
        finally:
            self._timelines.remove(timeline)


@attrs.define(eq=False)
class Timer:
    """A scheduled callback that may still be called off."""

    _callback: Callable[[], None] | None

    def cancel(self) -> None:
        """Never call it, if it has not been called yet."""
        self._callback = None

    @property
    def pending(self) -> bool:
        return self._callback is not None

    def fire(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


@attrs.define(eq=False)
class Timeline:
    """Runs callbacks in order of their times, and of scheduling within the same time.

    Callbacks must not block. One that raises ends `run`, and with it the test.
    """

    waits_until: float = attrs.field(default=-math.inf, init=False)
    """Time when `run` has work next; minus infinity while it is busy."""
    _read_clock: Callable[[], float] = attrs.field(default=trio.current_time, init=False)  # noqa: TID251 - the port itself
    _queue: list[tuple[float, int, Timer]] = attrs.field(factory=list, init=False)
    _scheduled: int = attrs.field(default=0, init=False)
    _parked: trio.lowlevel.Task | None = attrs.field(default=None, init=False)
    """The task of `run` while it waits; None otherwise."""

    def now(self) -> float:
        return self._read_clock()

    def schedule(self, delay_seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` that much later; never from within this call, even if the delay is 0."""
        return self.schedule_at(self.now() + delay_seconds, callback)

    def schedule_at(self, time: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(callback)
        self._scheduled += 1
        heapq.heappush(self._queue, (time, self._scheduled, timer))
        if time < self.waits_until:
            self._hasten(time)
        return timer

    def wake(self) -> None:
        """Let `run` check its queue."""
        task, self._parked = self._parked, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    async def run(self) -> None:
        """Serve the timeline until cancelled."""
        clock = trio.lowlevel.current_clock()
        if not isinstance(clock, JumpingClock):
            await self._run(self._park_with_deadline)
            return
        self._read_clock = clock.current_time  # called a hundred thousand times in a run
        with clock.serving(self):
            await self._run(self._park)

    async def _run(self, park: Callable[[], Awaitable[None]]) -> None:
        while True:
            self._fire_due()
            self.waits_until = self._queue[0][0] if self._queue else math.inf
            await park()
            self.waits_until = -math.inf

    async def _park(self) -> None:
        """Wait for `wake`."""

        def abort(_: object) -> trio.lowlevel.Abort:
            self._parked = None
            return trio.lowlevel.Abort.SUCCEEDED

        self._parked = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(abort)

    async def _park_with_deadline(self) -> None:
        """Wait with a deadline, for a clock that knows deadlines only."""
        with trio.CancelScope(deadline=self.waits_until):
            await self._park()

    def _hasten(self, time: float) -> None:
        """Account for a callback that was scheduled before everything that `run` waits for."""
        jumps = isinstance(trio.lowlevel.current_clock(), JumpingClock)
        if jumps and time > self.now():
            self.waits_until = time  # the clock will check it before it jumps
        else:
            self.wake()

    def _fire_due(self) -> None:
        now = self.now()
        while self._queue and (self._queue[0][0] <= now or not self._queue[0][2].pending):
            heapq.heappop(self._queue)[2].fire()
