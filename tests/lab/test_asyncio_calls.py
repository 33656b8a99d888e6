"""The program that measures calls from asyncio: its report, and a small run."""

from __future__ import annotations

import pytest

from virtuallog_lab.experiments import asyncio_calls
from virtuallog_lab.experiments.asyncio_calls import CallSample
from virtuallog_lab.harness.machine import Machine


def sample(way: str, milliseconds: float, wake_ups: int = 0) -> CallSample:
    return CallSample(
        way=way,
        call="append",
        outstanding=1,
        latencies=[milliseconds / 1000] * 10,
        seconds=1.0,
        cpu_seconds=0.001,
        wake_ups=wake_ups,
    )


def test_the_difference_is_that_of_one_round() -> None:
    """A slow round changes both ways, whichever came first in it."""
    samples = [sample("asyncio", 1.1, 20), sample("trio", 1.0), sample("trio", 5.0), sample("asyncio", 5.2, 20)]
    told = asyncio_calls.report(Machine.look(), samples)

    assert told.plain["rows"]["append, 1"]["more_ms"] == pytest.approx(0.15)
    assert [row[0] for row in told.tables[0].rows] == ["append, 1, trio", "append, 1, asyncio"]
    assert told.tables[0].rows[1][5:] == ["0.15 (0.10-0.20)", "0.15 (0.10-0.20)", "100 (100-100)", "2.00"]


@pytest.mark.processes
async def test_calls_are_measured_through_both() -> None:
    """A small run, on real processes: each way, call and number of callers."""
    found = await asyncio_calls.run([1, 4], 1, 0.05)

    assert {(each.way, each.call, each.outstanding) for each in found} == {
        (way, call, callers) for way in asyncio_calls.WAYS for call in asyncio_calls.CALLS for callers in (1, 4)
    }
    assert all(each.latencies for each in found)
    assert all((each.wake_ups > 0) == (each.way == "asyncio") for each in found)
