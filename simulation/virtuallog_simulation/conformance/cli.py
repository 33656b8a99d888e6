"""`virtuallog conformance`: does a provider of loglets keep the contract?

Exit code 0: in every run; 1: a promise was broken, and the report says which; 2: wrong usage.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from virtuallog.contract.errors import InvalidSettingError
from virtuallog_simulation.cli import SeedRange
from virtuallog_simulation.conformance import trials
from virtuallog_simulation.conformance.report import ConformanceReport, told
from virtuallog_simulation.conformance.trials import Outcome, Trial
from virtuallog_simulation.runs.runner import run_seed
from virtuallog_simulation.scenarios.conformance.options import NODES
from virtuallog_simulation.scenarios.conformance.providers import find

SEEDS = (1, 20)
"""Default number of seeds: about a minute on two cores for a loglet like native."""
_WIDTH_LEAST = 100
"""Least width where the output is no terminal; the matrix needs that much."""


@click.command()
@click.argument("provider")
@click.option("--seeds", type=SeedRange(), default=SEEDS, help="Seeds A to B of each trial, both included.  [1..20]")
@click.option("--seed", type=click.IntRange(min=0), help="This seed only; with one --only it tells what happened.")
@click.option("--only", "--clause", "only", multiple=True, metavar="NAME", help="Only this row of the report.")
@click.option("--without", default="", metavar="A,B", help="Faults that the loglet does not claim to survive.")
@click.option("--nodes", type=click.IntRange(1, 9), default=NODES, show_default=True, help="Machines that serve it.")
@click.option("--jobs", type=click.IntRange(min=1), help="Processes; one per core by default.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object.")
def conformance(
    provider: str,
    seeds: tuple[int, int | None],
    seed: int | None,
    only: Sequence[str],
    without: str,
    nodes: int,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Test PROVIDER, a kind of loglet that is installed or a class as package.module:Class, against the contract.

    Its servers run on simulated machines: every clause by itself, then under every class of faults, then in the chain
    of a cluster. The report names each promise that was broken, with the seed and the command that show it again.
    See docs/howto/write-a-loglet.md.
    """
    first, last = (seed, seed) if seed is not None else seeds
    if last is None:
        raise click.UsageError("--seeds needs an end")
    chosen = range(first, last + 1)
    try:
        kind = find(provider)().kind
        planned = trials.plan(provider, chosen, nodes, [name for name in without.split(",") if name], only)
    except InvalidSettingError as error:
        raise click.UsageError(str(error)) from None
    if seed is not None and len(planned) == 1 and not as_json:
        sys.exit(_tell(planned[0], seed))
    report = ConformanceReport(provider, kind, nodes, chosen, _run(planned, jobs or os.cpu_count() or 1))
    _print_json(report) if as_json else _print(report)
    sys.exit(0 if report.kept else 1)


def _run(planned: Sequence[Trial], processes: int) -> list[Outcome]:
    outcomes = {trial.scenario: Outcome(trial) for trial in planned}
    bar = (TextColumn("{task.fields[row]}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*bar, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("runs", total=sum(len(trial.seeds) for trial in planned), row="")
        for outcome in trials.run(planned, processes):
            outcomes[outcome.trial.scenario] = outcome
            progress.advance(task)
            progress.update(task, row=outcome.trial.name)
    return list(outcomes.values())


def _print(report: ConformanceReport) -> None:
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH_LEAST)
    console.print(f"{report.kind}, on {report.nodes} nodes, seeds {report.seeds.start} to {report.seeds.stop - 1}\n")
    for table in report.tables():
        console.print(table)
    for line in report.stories():
        click.echo(line)
    click.echo(report.verdict())


def _print_json(report: ConformanceReport) -> None:
    click.echo(json.dumps(report.as_json(), indent=2))


def _tell(trial: Trial, seed: int) -> int:
    """One seed of one row."""
    run = run_seed(seed, trial.scenario, options=trial.options, messages=True)
    click.echo(f"{trial.name}, seed {seed}: {trial.about}")
    if not run.violations:
        click.echo("kept")
        return 0
    for line in told(run):
        click.echo(line)
    return 1
