"""Report of a run of `history.py`, in tables."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from virtuallog_lab.experiments.history.run import COMPUTING, QUIET, STATES, HistoryFindings, HistoryPlan, WriteRate
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.median_interval import CONFIDENCE, median_interval
from virtuallog_lab.harness.report import Report, Table, middle_and_ends

TARGET: Final = 0.03
"""Most of the rate of writes that a question may cost."""


def report(machine: Machine, plan: HistoryPlan, found: HistoryFindings) -> Report:
    """All that was measured."""
    tables = [table for table in (_questions(found), _rates(found)) if table.rows]
    return Report(
        title="The past of a database",
        machine=machine,
        tables=tables,
        plain=found.plain(),
        verdict=(
            f"{plan.keys:,} znodes, {plan.writes:,} writes of {plan.size} bytes in {found.positions:,} positions, made in "
            f"{found.build_seconds:.0f} s: the answers are what was noted while they were made"
        ),
        problems=found.problems,
    )


def _questions(found: HistoryFindings) -> Table:
    rows = [
        [each.what, f"{each.entries:,}", f"{each.writes:,}", f"{each.rows:,}", f"{each.seconds:,.1f}"]
        for each in found.questions
    ]
    columns = ["question", "entries between", "writes between", "rows", "seconds"]
    return Table("Questions, each a process from its start to its end", columns, rows)


def _rates(found: HistoryFindings) -> Table:
    rows = []
    for load in dict.fromkeys(each.load for each in found.rates):
        quiet, computing = _of(found, load, QUIET), _of(found, load, COMPUTING)
        for state in STATES:
            those = _of(found, load, state)
            cells = [
                middle_and_ends([each.per_second for each in those]),
                middle_and_ends([100 * each.cpu for each in those]) if state != QUIET else "",
                _slower(those, quiet) if state != QUIET else "",
            ]
            cells += (
                [_slower(those, computing), _target(those, computing)] if state not in (QUIET, COMPUTING) else ["", ""]
            )
            rows.append([f"{load}, {state}", *cells])
    columns = [
        "writes, program beside",
        "writes/s",
        "its CPU, %",
        "slower than quiet, %",
        "than computing, %",
        "target",
    ]
    title = (
        f"Writes beside a program of idle priority on the same machine. Medians of the rounds, and ends; of the ratios to other parts of the same "
        f"round their {CONFIDENCE:.0%} intervals. At most {TARGET:.0%} slower than beside a program that takes nothing from the cluster is the target"
    )
    return Table(title, columns, rows)


def _of(found: HistoryFindings, load: str, state: str) -> list[WriteRate]:
    return [each for each in found.rates if (each.load, each.state) == (load, state)]


def _ratios(those: Sequence[WriteRate], base: Sequence[WriteRate]) -> list[float]:
    """Shares of the rate of each round that are missing."""
    return [1 - each.per_second / other.per_second for each, other in zip(those, base, strict=True)]


def _slower(those: Sequence[WriteRate], base: Sequence[WriteRate]) -> str:
    ratios = _ratios(those, base)
    low, high = median_interval(ratios)
    return f"{100 * median(ratios):.1f} ({100 * low:.1f} to {100 * high:.1f})"


def _target(those: Sequence[WriteRate], base: Sequence[WriteRate]) -> str:
    low, high = median_interval(_ratios(those, base))
    return "met" if high <= TARGET else "missed" if low > TARGET else "open"
