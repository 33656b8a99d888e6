"""Report of churn: tables and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from virtuallog_lab.experiments.churn.run import WIPED, ChurnFindings
from virtuallog_lab.experiments.churn.sizes import ClusterSizes
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.report import Report, Table

MIB: Final = 1 << 20
PARTS: Final = 10
FLAT: Final = 1.25
"""The most of the second half of the run, relative to the most of the second quarter, when all has reached its usual size."""


def report(machine: Machine, found: ChurnFindings) -> Report:
    """All that was seen."""
    plan = found.plan
    return Report(
        title="Churn",
        machine=machine,
        tables=[_sizes(found), _targets(found), *([_wiped(found)] if found.marks else [])],
        plain=found.plain(),
        verdict=(
            f"{plan.writes:,} writes over {plan.keys:,} znodes: no acknowledged write is missing, "
            f"and all servers hold the same (checksum {min(found.checksums.values()):08x})"
        ),
        problems=found.problems,
    )


def _sizes(found: ChurnFindings) -> Table:
    """Ten parts of the run, each with the most that was seen in it."""
    rows = []
    for part in range(PARTS):
        low, high = (found.plan.writes * edge // PARTS for edge in (part, part + 1))
        looks = [look for look in found.looks if low <= look.writes < high or look.writes == high == found.plan.writes]
        if looks:
            rows.append([f"{high:,}", *_row(looks)])
    columns = ["writes", "writes/s", "log MiB", "database MiB", "process MiB", "log begins at", "and ends at"]
    return Table("The most that any server took, over the run", columns, rows)


def _row(looks: Sequence[ClusterSizes]) -> list[str]:
    first, last = looks[0], looks[-1]
    rate = (last.writes - first.writes) / (last.at - first.at) if last.at > first.at else 0.0
    most = [max(look.most(name) for look in looks) for name in ("log_bytes", "store_bytes", "resident_bytes")]
    return [
        f"{rate:,.0f}" if rate else "-",
        *(f"{value / MIB:,.0f}" for value in most),
        f"{last.trim_point:,}",
        f"{last.most('cursor'):,}",
    ]


def _targets(found: ChurnFindings) -> Table:
    rows = []
    for title, name in (("log", "log_bytes"), ("database", "store_bytes"), ("process", "resident_bytes")):
        early, late = _most(found, name, 0.25, 0.5), _most(found, name, 0.5, 1.01)
        change = f"{late / early - 1:+.0%}" if early else "-"
        rows.append([title, f"{early / MIB:,.0f} MiB", f"{late / MIB:,.0f} MiB", change, f"at most +{FLAT - 1:.0%}"])
    return Table("Flat?", ["what", "second quarter", "second half", "change", "target"], rows)


def _most(found: ChurnFindings, name: str, low: float, high: float) -> int:
    writes = found.plan.writes
    return max((look.most(name) for look in found.looks if low <= look.writes / writes < high), default=0)


def _wiped(found: ChurnFindings) -> Table:
    marks = list(found.marks.items())
    rows = [[f"{was} to {what}", f"{at - before:.1f}"] for (was, before), (what, at) in pairwise(marks)]
    rate = _rate(found, found.marks.get("killed", 0.0), found.marks.get("serving", 0.0))
    return Table(
        f"Server {WIPED}, wiped at {found.marks.get('killed', 0.0):.0f} s",
        ["from", "seconds"],
        [*rows, ["writes/s of the others meanwhile", f"{rate:,.0f}"]],
    )


def _rate(found: ChurnFindings, low: float, high: float) -> float:
    looks = [look for look in found.looks if low <= look.at <= high]
    if len(looks) < 2:
        return 0.0
    return (looks[-1].writes - looks[0].writes) / (looks[-1].at - looks[0].at)


def draw(found: ChurnFindings, path: Path) -> None:
    """Write a PNG."""
    import matplotlib as mpl  # slow to import, and needed only here

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (upper, middle, lower) = pyplot.subplots(3, 1, figsize=(12, 9), sharex=True, layout="constrained")
    _draw_rate(upper, found)
    _draw_sizes(middle, found, "log_bytes", "log, MiB on disk")
    _draw_sizes(lower, found, "store_bytes", "database and snapshots,\nMiB on disk")
    lower.set(xlim=(0, found.looks[-1].at), xlabel=f"seconds; server {WIPED} is wiped between the dashed lines")
    figure.suptitle(f"{found.plan.writes:,} writes over {found.plan.keys:,} znodes", x=0.01, ha="left")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _draw_rate(axes: Any, found: ChurnFindings) -> None:
    rates = [(later.writes - look.writes) / max(later.at - look.at, 1e-9) for look, later in pairwise(found.looks)]
    axes.step([look.at for look in found.looks[1:]], rates, where="pre", color="tab:blue")
    axes.set_ylabel("writes per second")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    _finish(axes, found)


def _draw_sizes(axes: Any, found: ChurnFindings, name: str, label: str) -> None:
    for node in sorted({node.node for look in found.looks for node in look.nodes}):
        sizes = [
            (look.at, getattr(each, name) / MIB) for look in found.looks for each in look.nodes if each.node == node
        ]
        axes.plot(*zip(*sizes, strict=True), label=f"server {node}")
    axes.set_ylabel(label)
    axes.legend(frameon=False, loc="upper left", ncols=3)
    _finish(axes, found)


def _finish(axes: Any, found: ChurnFindings) -> None:
    for what in ("killed", "serving"):
        if what in found.marks:
            axes.axvline(found.marks[what], color="black", linestyle="--", linewidth=0.8)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
