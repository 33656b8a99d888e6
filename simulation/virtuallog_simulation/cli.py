"""`virtuallog simulate`: runs seeds of a scenario. `simulate_job.py` does the work, and is imported when the command runs.

Exit code 0: every promise was kept; 1: one was broken, or something that should have been tested never happened; 2:
wrong usage; 130: interrupted, and nothing found until then.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final

import click

NONE: Final = "none"
"""`virtuallog_simulation.scenarios.selection.NONE`, which `--help` must not import."""


class SeedRange(click.ParamType[tuple[int, int | None]]):
    """`A..B`, both included, or `A..` for all from A on."""

    name = "A..B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int | None]:
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"(\d+)\.\.(\d*)", value)
        if match is None:
            self.fail(f"'{value}' is not a range of seeds like 1..1000", param, ctx)
        first, last = int(match[1]), int(match[2]) if match[2] else None
        if last is not None and last < first:
            self.fail(f"'{value}' has no seed in it", param, ctx)
        return first, last


class _Names(click.ParamType[tuple[str, ...]]):
    """`a,b`; `none` is no name at all."""

    name = "A,B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
        if names == (NONE,):
            return ()
        if not all(names):
            self.fail(f"'{value}' is not a list of names like a,b", param, ctx)
        return names


def _check_seeds(seed: int | None, seeds: tuple[int, int | None] | None, minutes: float | None) -> None:
    if seed is not None and (seeds is not None or minutes is not None):
        raise click.UsageError("--seed is one seed: it goes neither with --seeds nor with --minutes")
    if seed is None and seeds is None and minutes is None:
        raise click.UsageError("give --seed N, --seeds A..B or --minutes M")
    if seeds is not None and seeds[1] is None and minutes is None:
        raise click.UsageError("--seeds A.. has no end: give --minutes as well")


@click.command()
@click.option("--seed", type=click.IntRange(min=0), help="Run this one seed and tell what happened.")
@click.option("--seeds", type=SeedRange(), help="Run all seeds from A to B, on all cores.")
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), help="Run seeds until so much time has passed.")
@click.option("--scenario", "names", type=_Names(), multiple=True, help="Scenarios to run: names, or all.  [cluster]")
@click.option("--faults", type=_Names(), help="Only these classes of faults, or none.")
@click.option("--loglets", type=_Names(), help="Only these kinds of loglets; the first one is the first in the chain.")
@click.option("--operations", type=click.IntRange(min=0), help="At most so many operations of each client.")
@click.option("--seconds", type=click.FloatRange(min=0), help="At most so many simulated seconds of load and faults.")
@click.option("--transport", type=click.Choice(["calls", "streams"]), help="How nodes reach each other, not drawn.")
@click.option("--jobs", type=click.IntRange(min=1), help="Processes for a range of seeds; one per core by default.")
@click.option("--shrink/--no-shrink", default=True, help="Look for a smaller run that fails as well.  [on]")
@click.option("--timeline", type=click.Choice(["short", "full"]), default="short", help="How much of a failing run.")
@click.option("--verify-determinism", "verify", is_flag=True, help="Run each seed in two processes and compare.")
@click.option(
    "--summary", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write the summary there: .md or .json."
)
@click.option(
    "--json", "as_objects", is_flag=True, help="One seed: its trace, an object per line. A range: its summary."
)
@click.option("--list", "listed", is_flag=True, help="List scenarios, classes of faults and kinds of loglets.")
def simulate(
    seed: int | None,
    seeds: tuple[int, int | None] | None,
    minutes: float | None,
    names: tuple[tuple[str, ...], ...],
    faults: tuple[str, ...] | None,
    loglets: tuple[str, ...] | None,
    operations: int | None,
    seconds: float | None,
    transport: str | None,
    jobs: int | None,
    shrink: bool,
    timeline: str,
    verify: bool,
    file: Path | None,
    as_objects: bool,
    listed: bool,
) -> None:
    """Run the cluster in a deterministic simulation, with faults, and check every promise.

    One seed always gives the same run. A range stops at nothing, prints each failing seed with the command that replays
    it as it comes, and ends with a summary of what the seeds were put through.

    \b
        virtuallog simulate --seed 7
        virtuallog simulate --seeds 1..1000
        virtuallog simulate --minutes 30 --scenario all
        virtuallog simulate --seed 7 --faults crash,clog --operations 12
    """
    if listed:
        from virtuallog_simulation.failure_report import print_catalogue

        print_catalogue()
        return
    _check_seeds(seed, seeds, minutes)
    from virtuallog_simulation import simulate_job
    from virtuallog_simulation.world.options import Options

    sys.exit(
        simulate_job.run(
            seed=seed,
            seeds=seeds,
            minutes=minutes,
            names=tuple(name for each in names for name in each),
            options=Options(
                faults=faults, loglets=loglets, operations=operations, seconds=seconds, transport=transport
            ),
            jobs=jobs,
            shrinks=shrink,
            is_full=timeline == "full",
            verify=verify,
            file=file,
            as_objects=as_objects,
        )
    )
