"""`virtuallog simulate`: runs seeds of a scenario. Output is in `soak.py` and `failure_report.py`.

Exit code 0: every promise was kept; 1: one was broken, or something that should have been tested never happened; 2:
wrong usage; 130: interrupted, and nothing found until then.
"""

from __future__ import annotations

import json
import os
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import attrs
import click
from rich.console import Console

from virtuallog.contract.errors import InvalidSettingError
from virtuallog_simulation.failure_report import (
    FailureReportOptions,
    print_catalogue,
    report_first_failure,
    report_seed,
)
from virtuallog_simulation.report.summary import Soak
from virtuallog_simulation.report.summary_tables import as_json, as_markdown, tables, verdict
from virtuallog_simulation.scenarios import catalogue
from virtuallog_simulation.scenarios import registry as scenarios
from virtuallog_simulation.soak import Range, run_soak
from virtuallog_simulation.world.options import Options

INTERRUPTED: Final = 130
_FILE_WIDTH: Final = 120
"""Width of tables that go into a file or a pipe."""


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
        if names == (catalogue.NONE,):
            return ()
        if not all(names):
            self.fail(f"'{value}' is not a list of names like a,b", param, ctx)
        return names


@attrs.frozen(kw_only=True)
class _What:
    """Seeds to run."""

    seed: int | None
    seeds: tuple[int, int | None] | None
    minutes: float | None

    def __attrs_post_init__(self) -> None:
        if self.seed is not None and (self.seeds is not None or self.minutes is not None):
            raise click.UsageError("--seed is one seed: it goes neither with --seeds nor with --minutes")
        if self.seed is None and self.seeds is None and self.minutes is None:
            raise click.UsageError("give --seed N, --seeds A..B or --minutes M")
        if self.seeds is not None and self.seeds[1] is None and self.minutes is None:
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
        print_catalogue()
        return
    what = _What(seed=seed, seeds=seeds, minutes=minutes)
    options = _resolved(
        Options(faults=faults, loglets=loglets, operations=operations, seconds=seconds, transport=transport)
    )
    chosen = _chosen(tuple(name for each in names for name in each))
    telling = FailureReportOptions(shrinks=shrink, full=timeline == "full")
    if what.seed is not None and not verify:
        sys.exit(max(report_seed(what.seed, name, options, telling, as_trace=as_objects) for name in chosen))
    first, last = (what.seed, what.seed) if what.seed is not None else what.seeds or (1, None)
    the_range = Range(scenarios=chosen, first=first, last=last, minutes=minutes, options=options, verify=verify)
    sys.exit(_run_range(the_range, jobs, telling, file, as_objects=as_objects))


def _chosen(names: tuple[str, ...]) -> tuple[str, ...]:
    """Raises ModuleNotFoundError: a scenario needs a module that is not installed."""
    try:
        found = catalogue.chosen_scenarios(names or (scenarios.DEFAULT,))
    except InvalidSettingError as error:
        raise click.UsageError(str(error)) from None
    for needed in {scenario.needs for scenario in found if scenario.needs}:
        import_module(needed)  # here, not in a run: there it would be a failing seed
    return tuple(scenario.name for scenario in found)


def _resolved(options: Options) -> Options:
    try:
        return catalogue.resolved(options)
    except InvalidSettingError as error:
        raise click.UsageError(str(error)) from None


def _run_range(
    what: Range, jobs: int | None, telling: FailureReportOptions, file: Path | None, *, as_objects: bool
) -> int:
    processes = jobs or max(os.cpu_count() or 1, 2 if what.verify else 1)
    soak, interrupted = run_soak(what, processes)
    command = what.command
    if file is not None:
        _write_summary(file, soak, command)
    if as_objects:
        click.echo(json.dumps(as_json(soak, command), indent=2))
    else:
        _print(soak)
        if not interrupted:
            report_first_failure(soak, what.options, telling)
    return 1 if not soak.good else INTERRUPTED if interrupted else 0


def _write_summary(file: Path, soak: Soak, command: str) -> None:
    if file.suffix == ".json":
        file.write_text(json.dumps(as_json(soak, command), indent=2) + "\n")
    else:
        file.write_text(as_markdown(soak, command))


def _print(soak: Soak) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _FILE_WIDTH
    for table in tables(soak):
        console.print(table.rich())
    for line in verdict(soak):
        console.print(line, markup=False, soft_wrap=True)
