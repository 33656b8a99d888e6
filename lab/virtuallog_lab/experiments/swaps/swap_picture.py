"""Draws a run of swaps: acknowledgements over time, one swap from nearby, and how long the gaps were."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from virtuallog_lab.bench.gaps import Gaps
from virtuallog_lab.workload.latencies import Pause

BINS: Final = 400
"""Over the whole run, for a picture 1,300 dots wide."""
NEARBY_SECONDS: Final = 0.1
"""On both sides of the swap that is drawn from nearby."""


def draw(gaps: Gaps, times: Sequence[float], path: Path) -> None:
    """Write a PNG."""
    import matplotlib as mpl  # slow to import, and needed only here

    mpl.use("Agg")
    from matplotlib import pyplot

    figure = pyplot.figure(figsize=(12, 7.5), layout="constrained")
    grid = figure.add_gridspec(2, 2)
    _draw_rate(figure.add_subplot(grid[0, :]), gaps, times)
    _draw_nearby(figure.add_subplot(grid[1, 0]), gaps, times)
    _draw_gaps(figure.add_subplot(grid[1, 1]), gaps)
    figure.suptitle(f"{len(gaps.swaps)} swaps under load, {len(times):,} appends acknowledged", x=0.01, ha="left")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _draw_rate(axes: Any, gaps: Gaps, times: Sequence[float]) -> None:
    width = times[-1] / BINS
    axes.hist(times, bins=BINS, range=(0, times[-1]), weights=[1 / width] * len(times), color="tab:blue", alpha=0.4)
    axes.set(xlim=(0, times[-1]), xlabel="seconds; a line for each swap")
    axes.set_ylabel(f"acknowledgements per second\n(in each {1000 * width:.0f} ms)")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    for swap in gaps.swaps:
        axes.axvline(swap.began, color="0.35", linewidth=0.6)
    _tidy(axes)


def _draw_nearby(axes: Any, gaps: Gaps, times: Sequence[float]) -> None:
    """The swap whose gap is the median: each acknowledgement at its time, counted from the swap on."""
    ordered = sorted(zip(gaps.pauses, gaps.swaps, strict=True), key=lambda pair: pair[0].seconds)
    pause, swap = ordered[len(ordered) // 2]
    near = [1000 * (time - swap.began) for time in times if abs(time - swap.began) <= NEARBY_SECONDS]
    axes.plot(near, range(len(near)), "|", color="tab:blue", markersize=4)
    axes.axvspan(*(1000 * (edge - swap.began) for edge in (pause.start, pause.stop)), color="tab:red", alpha=0.15)
    axes.axvline(0, color="0.35", linestyle="--")
    axes.set(xlabel="ms since the swap was asked for", ylabel="acknowledgements so far")
    axes.set_title(f"the median swap: a gap of {1000 * pause.seconds:.0f} ms", fontsize=10)
    _tidy(axes)


def _draw_gaps(axes: Any, gaps: Gaps) -> None:
    found, quiet = _milliseconds(gaps.pauses), _milliseconds(gaps.quiet)
    bins = [max(found + quiet) * step / 40 for step in range(41)]
    axes.hist(found, bins=bins, color="tab:red", alpha=0.6, label="of a swap")
    axes.hist(quiet, bins=bins, color="0.5", alpha=0.6, label="without one")
    axes.set(xlabel="longest gap in acknowledgements, ms", ylabel="windows")
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False)
    _tidy(axes)


def _milliseconds(pauses: Sequence[Pause]) -> list[float]:
    return [1000 * pause.seconds for pause in pauses]


def _tidy(axes: Any) -> None:
    axes.grid(axis="y", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
