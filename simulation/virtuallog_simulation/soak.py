"""Runs a set of seeds with a progress bar, and collects the summary. Ctrl-C ends it in good order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import attrs
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from virtuallog_simulation.fleet import Job, Stopwatch, run_jobs
from virtuallog_simulation.report.summary import SeedSummary, Soak
from virtuallog_simulation.runs import coverage
from virtuallog_simulation.runs.runner import replay_command
from virtuallog_simulation.scenarios import registry as scenarios
from virtuallog_simulation.scenarios.selection import ALL
from virtuallog_simulation.world.options import Options

RUN_TWICE_EVERY: Final = 1000
"""Every so many-th seed runs in two processes and must do the same in both: cheap enough to be always on."""
COVERAGE_SEEDS: Final = 300
"""Number of seeds that, without narrowing, must have seen every class of faults; fewer may miss the
rare ones by chance."""


@attrs.frozen(kw_only=True)
class Range:
    """Seeds and options to run."""

    scenarios: Sequence[str]
    first: int
    last: int | None
    """None: until time is up."""
    minutes: float | None = None
    options: Options = attrs.field(factory=Options)
    verify: bool = False
    """Run every seed twice."""

    @property
    def command(self) -> str:
        """Command that runs the same again."""
        told = [
            _scenario_argument(self.scenarios),
            f"--seeds {self.first}..{'' if self.last is None else self.last}",
            "" if self.minutes is None else f"--minutes {self.minutes:g}",
            self.options.arguments,
            "--verify-determinism" if self.verify else "",
        ]
        return " ".join(("virtuallog simulate", *(part for part in told if part)))

    @property
    def jobs_total(self) -> int | None:
        return None if self.last is None else (self.last - self.first + 1) * len(self.scenarios)

    def jobs(self) -> Iterator[Job]:
        """Seed by seed, all scenarios of one before the next: when time is up, each has had as many."""
        seeds: Iterable[int] = itertools.count(self.first) if self.last is None else range(self.first, self.last + 1)
        watch, enough = Stopwatch(), math.inf if self.minutes is None else self.minutes * 60.0
        for seed in seeds:
            for scenario in self.scenarios:
                if watch.seconds >= enough:
                    return
                twice = self.verify or seed % RUN_TWICE_EVERY == 0
                yield Job(scenario=scenario, seed=seed, options=self.options, twice=twice)


def _scenario_argument(names: Sequence[str]) -> str:
    if tuple(names) == (scenarios.DEFAULT,):
        return ""
    every = tuple(scenario.name for scenario in scenarios.all_scenarios())
    return f"--scenario {ALL if tuple(names) == every else ','.join(names)}"


def run_soak(what: Range, processes: int) -> tuple[Soak, bool]:
    """Run it, telling of failing seeds as they come; the results, and whether it was interrupted."""
    soak, watch, interrupted = Soak(what.scenarios), Stopwatch(), False
    with _progress() as progress:
        task = progress.add_task("seeds", total=what.jobs_total or (what.minutes or 0.0) * 60.0, done=0)
        summaries = run_jobs(what.jobs(), processes)
        try:
            for summary in summaries:
                soak.add(summary)
                _advance(progress, task, what, soak, watch.seconds)
                if summary.failed:
                    progress.console.print(_failure(summary, what.options), highlight=False, markup=False)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            summaries.close()
    soak.real_seconds = watch.seconds
    _demand_coverage(soak, what.options)
    return soak, interrupted


def _demand_coverage(soak: Soak, options: Options) -> None:
    if options != Options():
        return
    for name, totals in soak.totals.items():
        if totals.seeds >= COVERAGE_SEEDS:
            soak.never_fired[name] = tuple(coverage.never_fired(name, totals.counts))


def _failure(summary: SeedSummary, options: Options) -> str:
    return f"{', '.join(summary.failed)}\n    {replay_command(summary.scenario, summary.seed, options)}"


def _progress() -> Progress:
    columns: list[ProgressColumn] = [
        TextColumn("{task.fields[done]} seeds"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    ]
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _advance(progress: Progress, task: TaskID, what: Range, soak: Soak, elapsed: float) -> None:
    fields: dict[str, Any] = {"done": f"{soak.seeds:,}"}
    progress.update(task, completed=soak.seeds if what.last is not None else elapsed, **fields)
