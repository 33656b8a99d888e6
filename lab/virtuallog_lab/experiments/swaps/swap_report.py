"""Report and picture of a run of swaps: gaps and phases as tables, a verdict, and a plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from virtuallog_lab.bench.gaps import Gaps, Swap, find_gaps
from virtuallog_lab.bench.steps import Steps
from virtuallog_lab.bench.swaps import phase_spreads, swap_costs
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.report import Report, Table
from virtuallog_lab.harness.trial import Evidence
from virtuallog_lab.workload.latencies import SPREAD_COLUMNS, Pause, Spread

TARGET_P50_MS: Final = 30.0
TARGET_P99_MS: Final = 100.0
BINS: Final = 400
"""Over the whole run, for a picture 1,300 dots wide."""
NEARBY_SECONDS: Final = 0.1
"""Seconds on both sides of the swap that is drawn from nearby."""


def report(machine: Machine, evidence: Evidence[list[Swap]], steps: Steps, window_seconds: float) -> Report:
    """Tables of gaps and phases, and the verdict."""
    gaps = find_gaps(evidence.result, evidence.times, window_seconds)
    swap, quiet = (Spread.of([pause.seconds for pause in pauses]) for pauses in (gaps.pauses, gaps.quiet))
    seen = swap_costs(gaps, steps)
    phases = {**phase_spreads(seen), "asked to answered": Spread.of([one.answered for one in seen])}
    rate = evidence.workload.acknowledged / evidence.times[-1]
    return Report(
        title=f"{len(gaps.swaps)} swaps under load, {rate:,.0f} appends/s",
        machine=machine,
        tables=[_gap_table(len(gaps.swaps), swap, quiet), _phase_table(phases)],
        plain={
            "swaps": len(gaps.swaps),
            "appends_per_s": round(rate),
            "gap": swap.plain(),
            "quiet": quiet.plain(),
            "phases": {phase: spread.plain() for phase, spread in phases.items()},
            "acknowledged": evidence.workload.acknowledged,
            "unknown": evidence.workload.unknown,
        },
        verdict=evidence.summary,
        problems=evidence.verdict.problems,
    )


def _gap_table(swaps: int, swap: Spread, quiet: Spread) -> Table:
    rows = [
        ["gap of a swap", *swap.cells(), f"{_met(swap.p50_ms, TARGET_P50_MS)}, {_met(swap.p99_ms, TARGET_P99_MS)}"],
        ["longest pause without one", *quiet.cells(), ""],
    ]
    title = f"Gap in acknowledgements, {swaps} swaps; target p50 <= {TARGET_P50_MS:g} ms, p99 <= {TARGET_P99_MS:g} ms"
    return Table(title, ["", *SPREAD_COLUMNS, "target"], rows)


def _met(value: float, target: float) -> str:
    return "met" if value <= target else "missed"


def _phase_table(phases: dict[str, Spread]) -> Table:
    rows = [[phase, *spread.cells()] for phase, spread in phases.items()]
    return Table("Where the time goes", ["phase", *SPREAD_COLUMNS], rows)


def draw(gaps: Gaps, times: Sequence[float], path: Path) -> None:
    """Draw acknowledgements over time, the median swap from nearby, and the lengths of the gaps; writes a PNG."""
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
    """Draw the swap whose gap is the median: each acknowledgement at its time, counted from the
    swap on."""
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
