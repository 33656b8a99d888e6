"""Report and picture of a Spark scan: tables of rates, CPU times and memory, and a plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from virtuallog_lab.experiments.spark_scan.processes import ROLES, ProcessUsage
from virtuallog_lab.experiments.spark_scan.run import ARCHIVE, BATCHES, FILES, LIVE, PLAIN, ScanFindings, stage_of
from virtuallog_lab.experiments.spark_scan.targets import Group, group, halves, long_looks, short_looks, targets
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.report import Report, Table

MIB: Final = 1 << 20


COLOURS: Final = {"jvm": "tab:orange", "python": "tab:blue", "servers": "tab:green"}


def report(machine: Machine, found: ScanFindings) -> Report:
    """All that was seen."""
    judged = Table("Targets", ["what", "measured", "target", "met"], [target.row() for target in targets(found)])
    return Report(
        title="The log as a table of Spark",
        machine=machine,
        tables=[_readers(found), _sizes(found), _memory(found), _besides(found), judged],
        plain=found.plain(),
        verdict=f"Every reader found all of it: {found.contents}",
        problems=found.problems,
    )


def readers(found: ScanFindings) -> dict[str, Group]:
    """All that have read everything, by name, in the order of the table."""
    cores = sorted({1, found.plan.cores})
    wanted = [(PLAIN, 0), (BATCHES, 0), *((what, count) for what in (LIVE, ARCHIVE, FILES) for count in cores)]
    named = {(f"Spark, {what}, local[{count}]" if count else what): group(found, what, count) for what, count in wanted}
    return {name: one for name, one in named.items() if one}


def _readers(found: ScanFindings) -> Table:
    plain, roles = group(found, PLAIN).rate, ("reader", *ROLES)
    rows = [
        [
            name,
            f"{one.rate:,.0f}",
            f"{one.rate / plain:.2f}" if plain else "-",
            " ".join(f"{reading.rate / 1e6:.2f}" for reading in one.rounds),
            *(f"{one.cpu(role):.2f}" if role in one.rounds[0].cpu else "-" for role in roles),
            f"{one.cpu():.2f}",
        ]
        for name, one in readers(found).items()
    ]
    columns = ["reader", "entries/s", "of plain", "each round, M/s", *(f"CPU {role}" for role in roles), "CPU, all"]
    title = f"{found.plan.entries:,} entries of {found.plan.size} bytes, medians; CPU seconds for a million"
    return Table(title, columns, rows)


def _sizes(found: ScanFindings) -> Table:
    readers = ((LIVE, ROLES), (ARCHIVE, ROLES[:2]), (FILES, ROLES[:1]))
    columns, rows = ["rows"], [[f"{size:,}"] for size in found.plan.sizes]
    for what, roles in readers:
        columns += [f"{what}: rows/s", *roles, *(["all"] if len(roles) > 1 else [])]
        for row, size in zip(rows, found.plan.sizes, strict=True):
            one = group(found, what, found.plan.cores, size)
            cells = [one.cpu(role) for role in roles] + ([one.cpu()] if len(roles) > 1 else [])
            row.extend([f"{one.rate:,.0f}", *(f"{cell:.2f}" for cell in cells)] if one else ["-"] * (1 + len(cells)))
    return Table(f"Sizes, local[{found.plan.cores}]; CPU seconds for a million", columns, rows)


def _memory(found: ScanFindings) -> Table:
    parts = [short_looks(found), *halves(long_looks(found))]
    fields = {"Java": "jvm", "workers of Python": "python", "largest of them": "worker", "largest server": "servers"}
    rows = [[name, *(_most(looks, field) for looks in parts)] for name, field in fields.items()]
    columns = ["MiB at most", f"{found.plan.sizes[0]:,} rows", f"{found.plan.entries:,}, first half", "second half"]
    return Table(f"Memory while the live log is read, local[{found.plan.cores}]", columns, rows)


def _most(looks: Sequence[ProcessUsage], field: str) -> str:
    return f"{max(getattr(look, field) for look in looks) / MIB:,.0f}" if looks else "-"


def _besides(found: ScanFindings) -> Table:
    tenth, archived = found.plan.sizes[0], found.archived
    warm = group(found, LIVE, found.plan.cores, tenth)
    rows = [
        ["appending all entries", f"{found.load_seconds:.1f} s"],
        ["Spark's start: Java and a session", f"{found.cold.start_seconds:.1f} s"],
        [f"its first query, of {tenth:,} entries", f"{found.cold.first_seconds:.1f} s"],
        ["the same when it is warm", f"{tenth / warm.rate:.2f} s" if warm else "-"],
        ["`virtuallog spark archive`, all of it", f"{archived.seconds:.1f} s"],
        ["its files", f"{archived.files}, {archived.bytes / MIB:,.0f} MiB"],
    ]
    return Table("What no rate contains", ["what", "measured"], rows)


def draw(found: ScanFindings, path: Path) -> None:
    """Draw cost against size, the rate of each reader, and memory over the run; writes a PNG."""
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


def _draw_costs(axes: Any, found: ScanFindings) -> None:
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


def _draw_rates(axes: Any, found: ScanFindings) -> None:
    shown = readers(found)
    axes.barh(list(shown), [one.rate / 1e6 for one in shown.values()], color="tab:blue", alpha=0.5)
    for row, one in enumerate(shown.values()):
        axes.plot([reading.rate / 1e6 for reading in one.rounds], [row] * len(one.rounds), "k|", markersize=12)
    if plain := group(found, PLAIN):
        axes.axvline(plain.rate / 1e6, color="0.35", linestyle="--", linewidth=0.8)
    axes.set(xlabel="million entries a second; each round, and their median")
    axes.invert_yaxis()
    _tidy(axes)


def _draw_memory(axes: Any, found: ScanFindings) -> None:
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
