"""Report of a trace: costs by process with the systems beside each other, tasks, system calls, and the timelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.report import Report, Table
from virtuallog_lab.trace.kernel import has_strace
from virtuallog_lab.trace.run import ProcessCosts, Trace
from virtuallog_lab.trace.subjects import PROCESSES

NAMES_MAX: Final = 10
"""Most names of tasks or system calls of a process."""
COSTS: Final[Mapping[str, Callable[[ProcessCosts], float]]] = {
    "turns": lambda costs: costs.events.turns,
    "woken": lambda costs: sum(costs.events.woken.values()),
    "steps": lambda costs: sum(costs.events.steps.values()),
    "built": lambda costs: costs.events.built,
    "parsed": lambda costs: costs.events.parsed,
    "calls": lambda costs: sum(costs.system_calls.values()),
    "waits": lambda costs: costs.hand_overs,
    "CPU us": lambda costs: costs.cpu_us,
}
"""Columns of the first table."""


def trace_report(traces: Sequence[Trace], machine: Machine) -> Report:
    """The report of a run."""
    numbers = sorted({trace.outstanding for trace in traces})
    tables = []
    for number in numbers:
        systems = [trace for trace in traces if trace.outstanding == number]
        tables += [_costs(systems), _names("task steps", systems, lambda costs: costs.events.steps)]
        tables.append(_names("system calls", systems, lambda costs: costs.system_calls))
    tables += [_timeline(trace) for trace in traces if trace.steps]
    return Report(
        title="Trace of an append",
        machine=machine,
        tables=tables,
        plain={"traces": [trace.plain() for trace in traces], "strace": has_strace()},
        verdict="\n".join(_latency(trace) for trace in traces),
    )


def _costs(systems: Sequence[Trace]) -> Table:
    calls = "system calls under strace" if has_strace() else "reads and writes, as strace is not installed"
    title = (
        f"{systems[0].outstanding} outstanding, per append: scheduler turns, tasks woken, task steps, messages built and parsed, "
        f"{calls}, waits of a thread (hand-overs), CPU time"
    )
    rows = [
        [f"{process}, {trace.system}", *_cells([trace.processes[process]])]
        for process in PROCESSES
        for trace in systems
    ]
    rows += [[f"all, {trace.system}", *_cells([*trace.processes.values()])] for trace in systems]
    return Table(title, ["process", *COSTS], rows)


def _cells(processes: Sequence[ProcessCosts]) -> list[str]:
    sums = {name: sum(map(cost, processes)) for name, cost in COSTS.items()}
    return [f"{value:,.0f}" if name == "CPU us" else f"{value:,.2f}" for name, value in sums.items()]


def _names(what: str, systems: Sequence[Trace], counts: Callable[[ProcessCosts], Mapping[str, float]]) -> Table:
    """The largest counts by name, with the systems beside each other."""
    rows = []
    for process in PROCESSES:
        found = [counts(trace.processes[process]) for trace in systems]
        most = {name: max(each.get(name, 0.0) for each in found) for each in found for name in each}
        rows += [
            [f"{process}: {name}", *(f"{each[name]:.2f}" if name in each else "-" for each in found)]
            for name in sorted(most, key=lambda name: -most[name])[:NAMES_MAX]
        ]
    return Table(
        f"{systems[0].outstanding} outstanding, {what} per append", [what, *(trace.system for trace in systems)], rows
    )


def _timeline(trace: Trace) -> Table:
    rows = [
        [
            f"{step.process}{'' if step.in_loop else ', thread'}: {step.kind} {step.detail}".rstrip(),
            f"{step.at_us:,.0f}",
            f"{step.share:.2f}",
        ]
        for step in trace.steps
    ]
    title = f"{trace.system}, a lone append: microseconds since its call, medians over the fastest quarter, and the share of it with this order of steps"
    return Table(title, ["step", "us", "share"], rows)


def _latency(trace: Trace) -> str:
    return (
        f"{trace.system}, {trace.outstanding} outstanding: p50 {trace.p50_us:,.0f} us, "
        f"{trace.traced_p50_us:,.0f} us while recorded"
    )
