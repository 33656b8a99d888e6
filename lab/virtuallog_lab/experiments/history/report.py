"""Report of a run of `history.py`, in tables."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from virtuallog_lab.experiments.history.run import QUIET, STATES, HistoryFindings, HistoryPlan, WriteRate
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
        quiet = _of(found, load, QUIET)
        for state in STATES:
            those = _of(found, load, state)
            slower = [1 - each.per_second / other.per_second for each, other in zip(those, quiet, strict=True)]
            rows.append(
                [
                    f"{load}, {state}",
                    middle_and_ends([each.per_second for each in those]),
                    *(("", "", "") if state == QUIET else (*_verdict(slower), f"{_under_way(those):.0%}")),
                ]
            )
    columns = ["writes, question", "writes/s", "slower, %", "target", "under way to the end"]
    title = (
        f"Writes beside a question. Medians of the rounds, and ends; of the ratio to the quiet part of the same round its "
        f"{CONFIDENCE:.0%} interval. At most {TARGET:.0%} slower is the target"
    )
    return Table(title, columns, rows)


def _of(found: HistoryFindings, load: str, state: str) -> list[WriteRate]:
    return [each for each in found.rates if (each.load, each.state) == (load, state)]


def _verdict(slower: Sequence[float]) -> tuple[str, str]:
    low, high = median_interval(slower)
    target = "met" if high <= TARGET else "missed" if low > TARGET else "open"
    return f"{100 * median(slower):.1f} ({100 * low:.1f} to {100 * high:.1f})", target


def _under_way(those: Sequence[WriteRate]) -> float:
    return sum(each.under_way for each in those) / len(those)
