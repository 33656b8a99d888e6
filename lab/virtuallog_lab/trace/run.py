"""Runs a trace: for each system and number of outstanding appends a phase without a trace, one under strace, one that counts events, and
for a lone append one with pauses for the timeline.

Figures of CPU time, latency and hand-overs come from the first phase, as recording costs time itself.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from virtuallog.contract.ports import Clock
from virtuallog_lab.harness.cpu_time import CpuMeter
from virtuallog_lab.harness.program import PeerError
from virtuallog_lab.trace import kernel
from virtuallog_lab.trace.counts import EventCounts, count_events
from virtuallog_lab.trace.events import ProcessTrace, name_peers
from virtuallog_lab.trace.subjects import CLIENT, Subject, open_product, open_traced_floor
from virtuallog_lab.trace.timeline import TimelineStep, Window, typical_steps
from virtuallog_lab.trace.tracer import Tracer
from virtuallog_lab.workload.appends import Append, percentile
from virtuallog_server.process.process import SWITCH_SECONDS

SETTLE_SECONDS: Final = 0.3
"""Time in seconds for the processes to begin a trace, and for the work behind the last acknowledgement."""
POLL_SECONDS: Final = 0.02
WRITE_SECONDS: Final = 60.0
"""Timeout in seconds for a process to write its trace; hundreds of thousands of events take a second."""
PAUSE_SECONDS: Final = 0.002
"""Pause between two appends of a timeline, in seconds: the third log server answers when the client has gone on, and that shall not
be taken for a step of the next append."""


@attrs.frozen(kw_only=True)
class TracePlan:
    """Plan of a trace."""

    outstanding: Sequence[int]
    size: int
    seconds: float
    """Length of a phase."""
    loglet: str


@attrs.frozen(kw_only=True)
class ProcessCosts:
    """One process, per append."""

    cpu_us: float
    hand_overs: float
    """Times that a thread waited: voluntary context switches."""
    system_calls: Mapping[str, float]
    """By name; without `strace` only 'read or write'."""
    events: EventCounts


@attrs.frozen(kw_only=True)
class Trace:
    """One system with so many appends outstanding."""

    system: str
    outstanding: int
    p50_us: float
    """Median latency without a trace."""
    traced_p50_us: float
    """Median latency while events are counted: the difference is the cost of recording."""
    processes: Mapping[str, ProcessCosts]
    steps: Sequence[TimelineStep]
    """Timeline of one append; empty if several are outstanding, as their steps are mixed."""

    @property
    def timeline_us(self) -> float:
        """End of the timeline as its client sees it. There are pauses between its appends, so caches are colder."""
        return max(step.at_us for step in self.steps if step.process == CLIENT)

    def plain(self) -> dict[str, Any]:
        return attrs.asdict(self)


async def run(plan: TracePlan, clock: Clock) -> list[Trace]:
    """Trace the product, then the floor."""
    sys.setswitchinterval(SWITCH_SECONDS)
    traces = []
    with tempfile.TemporaryDirectory(prefix="virtuallog-trace-") as name:
        folder = Path(name)
        for subject_of in (open_product(folder, plan.loglet), open_traced_floor(folder)):
            async with subject_of as subject:
                traces += [await _trace(subject, clock, number, plan) for number in plan.outstanding]
    return traces


async def _trace(subject: Subject, clock: Clock, outstanding: int, plan: TracePlan) -> Trace:
    load = _Load(subject.append, clock, outstanding, plan.size)
    await load.run(plan.seconds / 2)  # warm-up
    pids = subject.pids
    meter, before = CpuMeter([*pids.items()]), kernel.read_all(kernel.switches, pids)
    plain = await load.run(plan.seconds)
    cpu, hand_overs = meter.seconds(), kernel.per_append(before, kernel.read_all(kernel.switches, pids), len(plain))
    system_calls = await _count_system_calls(subject, load, plan.seconds)
    windows, recorded = await _record(subject, clock, load, plan.seconds)
    named = name_peers(recorded)
    begin, end = windows[0][0], max(end for _, end in windows)
    processes = {
        name: ProcessCosts(
            cpu_us=1e6 * cpu[name] / len(plain),
            hand_overs=hand_overs[name],
            system_calls=system_calls[name],
            events=count_events(named[name], begin, end, len(windows)),
        )
        for name in pids
    }
    return Trace(
        system=subject.name,
        outstanding=outstanding,
        p50_us=_median_us(plain),
        traced_p50_us=_median_us(windows),
        processes=processes,
        steps=await _timeline(subject, clock, plan) if outstanding == 1 else [],
    )


async def _timeline(subject: Subject, clock: Clock, plan: TracePlan) -> list[TimelineStep]:
    load = _Load(subject.append, clock, 1, plan.size, PAUSE_SECONDS)
    windows, recorded = await _record(subject, clock, load, plan.seconds)
    return typical_steps(windows, name_peers(recorded), CLIENT)


@attrs.frozen
class _Load:
    """So many appends outstanding."""

    append: Append
    clock: Clock
    outstanding: int
    size: int
    pause_seconds: float = 0.0

    async def run(self, seconds: float) -> list[Window]:
        """Append for so long; begin and end of each append, in the order in which they began."""
        end, payload = self.clock.monotonic() + seconds, bytes(self.size)
        windows: list[Window] = []

        async def keep_one_outstanding() -> None:
            while (began := self.clock.monotonic()) < end:
                await self.append(payload)
                windows.append((began, self.clock.monotonic()))
                if self.pause_seconds:
                    await self.clock.sleep(self.pause_seconds)

        async with trio.open_nursery() as nursery:
            for _ in range(self.outstanding):
                nursery.start_soon(keep_one_outstanding)
        return sorted(windows)


async def _count_system_calls(subject: Subject, load: _Load, seconds: float) -> dict[str, dict[str, float]]:
    if not kernel.has_strace():
        before = kernel.read_all(kernel.reads_and_writes, subject.pids)
        appends = len(await load.run(seconds))
        counts = kernel.per_append(before, kernel.read_all(kernel.reads_and_writes, subject.pids), appends)
        return {name: {"read or write": count} for name, count in counts.items()}
    async with kernel.counted_system_calls(subject.pids, subject.folder) as counted:
        appends = len(await load.run(seconds))
    return {
        name: {call: count / appends for call, count in sorted(calls.items(), key=lambda item: -item[1])}
        for name, calls in counted().items()
    }


async def _record(
    subject: Subject, clock: Clock, load: _Load, seconds: float
) -> tuple[list[Window], dict[str, ProcessTrace]]:
    others = {name: pid for name, pid in subject.pids.items() if name != CLIENT}
    tracer = Tracer(clock)
    for pid in others.values():
        os.kill(pid, signal.SIGUSR1)
    tracer.begin()
    await clock.sleep(SETTLE_SECONDS)
    windows = await load.run(seconds)
    await clock.sleep(SETTLE_SECONDS)
    recorded = {CLIENT: tracer.end()}
    for name, pid in others.items():
        os.kill(pid, signal.SIGUSR2)
        recorded[name] = await _written(subject.folder / f"{pid}.json", clock)
    return windows, recorded


async def _written(file: Path, clock: Clock) -> ProcessTrace:
    """Wait for the file of a process, and take it."""
    with clock.timeout(WRITE_SECONDS):
        while (trace := ProcessTrace.take(file)) is None:
            await clock.sleep(POLL_SECONDS)
        return trace
    raise PeerError(f"process {file.stem} has not written its trace in {WRITE_SECONDS:g} s; has it ended?")


def _median_us(windows: Sequence[Window]) -> float:
    return 1e6 * percentile(sorted(end - begin for begin, end in windows), 0.5)
