"""The work of `virtuallog simulate`: runs one seed or a range of them, prints and writes the results.

The reports are in `failure_report.py`, the runs of a range in `soak.py`.
"""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from virtuallog.contract.errors import InvalidSettingError
from virtuallog_simulation.failure_report import (
    FailureReportOptions,
    report_first_failure,
    report_seed,
)
from virtuallog_simulation.report.summary import Soak
from virtuallog_simulation.report.summary_tables import as_json, as_markdown, tables, verdict
from virtuallog_simulation.scenarios import registry as scenarios
from virtuallog_simulation.scenarios import selection
from virtuallog_simulation.soak import Range, run_soak
from virtuallog_simulation.world.options import Options

INTERRUPTED: Final = 130
_FILE_WIDTH: Final = 120
"""Of tables that go into a file or a pipe."""


def run(
    *,
    seed: int | None,
    seeds: tuple[int, int | None] | None,
    minutes: float | None,
    names: tuple[str, ...],
    options: Options,
    jobs: int | None,
    shrinks: bool,
    is_full: bool,
    verify: bool,
    file: Path | None,
    as_objects: bool,
) -> int:
    """Run one seed, or a range, of the named scenarios. Return the exit code of the command.

    Raises:
        click.UsageError: an option names an unknown scenario, fault or kind.
        ModuleNotFoundError: a scenario needs a module that is not installed.
    """
    options, chosen = _resolved(options), _chosen(names)
    telling = FailureReportOptions(shrinks=shrinks, full=is_full)
    if seed is not None and not verify:
        return max(report_seed(seed, name, options, telling, as_trace=as_objects) for name in chosen)
    first, last = (seed, seed) if seed is not None else seeds or (1, None)
    the_range = Range(scenarios=chosen, first=first, last=last, minutes=minutes, options=options, verify=verify)
    return _run_range(the_range, jobs, telling, file, as_objects=as_objects)


def _chosen(names: tuple[str, ...]) -> tuple[str, ...]:
    """Raises ModuleNotFoundError: a scenario needs a module that is not installed."""
    try:
        found = selection.chosen_scenarios(names or (scenarios.DEFAULT,))
    except InvalidSettingError as error:
        raise click.UsageError(str(error)) from None
    for needed in {scenario.needs for scenario in found if scenario.needs}:
        import_module(needed)  # here, not in a run: there it would be a failing seed
    return tuple(scenario.name for scenario in found)


def _resolved(options: Options) -> Options:
    try:
        return selection.resolved(options)
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
