"""Draws what `spark.py` has measured: cost against size, how fast each reader was, and memory over the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from bench.spark_processes import ROLES
from bench.spark_report import MIB, readers
from bench.spark_run import ARCHIVE, FILES, LIVE, PLAIN, Findings, stage_of
from bench.spark_targets import group

COLOURS: Final = {"jvm": "tab:orange", "python": "tab:blue", "servers": "tab:green"}


def draw(found: Findings, path: Path) -> None:
    """Write a PNG."""
    import matplotlib as mpl  # slow to import, and needed only here

    mpl.use("Agg")
    from matplotlib import pyplot

    figure = pyplot.figure(figsize=(12, 8), layout="constrained")
    grid = figure.add_gridspec(2, 2)
    _draw_costs(figure.add_subplot(grid[0, 0]), found)
    _draw_rates(figure.add_subplot(grid[0, 1]), found)
    _draw_memory(figure.add_subplot(grid[1, :]), found)
    figure.suptitle(f"{found.plan.entries:,} entries of {found.plan.size} bytes", x=0.01, ha="left")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _draw_costs(axes: Any, found: Findings) -> None:
    """Solid: the live log, by who uses it; dashed: the archive by the source; dotted: by `read_archives`."""
    for what, style, roles in ((LIVE, "-", ROLES), (ARCHIVE, "--", ROLES[:2]), (FILES, ":", ())):
        shown = [(size, one) for size in found.plan.sizes if (one := group(found, what, found.plan.cores, size))]
        millions = [size / 1e6 for size, _ in shown]
        axes.plot(millions, [one.cpu() for _, one in shown], style, marker="o", color="black", label=f"{what}, all")
        for role in roles:
            values = [one.cpu(role) for _, one in shown]
            axes.plot(millions, values, style, marker=".", color=COLOURS[role], label=f"{what}, {role}")
    axes.set(xlabel="million rows", ylabel=f"CPU seconds for a million rows, local[{found.plan.cores}]")
    axes.set_xlim(left=0)
    axes.set_ylim(0, 1.3 * axes.get_ylim()[1])  # room for the legend
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="upper right")
    _tidy(axes)


def _draw_rates(axes: Any, found: Findings) -> None:
    shown = readers(found)
    axes.barh(list(shown), [one.rate / 1e6 for one in shown.values()], color="tab:blue", alpha=0.5)
    for row, one in enumerate(shown.values()):
        axes.plot([reading.rate / 1e6 for reading in one.rounds], [row] * len(one.rounds), "k|", markersize=12)
    if plain := group(found, PLAIN):
        axes.axvline(plain.rate / 1e6, color="0.35", linestyle="--", linewidth=0.8)
    axes.set(xlabel="million entries a second; each round, and their median")
    axes.invert_yaxis()
    _tidy(axes)


def _draw_memory(axes: Any, found: Findings) -> None:
    at = [look.at for look in found.looks]
    sizes = {"jvm": "Java", "worker": "largest worker of Python", "servers": "largest server"}
    for (field, label), colour in zip(sizes.items(), COLOURS.values(), strict=True):
        axes.plot(at, [getattr(look, field) / MIB for look in found.looks], color=colour, label=label)
    long = stage_of(LIVE, found.plan.cores, found.plan.entries)
    axes.fill_between(at, 0, 1, where=[look.stage == long for look in found.looks], step="mid", alpha=0.12,
                      transform=axes.get_xaxis_transform(), label=f"all of the live log, local[{found.plan.cores}]")  # fmt: skip
    axes.set(xlim=(0, at[-1] if at else 1), xlabel="seconds", ylabel="resident MiB")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, ncols=4, fontsize=8)
    _tidy(axes)


def _tidy(axes: Any) -> None:
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
