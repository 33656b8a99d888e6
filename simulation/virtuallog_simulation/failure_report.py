"""Output of `virtuallog simulate` for one seed, and for the first failing seed of a range."""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import Final

import attrs
import click

from virtuallog.testing.checker.violation import Violation
from virtuallog_simulation.fleet import Stopwatch
from virtuallog_simulation.report.narrative import LEGEND, as_json, full_story, short_story
from virtuallog_simulation.report.summary import Soak, summarize
from virtuallog_simulation.runs.runner import SeedReport, run_seed
from virtuallog_simulation.scenarios import registry as scenarios
from virtuallog_simulation.scenarios import selection
from virtuallog_simulation.shrink import Extent, OutOfTimeError, shrink
from virtuallog_simulation.world.options import Options, cli_word

SHRINK_SECONDS: Final = 30.0
"""Real seconds for the search: long enough for a hundred runs, short enough to wait for."""
_VIOLATIONS_TOLD: Final = 5


@attrs.frozen(kw_only=True)
class FailureReportOptions:
    """Options of the report on a failing seed."""

    shrinks: bool = True
    full: bool = False
    """Everything that happened, not only what concerns the violation."""


def report_seed(
    seed: int, scenario: str, options: Options, telling: FailureReportOptions, *, as_trace: bool = False
) -> int:
    """Run it and say what happened. Returns the exit code."""
    report = run_seed(seed, scenario, options=options, messages=as_trace)
    if as_trace:
        for line in as_json(report):
            click.echo(json.dumps(line))
    elif report.violations:
        report_failure(report, telling)
    else:
        _tell_success(report)
    return 1 if report.violations else 0


def report_first_failure(soak: Soak, options: Options, telling: FailureReportOptions) -> None:
    """Report the first failing seed of a range, which says enough."""
    failure = min(soak.failures, key=lambda failure: failure.seed, default=None)
    if failure is None or failure.died:
        return
    report = run_seed(failure.seed, failure.scenario, options=options)
    if report.violations:
        click.echo("")
        report_failure(report, telling)


def report_failure(report: SeedReport, telling: FailureReportOptions) -> None:
    """Print the violation, a smaller run with the same violation if there is one, its story, and
    the command to replay it."""
    for violation in report.violations[:_VIOLATIONS_TOLD]:
        click.echo(f"seed {report.seed}: {violation.check}: {violation.message}")
    if len(report.violations) > _VIOLATIONS_TOLD:
        click.echo(f"... and {len(report.violations) - _VIOLATIONS_TOLD} more")
    click.echo(f"replay with: {report.replay}\n")
    options = _smaller(report) if telling.shrinks else report.options
    recorded = run_seed(report.seed, report.scenario, options=options, messages=True)
    found = _same(recorded, report.violations[0].check)
    if found is None:  # planted by a caller that has gone, or not repeatable
        click.echo("this run did not fail when it was run again: see --verify-determinism")
        return
    if options != report.options:
        click.echo(f"a smaller run that fails as well: {found.message}\nreplay with: {recorded.replay}\n")
    for line in full_story(recorded.history, found) if telling.full else short_story(recorded.history, found):
        click.echo(line)
    click.echo(f"\n{LEGEND}; --timeline full tells everything")


def _same(report: SeedReport, check: str) -> Violation | None:
    return next((violation for violation in report.violations if violation.check == check), None)


def _smaller(report: SeedReport) -> Options:
    """The smallest narrowing of this run that was found in time."""
    check, watch = report.violations[0].check, Stopwatch()

    def fails(options: Options) -> Hashable | None:
        if watch.seconds >= SHRINK_SECONDS:
            raise OutOfTimeError
        run = run_seed(report.seed, report.scenario, options=options)
        return (len(run.history.events), run.simulated_seconds) if _same(run, check) else None

    extent = Extent(
        faults=selection.struck(report.counts),
        loglets=selection.loglet_kinds(),
        operations=summarize(report).operations,
        seconds=report.simulated_seconds,
    )
    return shrink(report.options, extent, fails)


def _tell_success(report: SeedReport) -> None:
    summary = summarize(report)
    click.echo(f"seed {report.seed}: every promise was kept, in {report.simulated_seconds:.1f} simulated seconds")
    click.echo(
        f"{summary.operations} client operations, {summary.reconfigurations} reconfigurations, {summary.faults} faults"
    )
    told = ", ".join(f"{name} {count}" for name, count in sorted(report.counts.items()))
    click.echo(f"took effect: {told or 'nothing'}")


def print_catalogue() -> None:
    """Print the names to choose from."""
    click.echo("scenarios (--scenario):")
    width = max(len(scenario.name) for scenario in scenarios.all_scenarios())
    for scenario in scenarios.all_scenarios():
        default = "; the default" if scenario.name == scenarios.DEFAULT else ""
        click.echo(f"  {scenario.name:<{width}}  {scenario.about}{default}")
    click.echo("classes of faults (--faults):")
    for name, about in selection.fault_classes().items():
        click.echo(f"  {cli_word(name):<16}  {about}")
    click.echo(f"kinds of loglets (--loglets): {', '.join(selection.loglet_kinds())}")
