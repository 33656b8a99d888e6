"""Draws a run of blows: acknowledgements over time with each blow marked, and how long each kept the client waiting."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Any, Final

from bench.blows import Blow, kinds_of, recovery_seconds
from virtuallog_server.bench.trial import Evidence

BIN_SECONDS: Final = 0.25
COLOURS: Final = ("tab:red", "black", "tab:orange", "tab:purple", "tab:green")


def draw(evidence: Evidence[list[Blow]], path: Path) -> None:
    """Write a PNG."""
    import matplotlib as mpl  # slow to import, and needed only here

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (upper, lower) = pyplot.subplots(2, 1, figsize=(12, 7.5), layout="constrained")
    _draw_rate(upper, evidence)
    _draw_times(lower, evidence)
    figure.suptitle(f"{len(evidence.result)} blows; {evidence.summary}", x=0.01, ha="left", fontsize=11)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _draw_rate(axes: Any, evidence: Evidence[list[Blow]]) -> None:
    end = evidence.times[-1]
    weights = [1 / BIN_SECONDS] * len(evidence.times)
    bins = [step * BIN_SECONDS for step in range(int(end / BIN_SECONDS) + 2)]
    axes.hist(evidence.times, bins=bins, weights=weights, color="tab:blue", alpha=0.4)
    for kind, colour in _colours(evidence).items():
        for blow in evidence.result:
            if blow.kind == kind:
                axes.axvline(blow.at, color=colour, linewidth=0.8)
    axes.set(xlim=(0, end), xlabel="seconds; a line for each blow", ylabel="acknowledgements per second")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    _tidy(axes)


def _draw_times(axes: Any, evidence: Evidence[list[Blow]]) -> None:
    for kind, colour in _colours(evidence).items():
        at = [blow.at for blow in evidence.result if blow.kind == kind]
        axes.plot(at, recovery_seconds(evidence, kind), "o", markersize=4, color=colour, label=kind)
    axes.set(xlim=(0, evidence.times[-1]), xlabel="seconds", ylabel="seconds until acknowledged again")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    _tidy(axes)


def _colours(evidence: Evidence[list[Blow]]) -> dict[str, str]:
    return dict(zip(kinds_of(evidence.result), cycle(COLOURS), strict=False))


def _tidy(axes: Any) -> None:
    axes.grid(axis="y", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
