"""Report of the Delos experiment: latencies before and after the swap, beside the published ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

import attrs

from virtuallog_lab.experiments.swaps.delos_load import APPEND, READ, LatencySample
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.report import Report, Table
from virtuallog_lab.workload.appends import percentile
from virtuallog_lab.workload.latencies import SPREAD_COLUMNS, Spread

PUBLISHED: Final = {APPEND: "5x (writes)", READ: "10x (reads)"}
"""Factor by which p99 fell when Delos moved a service from its ZooKeeper loglet to its native one
(OSDI'20, section 5.1, figure 8). The paper says itself that this loglet was not optimised."""
OVERLOAD_MS: Final = 1000.0
"""No log takes that long; a queue that grows does."""
BIN_SECONDS: Final = 0.5
COLOURS: Final = {APPEND: "tab:blue", READ: "tab:green"}


@attrs.frozen(kw_only=True)
class DelosOutcome:
    """Result of one run; times in seconds since the start."""

    samples: Mapping[str, Sequence[LatencySample]]
    warm: float
    """Start of the measurement; older samples do not count."""
    asked: float
    """Time at which the swap was requested."""
    decided: float
    settled: float
    """Operations due between `asked` and this time belong to neither side."""
    rates: Mapping[str, float]
    unknown: int
    entries: int
    problems: Sequence[str]

    def spread(self, kind: str, *, after: bool) -> Spread:
        begin, end = (self.settled, float("inf")) if after else (self.warm, self.asked)
        return Spread.of([sample.seconds for sample in self.samples[kind] if begin <= sample.due < end])

    def worst_during(self, kind: str) -> float:
        """The slowest operation that the swap can have hit, in ms."""
        hit = [
            1000 * sample.seconds
            for sample in self.samples[kind]
            if sample.due < self.settled and sample.due + sample.seconds > self.asked
        ]
        return max(hit, default=0.0)


def report(machine: Machine, outcome: DelosOutcome) -> Report:
    """Tables and verdict."""
    kinds = (APPEND, READ)
    spreads = {kind: [outcome.spread(kind, after=after) for after in (False, True)] for kind in kinds}
    return Report(
        title="From ZooKeeper to native, live: the Delos experiment on one machine",
        machine=machine,
        tables=[_latencies(spreads), _ratios(spreads), _swap(outcome)],
        plain={
            "rates": dict(outcome.rates),
            "latency": {kind: {"before": pair[0].plain(), "after": pair[1].plain()} for kind, pair in spreads.items()},
            "during_ms": {kind: round(outcome.worst_during(kind), 1) for kind in kinds},
            "swap_ms": round(1000 * (outcome.decided - outcome.asked), 1),
            "unknown": outcome.unknown,
        },
        verdict=f"{outcome.entries:,} entries in the log, {outcome.unknown} operations without an answer: nothing lost, nothing "
        "doubled, nothing reordered, every read linearizable",
        problems=[*outcome.problems, *_overload(spreads)],
    )


def _overload(spreads: Mapping[str, Sequence[Spread]]) -> list[str]:
    """Figures that say how long the queue was, and nothing about the log."""
    return [
        f"half of the {kind}s that were due {side} the swap took {spread.p50_ms:,.0f} ms or were not answered: the load is too "
        "much for this machine, which may be busy"
        for kind, pair in spreads.items()
        for side, spread in zip(("before", "after"), pair, strict=True)
        if not 0 < spread.p50_ms < OVERLOAD_MS
    ]


def _latencies(spreads: Mapping[str, Sequence[Spread]]) -> Table:
    rows = [
        [f"{kind}, {side}", *spread.cells()]
        for kind, pair in spreads.items()
        for side, spread in zip(("on zookeeper", "on native"), pair, strict=True)
    ]
    return Table("Latency, from when an operation was due", ["", *SPREAD_COLUMNS], rows)


def _ratios(spreads: Mapping[str, Sequence[Spread]]) -> Table:
    rows = [
        [kind, _factor(before.p50_ms, after.p50_ms), _factor(before.p99_ms, after.p99_ms), PUBLISHED[kind]]
        for kind, (before, after) in spreads.items()
    ]
    return Table("Faster on native by a factor of", ["", "p50", "p99", "published, p99"], rows)


def _factor(before: float, after: float) -> str:
    return f"{before / after:.1f}" if after else "-"


def _swap(outcome: DelosOutcome) -> Table:
    rows = [[f"slowest {kind} that it hit", f"{outcome.worst_during(kind):,.1f}"] for kind in outcome.samples]
    took = f"{1000 * (outcome.decided - outcome.asked):,.1f}"
    return Table("The swap itself", ["", "ms"], [["asked to answered", took], *rows])


def draw(outcome: DelosOutcome, path: Path) -> None:
    """Write a PNG: p50 and p99 of each half second, reads above appends."""
    import matplotlib as mpl  # slow to import, and needed only here

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, rows = pyplot.subplots(2, 1, figsize=(12, 6.5), sharex=True, layout="constrained")
    for axes, kind in zip(rows, (READ, APPEND), strict=True):
        _draw_latency(axes, outcome.samples[kind], COLOURS[kind])
        axes.axvline(outcome.asked, color="black", linestyle="--", linewidth=1)
        axes.axvspan(0, outcome.warm, color="0.93")
        axes.set_ylabel(f"{kind}, ms\n(log scale)")
    rows[0].annotate(
        "swap: zookeeper \N{RIGHTWARDS ARROW} native", (outcome.asked, 1.0), xycoords=("data", "axes fraction"),
        xytext=(0, 4), textcoords="offset points", ha="center", fontsize=9,
    )  # fmt: skip
    rows[1].set_xlabel("seconds; grey: warm-up")
    figure.suptitle("The log moves from ZooKeeper to a native loglet, live, under a steady load", x=0.01, ha="left")
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def _draw_latency(axes: Any, samples: Sequence[LatencySample], colour: str) -> None:
    bins: dict[int, list[float]] = {}
    for sample in samples:
        bins.setdefault(int(sample.due / BIN_SECONDS), []).append(1000 * sample.seconds)
    times = [(index + 0.5) * BIN_SECONDS for index in sorted(bins)]
    for share, style, label in ((0.5, "-", "p50"), (0.99, ":", "p99")):
        values = [percentile(sorted(bins[index]), share) for index in sorted(bins)]
        axes.plot(times, values, style, color=colour, label=f"{label} of each {BIN_SECONDS:g} s")
    axes.set_yscale("log")
    low, high = min(chain(*bins.values())), max(chain(*bins.values()))
    ticks = [tick for tick in (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if low / 2 <= tick <= high * 2]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(axis="y", color="0.9")
    axes.legend(frameon=False, ncols=2, loc="upper right")
    axes.spines[["top", "right"]].set_visible(False)
