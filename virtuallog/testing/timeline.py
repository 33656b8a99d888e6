"""Callbacks at simulated times, run by one task: a message in flight or a pending timeout costs no task of its own.

Times are trio's own, so any clock that trio runs on will do; the simulator and most tests use a `MockClock` that jumps
to the next deadline whenever nothing else can run.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

import attrs
import trio


@attrs.define(eq=False)
class Timer:
    """A callback that has been scheduled and may still be called off."""

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
    """Runs callbacks in order of their times; those of the same time in the order in which they were scheduled.

    Callbacks must not block. One that raises ends `run`, and with it the test.
    """

    _queue: list[tuple[float, int, Timer]] = attrs.field(factory=list, init=False)
    _scheduled: int = attrs.field(default=0, init=False)
    _earlier: trio.Event = attrs.field(factory=trio.Event, init=False)
    """Set when something was scheduled before all that `run` waits for."""
    _waits_until: float = attrs.field(default=-math.inf, init=False)

    def now(self) -> float:
        return trio.current_time()  # noqa: TID251 - this is what stands behind the Clock port

    def schedule(self, delay_seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` that much later; never from within this call, even if the delay is 0."""
        return self.schedule_at(self.now() + delay_seconds, callback)

    def schedule_at(self, time: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(callback)
        self._scheduled += 1
        heapq.heappush(self._queue, (time, self._scheduled, timer))
        if time < self._waits_until:
            self._earlier.set()
        return timer

    async def run(self) -> None:
        """Serve the timeline until cancelled."""
        while True:
            self._fire_due()
            self._earlier = trio.Event()
            self._waits_until = self._queue[0][0] if self._queue else math.inf
            with trio.CancelScope(deadline=self._waits_until):
                await self._earlier.wait()
            self._waits_until = -math.inf

    def _fire_due(self) -> None:
        now = self.now()
        while self._queue and (self._queue[0][0] <= now or not self._queue[0][2].pending):
            heapq.heappop(self._queue)[2].fire()
