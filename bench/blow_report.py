"""What blows have cost, as tables and a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from bench.blows import Blow, kinds_of, recovery_seconds
from virtuallog_server.bench.report import Report, Table
from virtuallog_server.bench.trial import Evidence
from virtuallog_server.machine import Machine
from virtuallog_server.workload.pauses import SPREAD_COLUMNS, Spread

TARGET_SECONDS: Final = 3.0
"""Until somebody else orders appends."""
COORDINATOR_SECONDS: Final = 2.0
"""The same within a loglet, where no chain has to grow."""


def report(machine: Machine, evidence: Evidence[list[Blow]], *, without_target: Sequence[str] = ()) -> Report:
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


def _failures(blows: Sequence[Blow]) -> Iterator[str]:
    """What must not be, however right the history is."""
    for blow in blows:
        if not blow.by_itself:
            yield f"{blow.kind} at {blow.at:.1f} s: appends did not resume by themselves"
        for node in blow.fallen:
            yield f"{blow.kind} at {blow.at:.1f} s: node {node} has ended, though nobody had killed it"


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
    return COORDINATOR_SECONDS if kind == "coordinator" else TARGET_SECONDS
