"""One measurement of one system: an open loop, a part of which counts."""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from typing import Final

import trio

from virtuallog.contract.errors import UnavailableError
from virtuallog_lab.experiments.fixed_rate.open_loop import OpenLoop, OpenLoopRun
from virtuallog_lab.experiments.fixed_rate.punctual_clock import PunctualClock
from virtuallog_lab.experiments.fixed_rate.report import RatePlan, RateSample
from virtuallog_lab.experiments.fixed_rate.systems import RatedServers, RatedSystem
from virtuallog_lab.harness.cpu_time import CpuMeter
from virtuallog_lab.harness.program import PeerError
from virtuallog_lab.harness.report import tell
from virtuallog_lab.workload.appends import percentile

DRAIN_SECONDS: Final = 10.0
"""Seconds for the last answers: a system that is too slow for the load must not take much longer than others."""
REST_SECONDS: Final = 5.0
"""Seconds before another attempt: a system that has lost its leader elects one."""


async def measure(
    system: RatedSystem, servers: RatedServers, plan: RatePlan, rate: int, times: Sequence[float], clock: PunctualClock
) -> RateSample:
    """Measure with writes that are due at these times, in seconds since the first.

    Raises:
        PeerError: a write has failed, or none was answered, in each attempt that the system has.
        UnavailableError: a server does not answer.
    """
    for _ in range(system.attempts - 1):
        try:
            return await _measure_once(system.name, servers, plan, rate, times, clock)
        except* (PeerError, UnavailableError) as failure:
            tell(f"{system.name}, once more: {failure.exceptions}")
            await clock.sleep(REST_SECONDS)
    return await _measure_once(system.name, servers, plan, rate, times, clock)


async def _measure_once(
    name: str, servers: RatedServers, plan: RatePlan, rate: int, times: Sequence[float], clock: PunctualClock
) -> RateSample:
    async with servers.connect(plan.size) as post:
        began = clock.monotonic()
        loop = OpenLoop(array("d", (began + time for time in times)), plan.in_flight)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(OpenLoopRun(loop, post, clock).run, DRAIN_SECONDS)
            await clock.sleep(plan.warm_up_seconds)
            counted_from, answers_before = clock.monotonic(), loop.answers
            meter = CpuMeter([("client", os.getpid()), *(("servers", pid) for pid in servers.pids)])
            await clock.sleep(plan.seconds)
            used = meter.seconds()
            seconds, answers = clock.monotonic() - counted_from, loop.answers - answers_before
        waits = loop.waits(counted_from, clock.monotonic())  # a client that is closed gives up what has no answer
    if not answers:
        raise PeerError(f"{name} answered nothing")
    return RateSample(
        system=name,
        rate=rate,
        answered_per_s=answers / seconds,
        p50_ms=1000 * percentile(waits.latencies, 0.5),
        p99_ms=1000 * percentile(waits.latencies, 0.99),
        p999_ms=1000 * percentile(waits.latencies, 0.999),
        max_ms=1000 * waits.latencies[-1],
        late_p99_ms=1000 * percentile(waits.lateness, 0.99),
        unanswered=waits.unanswered,
        servers_us=1e6 * used["servers"] / answers,
        client_us=1e6 * used["client"] / answers,
    )
