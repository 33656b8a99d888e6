"""Both clocks keep the contract of the Clock port where a deadline passes between two looks."""

from __future__ import annotations

import pytest

from virtuallog.contract.ports import Clock
from virtuallog.contract.types import NodeId
from virtuallog.runtime.clock import SystemClock
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process

CLOCKS = [SystemClock(), SimulatedClock(Process(NodeId(1)), rate=1.01)]


@pytest.mark.parametrize("clock", CLOCKS, ids=["system", "simulated"])
async def test_a_timeout_that_is_over_already_is_no_error(clock: Clock) -> None:
    """A block with a negative timeout ends at its first wait."""
    with clock.timeout(-0.001) as scope:
        await clock.sleep(3600)

    assert scope.cancelled_caught


@pytest.mark.parametrize("clock", CLOCKS, ids=["system", "simulated"])
async def test_a_sleep_that_is_over_already_returns(clock: Clock) -> None:
    """A negative sleep returns at once, as one of no time at all."""
    before = clock.monotonic()
    await clock.sleep(-3600)

    assert clock.monotonic() >= before
