"""The work of `virtuallog conformance`: plans the trials of a provider, runs them, prints the report."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from virtuallog.contract.errors import InvalidSettingError
from virtuallog_simulation.conformance import trials
from virtuallog_simulation.conformance.report import ConformanceReport, told
from virtuallog_simulation.conformance.trials import Outcome, Trial
from virtuallog_simulation.runs.runner import run_seed
from virtuallog_simulation.scenarios.conformance.providers import find

_WIDTH_LEAST = 100
"""Where the output is no terminal; the matrix needs that much."""


def run(
    provider: str,
    seeds: range,
    *,
    is_one: bool,
    only: Sequence[str],
    without: Sequence[str],
    nodes: int,
    jobs: int | None,
    as_json: bool,
) -> int:
    """Test a provider, and print the report. Return the exit code of the command.

    With `is_one` and a single trial it tells the story of that run instead.

    Raises:
        click.UsageError: an option names an unknown provider, row or fault.
    """
    try:
        kind = find(provider)().kind
        planned = trials.plan(provider, seeds, nodes, without, only)
    except InvalidSettingError as error:
        raise click.UsageError(str(error)) from None
    if is_one and len(planned) == 1 and not as_json:
        return _tell(planned[0], seeds.start)
    report = ConformanceReport(provider, kind, nodes, seeds, _run(planned, jobs or os.cpu_count() or 1))
    _print_json(report) if as_json else _print(report)
    return 0 if report.kept else 1


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
