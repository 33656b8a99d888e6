"""The Clock port of one simulated process: it drifts, and its wall clock is off.

Under trio's `MockClock` simulated time passes in no time at all. A node with a clock at rate 1.01
believes that 1.01 seconds pass in each true one: it wakes early and times out early.
"""

from __future__ import annotations

from typing import Final

import attrs
import trio

from virtuallog.testing.sim.process import Process


@attrs.define(eq=False)
class SimulatedClock:
    """`ports.Clock`, on top of trio's clock."""

    _process: Process
    rate: float = 1.0
    """Seconds that pass on this clock in one true second; above 0."""
    wall_offset_seconds: float = 0.0
    """Wall clock at true time 0, in seconds. Assign to make it jump."""
    suspended_seconds: float = 0.0
    """Seconds of this clock that the monotonic clock has missed, as in a suspended virtual machine.
    May only grow."""

    def wall(self) -> float:
        return self.wall_offset_seconds + self.monotonic() + self.suspended_seconds

    def monotonic(self) -> float:
        self._process.check()
        return trio.current_time() * self.rate - self.suspended_seconds  # noqa: TID251 - the port itself

    async def sleep(self, seconds: float) -> None:
        self._process.check()
        await trio.sleep(self.true_seconds(seconds))  # noqa: TID251 - the port itself
        await self._process.wait_running()

    def timeout(self, seconds: float) -> trio.CancelScope:
        self._process.check()
        return trio.move_on_after(self.true_seconds(seconds))  # noqa: TID251 - the port itself

    def true_seconds(self, seconds: float) -> float:
        """Return the true duration of `seconds` of this clock; 0 if they are negative."""
        grain = _GRAIN_SECONDS if self.suspended_seconds and seconds > 0 else 0.0
        return max(0.0, seconds / self.rate + grain)


_GRAIN_SECONDS: Final = 1e-9
"""Smallest true duration of a positive wait.

A clock that was suspended shows smaller numbers than the true one, so it tells times apart that are
equal there. Without this, waiting for such a difference would take no time, again and again.
"""
