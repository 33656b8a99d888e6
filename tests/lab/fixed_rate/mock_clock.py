"""A punctual clock on trio's clock, which tests move."""

from __future__ import annotations

import attrs
import trio

from tests.virtuallog.rpc.world import TrioClock


@attrs.frozen
class MockPunctualClock(TrioClock):
    """It is punctual, as trio's mock clocks are."""

    async def wait_until(self, moment: float) -> None:
        await trio.sleep_until(moment)
