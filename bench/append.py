#!/usr/bin/env python3
"""What an append costs: the bare pipeline, a native loglet, and a VirtualLog on it, in turn, on this machine.

    python -m bench.append --bare ../shared/limits/bare_pipeline.py --rounds 5

One round measures every system with every number of outstanding appends, one right after the other, so that whatever
else the machine does hits them alike. Medians over the rounds are what counts, and ratios to the bare pipeline of the same
run: figures of two runs cannot be compared. CPU time per append hardly depends on noise; use it to judge a change.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
import trio

from bench.bare import measure_bare
from bench.own import open_own_systems
from bench.report import as_markdown, draw, put_into, summarize
from bench.samples import BARE, SYSTEMS, Sample
from server import logging
from virtuallog.clock import SystemClock


def _numbers(_: click.Context, __: click.Parameter, text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise click.BadParameter("must be whole numbers above 0, separated by commas")
    return numbers


@click.command()
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(min=1))
@click.option("--outstanding", default="1,64,256", show_default=True, callback=_numbers, metavar="N,N")
@click.option("--size", default=100, show_default=True, type=click.IntRange(min=1), help="Bytes of an entry.")
@click.option("--seconds", default=5.0, show_default=True, type=click.FloatRange(min=0.1), help="Of one measurement.")
@click.option("--segments", default=1, show_default=True, type=click.IntRange(min=1), help="Of the chain.")
@click.option("--system", "systems", multiple=True, type=click.Choice(SYSTEMS), help="Only this one; may be repeated.")
@click.option(
    "--bare",
    envvar="VIRTUALLOG_BARE_PIPELINE",
    metavar="SCRIPT",
    type=click.Path(exists=True, dir_okay=False),
    help="The script of the bare pipeline, which is not part of this project.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one object per measurement, and nothing else.")
@click.option(
    "--markdown",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Put tables and figure into this document, where it says so. docs/performance.md, normally.",
)
def main(
    *,
    rounds: int,
    outstanding: list[int],
    size: int,
    seconds: float,
    segments: int,
    systems: tuple[str, ...],
    bare: str | None,
    as_json: bool,
    markdown: Path | None,
) -> None:
    """Measure appends against the bare pipeline."""
    logging.configure("warning")
    wanted = systems or SYSTEMS
    if BARE in wanted and bare is None:
        click.echo("Without --bare the bare pipeline is left out: there are no ratios.", err=True)
        wanted = tuple(system for system in wanted if system != BARE)
    samples = trio.run(_run, rounds, outstanding, size, seconds, segments, wanted, bare, as_json)
    summaries = summarize(samples)
    if not as_json:
        click.echo("\n" + as_markdown(summaries))
    if markdown is not None:
        figure = markdown.with_suffix(".svg")
        draw(summaries, figure)
        put_into(markdown, f"{as_markdown(summaries)}\n![Throughput and latency]({figure.name})\n")


async def _run(
    rounds: int,
    outstanding: list[int],
    size: int,
    seconds: float,
    segments: int,
    systems: tuple[str, ...],
    bare: str | None,
    as_json: bool,
) -> list[Sample]:
    clock, samples = SystemClock(), list[Sample]()
    for _ in range(rounds):
        async with open_own_systems(clock, segments) as own:
            for count in outstanding:
                for system in systems:
                    if system == BARE:
                        assert bare is not None
                        sample = await measure_bare(bare, clock, count, size, seconds)
                    else:
                        sample = await own.measure(system, count, size, seconds)
                    samples.append(sample)
                    _show(sample, as_json)
    return samples


def _show(sample: Sample, as_json: bool) -> None:
    click.echo(json.dumps(sample.plain()) if as_json else sample.line())
    sys.stdout.flush()


if __name__ == "__main__":
    main()
