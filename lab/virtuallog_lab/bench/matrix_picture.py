"""Draws a swap matrix: the gaps as heat tables, and the timeline of the median swap of each pair."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from virtuallog.runtime.file_errors import file_errors
from virtuallog_lab.bench.matrix import Cell, Matrix
from virtuallog_lab.bench.steps import WAITING

COLOURS: Final = dict(zip(WAITING, ("#cf3030", "#d9730d", "#7a4fd0", "#2f6fdb", "#0f8f86", "#2e8b3d"), strict=True))
ROW_INCHES: Final = 0.24
"""Height of a pair in the timelines, in inches."""


def draw(matrix: Matrix, title: str, path: Path) -> None:
    """Write a PNG.

    Raises:
        StorageError: `path` cannot be written.
    """
    import matplotlib as mpl  # slow to import, and needed only here

    mpl.use("Agg")
    from matplotlib import pyplot

    height = 1.6 + max(4.0, ROW_INCHES * len(matrix.cells))
    figure = pyplot.figure(figsize=(14, height), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(5, 7))
    for row, (field, label) in enumerate((("p50_ms", "p50"), ("p99_ms", "p99"))):
        _draw_heat(figure.add_subplot(grid[row, 0]), matrix, field, f"gap in acknowledgements, ms, {label}")
    _draw_timelines(figure.add_subplot(grid[:, 1]), matrix.cells)
    figure.suptitle(title, x=0.01, ha="left")
    with file_errors(path):
        figure.savefig(path, dpi=100)
    pyplot.close(figure)


def _draw_heat(axes: Any, matrix: Matrix, field: str, title: str) -> None:
    """Shades are logarithmic: one slow pair shall not make all others look alike."""
    values = [
        [getattr(cell.gap, field) if (cell := matrix.find(source, target)) else float("nan") for target in matrix.names]
        for source in matrix.names
    ]
    known = [value for row in values for value in row if value > 0]
    low, high = min(known), max(*known, 2 * min(known))
    axes.imshow(values, cmap="YlOrRd", norm="log", vmin=low, vmax=high, aspect="auto")
    for row, figures in enumerate(values):
        for column, value in enumerate(figures):
            is_dark = value > low ** (1 / 3) * high ** (2 / 3)
            axes.text(column, row, f"{value:,.0f}", ha="center", va="center", color="white" if is_dark else "black")
    axes.set_xticks(range(len(matrix.names)), matrix.names, fontsize=9)
    axes.set_yticks(range(len(matrix.names)), matrix.names, fontsize=9)
    axes.set(xlabel="to", ylabel="from")
    axes.set_title(title, fontsize=10, loc="left")


def _draw_timelines(axes: Any, cells: Sequence[Cell]) -> None:
    """Draw timelines from when appends begin to wait; medians of each phase, which do not add up to
    the median gap exactly."""
    for row, cell in enumerate(cells):
        begin = 0.0
        for phase in WAITING if cell.phases else ():
            length = cell.phases[phase].p50_ms
            axes.barh(row, length, left=begin, color=COLOURS[phase], label=phase if row == 0 else None)
            begin += length
        axes.plot(cell.gap.p50_ms, row, "|", color="black", markersize=9, label="gap, p50" if row == 0 else None)
    axes.set_yticks(range(len(cells)), [cell.name for cell in cells], fontsize=8)
    axes.invert_yaxis()
    axes.set(xlabel="ms since the old loglet is being sealed")
    axes.set_title("the timeline of a swap: medians of its phases", fontsize=10, loc="left")
    axes.legend(frameon=False, fontsize=8, loc="upper right")
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
