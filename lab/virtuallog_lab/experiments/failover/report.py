"""Report and picture of a run of injected faults: recovery times as tables, a verdict, and a plot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from virtuallog_lab.experiments.failover.faults import InjectedFault, kinds_of, recovery_seconds
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.report import Report, Table
from virtuallog_lab.harness.trial import Evidence
from virtuallog_lab.workload.latencies import SPREAD_COLUMNS, Spread

BIN_SECONDS: Final = 0.25
COLOURS: Final = ("tab:red", "black", "tab:orange", "tab:purple", "tab:green")
TARGET_SECONDS: Final = 3.0
"""Target seconds until another node orders appends."""
COORDINATOR_SECONDS: Final = 2.0
"""Target seconds within a loglet, where no chain has to grow."""


def report(machine: Machine, evidence: Evidence[list[InjectedFault]], *, without_target: Sequence[str] = ()) -> Report:
    """A table of the times, and the verdict. Kinds `without_target` may take as long as they take."""
    blows = evidence.result
    times = {kind: recovery_seconds(evidence, kind) for kind in kinds_of(blows)}
    spreads = {kind: Spread.of(seconds) for kind, seconds in times.items()}
    return Report(
        title=f"{len(blows)} blows under load",
        machine=machine,
        tables=[_table(times, spreads, without_target)],
        plain={
            "blows": {kind: {"times": len(times[kind]), **spread.plain()} for kind, spread in spreads.items()},
            "by_itself": sum(blow.by_itself for blow in blows),
            "acknowledged": evidence.workload.acknowledged,
            "unknown": evidence.workload.unknown,
        },
        verdict=evidence.summary,
        problems=[*_failures(blows), *evidence.verdict.problems],
    )


def _failures(blows: Sequence[InjectedFault]) -> Iterator[str]:
    """Failures that count even if the history is right."""
    for blow in blows:
        if not blow.by_itself:
            yield f"{blow.kind} at {blow.at:.1f} s: appends did not resume by themselves"
        for node in blow.fallen:
            yield f"{blow.kind} at {blow.at:.1f} s: node {node} has ended, though it was not killed"


def _table(times: dict[str, list[float]], spreads: dict[str, Spread], without_target: Sequence[str]) -> Table:
    rows = [
        [kind, str(len(times[kind])), *spread.cells(), "" if kind in without_target else _met(kind, spread)]
        for kind, spread in spreads.items()
    ]
    targets = sorted({_target(kind) for kind in spreads if kind not in without_target})
    title = f"Until appends are acknowledged again; target {', '.join(f'{each:g}' for each in targets)} s, each time"
    return Table(title, ["", "times", *SPREAD_COLUMNS, "target"], rows)


def _met(kind: str, spread: Spread) -> str:
    return "met" if spread.max_ms <= 1000 * _target(kind) else "missed"


def _target(kind: str) -> float:
    return COORDINATOR_SECONDS if kind in ("coordinator", "leader") else TARGET_SECONDS


def draw(evidence: Evidence[list[InjectedFault]], path: Path) -> None:
    """Draw acknowledgements over time with a line for each fault, and the recovery times; writes a PNG."""
    import matplotlib as mpl  # slow to import, and needed only here

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (upper, lower) = pyplot.subplots(2, 1, figsize=(12, 7.5), layout="constrained")
    _draw_rate(upper, evidence)
    _draw_times(lower, evidence)
    figure.suptitle(f"{len(evidence.result)} blows; {evidence.summary}", x=0.01, ha="left", fontsize=11)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _draw_rate(axes: Any, evidence: Evidence[list[InjectedFault]]) -> None:
    end = evidence.times[-1]
    weights = [1 / BIN_SECONDS] * len(evidence.times)
    bins = [step * BIN_SECONDS for step in range(int(end / BIN_SECONDS) + 2)]
    axes.hist(evidence.times, bins=bins, weights=weights, color="tab:blue", alpha=0.4)
    for kind, colour in _colours(evidence).items():
        for blow in evidence.result:
            if blow.kind == kind:
                axes.axvline(blow.at, color=colour, linewidth=0.8)
    axes.set(xlim=(0, end), xlabel="seconds; a line for each blow", ylabel="acknowledgements per second")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    _tidy(axes)


def _draw_times(axes: Any, evidence: Evidence[list[InjectedFault]]) -> None:
    for kind, colour in _colours(evidence).items():
        at = [blow.at for blow in evidence.result if blow.kind == kind]
        axes.plot(at, recovery_seconds(evidence, kind), "o", markersize=4, color=colour, label=kind)
    axes.set(xlim=(0, evidence.times[-1]), xlabel="seconds", ylabel="seconds until acknowledged again")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    _tidy(axes)


def _colours(evidence: Evidence[list[InjectedFault]]) -> dict[str, str]:
    return dict(zip(kinds_of(evidence.result), cycle(COLOURS), strict=False))


def _tidy(axes: Any) -> None:
    axes.grid(axis="y", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
