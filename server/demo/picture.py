"""Draws throughput and latency of a run, with a line for everything that was done to the log meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from server.bench.appends import percentile
from server.demo.story import Event, Outcome
from server.workload.writers import Told
from virtuallog.errors import StorageError

BIN_SECONDS = 0.1
TICKS_MS = (0.1, 1, 10, 100, 1000, 10_000)
"""Latencies that get a number beside the axis: spelled out, since few read powers of ten."""


def draw(outcome: Outcome, path: Path) -> None:
    """Write a PNG.

    Raises:
        StorageError: `path` cannot be written.
    """
    import matplotlib as mpl  # half a second, which no other command should pay

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (upper, lower) = pyplot.subplots(
        2, 1, sharex=True, figsize=(12, 7.5), layout="constrained", height_ratios=(4, 5)
    )
    bins = _bins(outcome.workload.told.values())
    _draw_throughput(upper, bins)
    _draw_latency(lower, bins)
    _mark(upper, lower, outcome.events)
    figure.suptitle(f"One log, swapped live under load\n{_summary(outcome)}", x=0.01, ha="left", fontsize=13)
    try:
        figure.savefig(path, dpi=110)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from error
    finally:
        pyplot.close(figure)


def _summary(outcome: Outcome) -> str:
    acknowledged, problems = outcome.workload.acknowledged, len(outcome.verdict.problems)
    verdict = f"at least {problems} problems found" if problems else "nothing lost, nothing doubled, all in order"
    return f"{acknowledged:,} appends acknowledged as durable on two of three nodes: {verdict}"


def _draw_throughput(axes: Any, bins: list[list[float]]) -> None:
    times = [index * BIN_SECONDS for index in range(len(bins))]
    rates = [len(latencies) / BIN_SECONDS for latencies in bins]
    axes.fill_between(times, rates, step="post", color="tab:blue", alpha=0.25)
    axes.step(times, rates, where="post", color="tab:blue", linewidth=1)
    axes.set_ylabel(f"appends per second\n(in each {BIN_SECONDS:g} s)")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    _tidy(axes)


def _draw_latency(axes: Any, bins: list[list[float]]) -> None:
    times = [(index + 0.5) * BIN_SECONDS for index in range(len(bins))]
    for share, label, colour in ((1.0, "slowest", "tab:red"), (0.5, "median", "tab:green")):
        values = [1000 * percentile(latencies, share) if latencies else float("nan") for latencies in bins]
        axes.plot(times, values, ".-", linewidth=1, markersize=4, label=label, color=colour)
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    ticks = [tick for tick in TICKS_MS if low <= tick <= high]
    axes.set_yticks(ticks, [f"{tick:,g}" if tick < 1000 else f"{tick:,}" for tick in ticks])
    axes.set_ylabel("latency of an append, ms\n(log scale; a hole: none ended)")
    axes.set_xlabel("seconds since the first append")
    axes.legend(loc="upper left", ncols=2, frameon=False)
    _tidy(axes)


def _tidy(axes: Any) -> None:
    axes.grid(axis="y", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.01)


def _bins(told: Iterable[Told]) -> list[list[float]]:
    """The latencies of each stretch of time, in order of size; stretches without any are empty."""
    samples = [sample for writer in told for sample in zip(writer.began, writer.ended, strict=True)]
    last = max((ended for _, ended in samples), default=0.0)
    bins: list[list[float]] = [[] for _ in range(int(last / BIN_SECONDS) + 1)]
    for began, ended in samples:
        bins[int(ended / BIN_SECONDS)].append(ended - began)
    for latencies in bins:
        latencies.sort()
    return bins


def _mark(upper: Any, lower: Any, events: tuple[Event, ...]) -> None:
    """A line through both, and above them what was done: beside the data no label can cover it."""
    for event in events:
        colour = "tab:red" if event.is_fault else "0.35"
        for axes in (upper, lower):
            axes.axvline(event.at, color=colour, linestyle="--", linewidth=1)
        place = {"xy": (event.at, 1.0), "xycoords": ("data", "axes fraction")}
        upper.annotate(
            event.label.replace(", ", ",\n"), **place, xytext=(0, 4), textcoords="offset points",
            ha="center", va="bottom", fontsize=9, color=colour,
        )  # fmt: skip
