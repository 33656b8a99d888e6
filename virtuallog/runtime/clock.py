"""The Clock port on the machine's clocks. The only module that reads them, or that sleeps."""

from __future__ import annotations

import time

import attrs
import trio


@attrs.frozen
class SystemClock:
    """`ports.Clock` of a real process."""

    # The functions themselves: clocks are read some ten times on the way of an append.
    wall = staticmethod(time.time)  # noqa: TID251 -- the port itself
    monotonic = staticmethod(time.monotonic)  # noqa: TID251 -- the port itself

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(max(0.0, seconds))  # noqa: TID251 -- the port itself

    def timeout(self, seconds: float) -> trio.CancelScope:
        return trio.move_on_after(max(0.0, seconds))  # noqa: TID251 -- the port itself
