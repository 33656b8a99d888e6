"""Draws the demo's run: the chain as it grew, throughput and latency, with a line for everything that was done meanwhile."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from virtuallog.runtime.file_errors import file_errors
from virtuallog_lab.demo.demonstration import DemoOutcome
from virtuallog_lab.demo.page import RIGHT
from virtuallog_lab.workload.latencies import BIN_SECONDS, LatencyBins
from virtuallog_server.report import PAINT, Axis, tone_of
from virtuallog_server.report.figures.axes import spell

KIND_LETTERS: Final = 0.0068
"""Share of the run's length that a letter of a kind's name takes: names that have no room are left
out."""

LABEL_SHARE: Final = 0.03
"""Share of the run's length below which a label would overlap the one before."""
LABEL_POINTS: Final = 18
"""Points by which such a label is raised."""


def draw(outcome: DemoOutcome, path: Path) -> None:
    """Write a PNG.

    Raises:
        StorageError: `path` cannot be written.
    """
    import matplotlib as mpl  # half a second, which no other command should pay

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (top, upper, lower) = pyplot.subplots(
        3, 1, sharex=True, figsize=(12, 7.2), layout="constrained", height_ratios=(0.55, 4, 4)
    )
    bins = LatencyBins.of(outcome.workload.told.values())
    _draw_chain(top, outcome, bins.seconds)
    _draw_throughput(upper, bins)
    _draw_latency(lower, bins)
    _mark(top, (upper, lower), outcome)
    figure.suptitle(f"One log, swapped live under load\n{_summary(outcome)}", x=0.01, ha="left", fontsize=13)
    try:
        with file_errors(path):
            figure.savefig(path, dpi=100)
    finally:
        pyplot.close(figure)


def _summary(outcome: DemoOutcome) -> str:
    acknowledged, problems = outcome.workload.acknowledged, len(outcome.verdict.problems)
    verdict = f"at least {problems} problems found" if problems else RIGHT.lower()
    return f"{acknowledged:,} appends acknowledged as durable on two of three servers: {verdict}"


def _draw_chain(axes: Any, outcome: DemoOutcome, end: float) -> None:
    edges = [0.0, *(change.ended for change in outcome.changes), end]
    for reign, (start, stop) in zip(outcome.reigns, pairwise(edges), strict=True):
        kind = reign.segment.kind
        axes.barh(0, stop - start, left=start, height=1, color=PAINT[tone_of(kind)], edgecolor="white", linewidth=1.5)
        if stop - start > KIND_LETTERS * end * len(kind):
            axes.text((start + stop) / 2, 0, kind, ha="center", va="center", color="white", fontsize=9)
    axes.set_ylim(-0.5, 0.5)
    axes.axis("off")


def _draw_throughput(axes: Any, bins: LatencyBins) -> None:
    times, rates = zip(*bins.rates(), strict=True)
    axes.fill_between(times, rates, step="post", color=PAINT["blue"], alpha=0.25, linewidth=0)
    axes.step(times, rates, where="post", color=PAINT["blue"], linewidth=1)
    axes.set_ylabel(f"appends per second\n(in each {BIN_SECONDS:g} s)")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    _tidy(axes)


def _draw_latency(axes: Any, bins: LatencyBins) -> None:
    found: list[float] = []
    for share, label, colour in ((1.0, "slowest", PAINT["red"]), (0.5, "median", PAINT["green"])):
        points = bins.milliseconds(share)
        found.extend(value for _, value in points if value is not None)
        values = [float("nan") if value is None else value for _, value in points]
        axes.plot([at for at, _ in points], values, linewidth=1.2, label=label, color=colour)
    scale = Axis.logarithmic(found)
    axes.set_yscale("log")
    axes.set_ylim(scale.low, scale.high)
    axes.set_yticks(scale.ticks, [spell(tick) for tick in scale.ticks], minor=False)
    axes.minorticks_off()
    axes.set_ylabel("latency of an append, ms\n(log scale; a hole: none ended)")
    axes.set_xlabel("seconds since the first append")
    axes.legend(loc="upper left", ncols=2, frameon=False)
    _tidy(axes)


def _tidy(axes: Any) -> None:
    axes.grid(axis="y", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0)


def _mark(top: Any, below: tuple[Any, ...], outcome: DemoOutcome) -> None:
    """A line through all; above them what was done, aslant, so that no label covers its neighbour."""
    for change in outcome.changes:
        for axes in below:
            axes.axvline(change.began, color="0.35", linestyle="--", linewidth=0.9)
    last, end = 0.0, outcome.events[-1].at if outcome.events else 0.0
    for event in outcome.events:
        raised = LABEL_POINTS if event.at - last < LABEL_SHARE * end else 0
        last = event.at
        colour = PAINT["red"] if event.is_fault else PAINT["teal"]
        for axes in below:
            axes.axvline(event.at, color=colour, linestyle=":", linewidth=1.2)
        top.annotate(
            event.label, (event.at, 0.55), xytext=(0, 2 + raised), textcoords="offset points", ha="left", va="bottom", rotation=22,
            fontsize=8.5, color=colour, annotation_clip=False,
        )  # fmt: skip
