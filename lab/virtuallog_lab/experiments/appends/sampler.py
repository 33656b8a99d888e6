"""Takes a sample of a system: measures appends, and the CPU times of its processes meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from virtuallog.contract.ports import Clock
from virtuallog_lab.experiments.appends.samples import AppendSample
from virtuallog_lab.harness.cpu_time import CpuMeter
from virtuallog_lab.workload.appends import Append, Measurement, measure_spread, warm_up_seconds


async def take_sample(
    system: str,
    appends: Sequence[Append],
    processes: Sequence[tuple[str, int]],
    clock: Clock,
    outstanding: int,
    size: int,
    seconds: float,
) -> AppendSample:
    """One measurement; it warms up first.

    Args:
        system: one of `samples.SYSTEMS`.
        appends: functions over which the outstanding appends are spread.
        processes: names, as in `samples.PROCESSES`, and ids.
        clock: of this process.
        outstanding: how many appends.
        size: bytes of an entry.
        seconds: length of the measurement.

    Raises:
        VirtualLogError: an append failed.
    """
    measured: list[Measurement] = []

    async def run() -> None:
        measured.append(await measure_spread(appends, clock, outstanding, size, seconds))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await clock.sleep(warm_up_seconds(seconds))
        meter = CpuMeter(processes)
        await clock.sleep(seconds)
        used = meter.seconds()
    return AppendSample(
        system=system,
        outstanding=outstanding,
        bytes=size,
        ops_per_s=measured[0].ops_per_s,
        p50_ms=measured[0].p50_ms,
        p99_ms=measured[0].p99_ms,
        cpu_us={name: 1e6 * value / measured[0].ops for name, value in used.items()},
    )
