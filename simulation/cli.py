"""`virtuallog simulate`: runs seeds of a scenario. Exit code 0: every promise was kept; 1: one was broken."""

from __future__ import annotations

import json
import sys
from collections import Counter

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from simulation.fleet import run_seeds
from simulation.narrative import as_json, timeline
from simulation.runner import Report, run_seed
from simulation.stories import scenario as scenarios
from virtuallog.errors import InvalidSettingError

_FAILURES_SHOWN = 5
"""Of a range of seeds: the first ones tell enough."""


class _SeedRange(click.ParamType[range]):
    """`A..B`, both included."""

    name = "A..B"

    def convert(self, value: str | range, param: click.Parameter | None, ctx: click.Context | None) -> range:
        if isinstance(value, range):
            return value
        first, dots, last = value.partition("..")
        if not (dots and first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
            self.fail(f"'{value}' is not a range of seeds like 1..1000", param, ctx)
        return range(int(first), int(last) + 1)


@click.command()
@click.option("--seed", type=click.IntRange(min=0), help="Run this one seed and tell what happened.")
@click.option("--seeds", type=_SeedRange(), help="Run all seeds from A to B, on all cores.")
@click.option("--scenario", default=scenarios.DEFAULT, show_default=True, help="What to run; see docs/testing.md.")
@click.option("--jobs", type=click.IntRange(min=1), help="Processes for a range of seeds; one per core by default.")
@click.option("--json", "as_trace", is_flag=True, help="Print the trace of the seed, one JSON object per line.")
def simulate(seed: int | None, seeds: range | None, scenario: str, jobs: int | None, as_trace: bool) -> None:
    """Run the cluster in a deterministic simulation, with faults, and check every promise.

    One seed always gives the same run. A range stops at nothing, and prints for each failing seed the command that
    replays it.
    """
    if (seed is None) == (seeds is None):
        raise click.UsageError("give either --seed or --seeds")
    try:
        scenarios.find(scenario)
    except InvalidSettingError as error:
        raise click.UsageError(str(error)) from None
    if seed is None:
        assert seeds is not None
        if as_trace:
            raise click.UsageError("--json prints the trace of a single --seed")
        sys.exit(_run_range(seeds, scenario, jobs))
    sys.exit(_run_one(seed, scenario, as_trace=as_trace))


def _run_one(seed: int, scenario: str, *, as_trace: bool) -> int:
    report = run_seed(seed, scenario, messages=as_trace)
    if as_trace:
        for line in as_json(report):
            click.echo(json.dumps(line))
    elif report.violations:
        _tell_failure(report)
    else:
        click.echo(f"seed {seed}: every promise was kept, in {report.simulated_seconds:.1f} simulated seconds")
        _tell_counts(report.counts)
    return 1 if report.violations else 0


def _run_range(seeds: range, scenario: str, jobs: int | None) -> int:
    counts: Counter[str] = Counter()
    failed: list[int] = []
    columns = (TextColumn("seeds"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("seeds", total=len(seeds))
        for summary in run_seeds(seeds, scenario, jobs):
            progress.advance(task)
            counts.update(summary.counts)
            if summary.failed:
                failed.append(summary.seed)
                progress.console.print(f"seed {summary.seed}: {', '.join(summary.failed)}", highlight=False)
    for seed in sorted(failed)[:_FAILURES_SHOWN]:
        _tell_failure(run_seed(seed, scenario))
    click.echo(f"{len(seeds)} seeds, {len(failed)} with a broken promise")
    _tell_counts(counts)
    return 1 if failed else 0


def _tell_failure(report: Report) -> None:
    for violation in report.violations[:3]:
        click.echo(f"seed {report.seed}: {violation.check}: {violation.message}")
        for line in timeline(report.history, violation):
            click.echo(line)
    if len(report.violations) > 3:
        click.echo(f"... and {len(report.violations) - 3} more")
    click.echo(f"replay with: {report.replay}\n")


def _tell_counts(counts: Counter[str]) -> None:
    """What the runs were put through: a fault class that never took effect has not been tested."""
    told = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    click.echo(f"took effect: {told or 'nothing'}")
