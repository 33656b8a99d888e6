"""Report of the database beside ZooKeeper: two tables, and a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import attrs

from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.report import Report, Table, middle_and_ends

OURS: Final = "virtuallog"
THEIRS: Final = "ZooKeeper"
CASES: Final = tuple((kind, outstanding) for kind in ("write", "read") for outstanding in (1, 64, 256))
RATES: Final = {("write", 64): 1.0, ("write", 256): 1.0, ("read", 64): 0.5, ("read", 256): 0.5}
"""Target rates, relative to ZooKeeper's."""
WAITS: Final = {("write", 1): 2.0}
"""Median latency, of ZooKeeper's: what is not to be exceeded."""


@attrs.frozen(kw_only=True)
class DatabasePlan:
    """Plan of a measurement."""

    rounds: int
    seconds: float
    size: int = 100
    """Bytes of a value."""
    cases: Sequence[tuple[str, int]] = CASES
    """Kind of operation, and how many are outstanding."""


@attrs.frozen(kw_only=True)
class DatabaseSample:
    """One measurement of one system."""

    system: str
    kind: str
    outstanding: int
    ops_per_s: float
    p50_ms: float
    p99_ms: float
    client_us: float
    """CPU time of an operation."""
    servers_us: float
    """CPU time of all three servers together, in microseconds."""

    def line(self) -> str:
        """One line of text."""
        return (
            f"{self.kind:>6} {self.outstanding:>4} outstanding, {self.system}: {self.ops_per_s:,.0f}/s, p50 {self.p50_ms:.2f} ms, "
            f"CPU us: client {self.client_us:.1f}, servers {self.servers_us:.1f}"
        )


def report(machine: Machine, plan: DatabasePlan, samples: Sequence[DatabaseSample]) -> Report:
    """Medians and ratios."""
    return Report(
        title=f"The database beside ZooKeeper: three servers each, values of {plan.size} bytes, medians of {plan.rounds} rounds",
        machine=machine,
        tables=[_comparison(plan, samples), _costs(plan, samples)],
        plain={"rounds": plan.rounds, "measurements": [attrs.asdict(sample) for sample in samples]},
        verdict="no operation failed",
    )


def _comparison(plan: DatabasePlan, samples: Sequence[DatabaseSample]) -> Table:
    rows = []
    for case in plan.cases:
        ours, theirs = _of(samples, OURS, *case), _of(samples, THEIRS, *case)
        rate, wait = _ratios(ours, theirs, _rate), _ratios(ours, theirs, _wait)
        rows.append([
            _name(*case),
            f"{_middle(ours, _rate):,.0f}", f"{_middle(theirs, _rate):,.0f}", middle_and_ends(rate, 2),
            f"{_middle(ours, _wait):.2f}", f"{_middle(theirs, _wait):.2f}", middle_and_ends(wait, 2),
            _target(case, median(rate), median(wait)),
        ])  # fmt: skip
    columns = [
        "",
        f"{OURS}, ops/s",
        f"{THEIRS}, ops/s",
        "ratio",
        f"{OURS}, p50 ms",
        f"{THEIRS}, p50 ms",
        "ratio",
        "target",
    ]
    return Table("Throughput and median latency", columns, rows)


def _target(case: tuple[str, int], rate: float, wait: float) -> str:
    if case in RATES:
        return f"ops/s at least {RATES[case]:.1f}: {'met' if rate >= RATES[case] else 'missed'}"
    if case in WAITS:
        return f"p50 at most {WAITS[case]:.1f}: {'met' if wait <= WAITS[case] else 'missed'}"
    return "-"


def _costs(plan: DatabasePlan, samples: Sequence[DatabaseSample]) -> Table:
    rows = [
        [_name(*case), *(
            f"{_middle(_of(samples, system, *case), part):,.1f}" for part in (_servers, _client) for system in (OURS, THEIRS)
        )]
        for case in plan.cases
    ]  # fmt: skip
    columns = ["", *(f"{who}, {system}" for who in ("servers", "client") for system in (OURS, THEIRS))]
    return Table(
        "CPU time of an operation in microseconds, of the three servers together and of the client", columns, rows
    )


def draw(plan: DatabasePlan, samples: Sequence[DatabaseSample], path: Path) -> None:
    """Write a PNG: what both do, side by side."""
    import matplotlib as mpl  # slow to import

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for axes, (label, figures) in zip(panels, _PANELS, strict=True):
        for place, system in enumerate((OURS, THEIRS)):
            heights = [_middle(_of(samples, system, *case), figures) for case in plan.cases]
            axes.bar([at + 0.4 * place for at in range(len(heights))], heights, width=0.4, label=system)
        axes.set_xticks([at + 0.2 for at in range(len(plan.cases))], [f"{kind}\n{count}" for kind, count in plan.cases])
        axes.set(ylabel=label, yscale="log", xlabel="outstanding")
        axes.grid(axis="y", alpha=0.3)
    panels[0].legend()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _name(kind: str, outstanding: int) -> str:
    return f"{kind}, {outstanding} outstanding"


def _of(samples: Sequence[DatabaseSample], system: str, kind: str, outstanding: int) -> list[DatabaseSample]:
    return [each for each in samples if (each.system, each.kind, each.outstanding) == (system, kind, outstanding)]


def _ratios(
    ours: Sequence[DatabaseSample], theirs: Sequence[DatabaseSample], figure: Callable[[DatabaseSample], float]
) -> list[float]:
    """One for each round."""
    return [figure(mine) / figure(other) for mine, other in zip(ours, theirs, strict=True)]


def _middle(samples: Sequence[DatabaseSample], figure: Callable[[DatabaseSample], float]) -> float:
    return median(map(figure, samples))


def _rate(sample: DatabaseSample) -> float:
    return sample.ops_per_s


def _wait(sample: DatabaseSample) -> float:
    return sample.p50_ms


def _servers(sample: DatabaseSample) -> float:
    return sample.servers_us


def _client(sample: DatabaseSample) -> float:
    return sample.client_us


_PANELS: Final = (
    ("operations per second", _rate),
    ("median latency, ms", _wait),
    ("CPU us of an operation, servers", _servers),
)
