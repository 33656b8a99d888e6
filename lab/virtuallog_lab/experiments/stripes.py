#!/usr/bin/env python3
"""A MODEL of many stripes beside the curve that Delos published. Nothing is measured here, no line of the product runs.

    python -m virtuallog_lab.experiments.stripes --picture stripes.png --markdown

Delos ran 1 to 40 native loglets of three LogServers each below one striped one (OSDI'20, section 5.1, figure 10, right): 120 servers, 20
clients, 1 KB appends. Here are two cores. So given service times go through a small discrete-event model (`virtuallog_lab.experiments.stripes_model`), and
its curve stands beside the published one. Two of the times are fitted to the ends of that curve.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import click

from virtuallog_lab.experiments.stripes_model import Assumptions, Model, Point
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options, picture_option
from virtuallog_lab.harness.report import Report, Table, tell

PAPER: Final = {1: 35_000, 30: 950_000, 40: 1_020_000}
"""Appends a second of 1 KB, read off figure 10."""
STRIPES: Final = (1, 2, 5, 10, 15, 20, 25, 30, 35, 40)


def run(assumed: Assumptions, stripes: Sequence[int], seed: int) -> list[Point]:
    """The curve; the same for the same seed."""
    return [Model(count, assumed, random.Random(seed)).run() for count in stripes]


def report(machine: Machine, assumed: Assumptions, points: Sequence[Point]) -> Report:
    """The curve beside the published one, and what was assumed."""
    rows = [
        [str(point.stripes), str(point.stripes * assumed.servers), f"{point.appends_per_s:,.0f}", *_published(point)]
        for point in points
    ]
    columns = ["stripes", "LogServers", "model, appends/s", "published, appends/s", "model / published"]
    return Report(
        title="MODEL of a striped loglet over disjoint servers, not a measurement",
        machine=machine,
        tables=[
            Table("MODEL, not a measurement: throughput by stripes of three LogServers, 1 KB", columns, rows),
            Table("Assumed", ["", "value"], [[name, f"{value:,g}"] for name, value in attrs.asdict(assumed).items()]),
        ],
        plain={"assumed": attrs.asdict(assumed), "points": [attrs.asdict(point) for point in points]},
        verdict="a model: see docs/results/performance.md for where it must not be trusted",
    )


def _published(point: Point) -> list[str]:
    known = PAPER.get(point.stripes)
    return [f"{known:,}", f"{point.appends_per_s / known:.2f}"] if known else ["-", "-"]


def draw(points: Sequence[Point], path: Path) -> None:
    """Write a PNG or an SVG."""
    import matplotlib as mpl  # slow to import, and needed only here

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    stripes = [point.stripes for point in points]
    axes.plot(stripes, [point.appends_per_s / 1000 for point in points], ".-", color="tab:blue", label="MODEL")
    published = [rate / 1000 for rate in PAPER.values()]
    axes.plot(list(PAPER), published, "s--", color="tab:orange", label="published: Delos, OSDI'20, figure 10")
    axes.set(xlabel="stripes of three LogServers", ylabel="thousand appends of 1 KB per second")
    axes.set_title("A MODEL of a striped loglet, not a measurement", fontsize=11, loc="left")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(color="0.9")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


@click.command()
@click.option("--clients", default=Assumptions().clients, show_default=True, type=click.IntRange(1, 1000))
@click.option("--client-us", default=Assumptions().client_us, show_default=True, type=click.FloatRange(0.1, 1e5))
@click.option("--sequencer-us", default=Assumptions().sequencer_us, show_default=True, type=click.FloatRange(0.1, 1e5))
@click.option("--server-us", default=Assumptions().server_us, show_default=True, type=click.FloatRange(0.1, 1e5))
@click.option("--device-iops", default=Assumptions().device_iops, show_default=True, type=click.FloatRange(1, 1e7))
@click.option("--seed", default=1, show_default=True)
@picture_option
@form_options
def main(
    *,
    clients: int,
    client_us: float,
    sequencer_us: float,
    server_us: float,
    device_iops: float,
    seed: int,
    picture: Path | None,
    form: Form,
) -> None:
    """Run a MODEL of 1 to 40 stripes beside the published curve.

    \b
    Example:
        python -m virtuallog_lab.experiments.stripes --picture stripes.png
    """
    assumed = Assumptions(
        clients=clients, client_us=client_us, sequencer_us=sequencer_us, server_us=server_us, device_iops=device_iops
    )
    points = run(assumed, STRIPES, seed)
    if picture is not None:
        draw(points, picture)
        tell(f"picture: {picture}")
    report(Machine.look(), assumed, points).publish(form)


if __name__ == "__main__":
    main()
