"""Summaries of one seed and of many: numbers only, so that a hundred thousand seeds fit into little
memory."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import attrs

from virtuallog.testing.checker.actions import Action, LogRead, Reconfigure, RegisterGet, RegisterPut
from virtuallog.testing.checker.history import Event, History, Invoked, Returned
from virtuallog_simulation.faults import registry
from virtuallog_simulation.report.narrative import as_json
from virtuallog_simulation.runs.runner import SeedReport
from virtuallog_simulation.scenarios.cluster.liveness import JUDGE

FAILURES_MAX: Final = 1000
"""Failing seeds that are remembered by name; a range with more of them is broken as a whole."""


@attrs.frozen(kw_only=True)
class SeedSummary:
    """Result of a seed that a worker process returns: little, as the seed itself reproduces the
    rest."""

    scenario: str
    seed: int
    failed: tuple[str, ...] = ()
    """Names of the checks that found a violation, or the fate of the process."""
    died: bool = False
    """The process was lost, so nothing more is known of this seed."""
    counts: Counter[str] = attrs.field(factory=Counter)
    operations: int = 0
    """Operations of clients on the log; in a story without a log, on the loglet or else on the
    register. Without the judge's own, which come when the faults are over."""
    deliveries: int = 0
    """Entries handed to readers that follow the log."""
    reconfigurations: int = 0
    """Changes of the chain that were made and returned to who asked for them, the judge again left out."""
    faults: int = 0
    """Strikes of fault classes; a lost message is none, a partition is one."""
    simulated_seconds: float = 0.0
    demands: Mapping[str, float] = attrs.field(factory=dict)
    """Demand made once the faults were over -> simulated seconds until it was met."""
    trace: str = ""
    """Digest of all that happened, if it was asked for."""


def summarize(report: SeedReport, *, with_trace: bool = False) -> SeedSummary:
    """The summary of a run that has ended."""
    asked = count(report.history)
    return SeedSummary(
        scenario=report.scenario,
        seed=report.seed,
        failed=tuple(dict.fromkeys(violation.check for violation in report.violations)),
        counts=report.counts,
        operations=asked.operations,
        deliveries=asked.deliveries,
        reconfigurations=asked.reconfigurations,
        faults=registry.acts(report.counts),
        simulated_seconds=report.simulated_seconds,
        demands=report.demands,
        trace=digest(report) if with_trace else "",
    )


def digest(report: SeedReport) -> str:
    """Equal for equal runs: of every event, with its time and content."""
    content = hashlib.blake2b(digest_size=16)
    for line in as_json(report):
        content.update(json.dumps(line).encode())
    return content.hexdigest()


@attrs.frozen
class OperationCounts:
    """See `SeedSummary`."""

    operations: int
    deliveries: int
    reconfigurations: int


def count(history: History) -> OperationCounts:
    """Count the operations of clients at the highest level that this history has."""
    levels = Counter[int]()
    changes: set[int] = set()
    deliveries = done = 0
    for event, following in pairwise((*history.events, None)):
        if isinstance(event, Invoked) and not event.client.startswith(JUDGE):
            if _is_delivery(event, following):
                deliveries += 1
                continue
            levels[_level(event.action)] += 1
            if isinstance(event.action, Reconfigure):
                changes.add(event.operation)
        elif isinstance(event, Returned) and event.operation in changes:
            done += 1
    return OperationCounts(levels[min(levels)] if levels else 0, deliveries, done)


def _is_delivery(event: Invoked, following: Event | None) -> bool:
    """True for a delivery to a following reader, recorded as a read that takes no time
    (`History.observed`)."""
    return (
        isinstance(event.action, LogRead)
        and isinstance(following, Returned)
        and (following.operation, following.time) == (event.operation, event.time)
    )


def _level(action: Action) -> int:
    """0: asked of the log, 1: of a loglet, 2: of the register."""
    if isinstance(action, RegisterGet | RegisterPut):
        return 2
    return 1 if type(action).__name__.startswith("Loglet") else 0


@attrs.define(eq=False)
class Distribution:
    """A number per seed: eight bytes each."""

    values: array[float] = attrs.field(factory=lambda: array("d"))

    def percentiles(self, *shares: float) -> list[float]:
        """The smallest value that this share of the seeds does not exceed, for each share."""
        ordered = sorted(self.values)
        return [ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in shares] if ordered else []


@attrs.define(eq=False)
class Totals:
    """All seeds of one scenario together."""

    scenario: str
    seeds: int = 0
    failed: int = 0
    operations: Distribution = attrs.field(factory=Distribution)
    deliveries: Distribution = attrs.field(factory=Distribution)
    reconfigurations: Distribution = attrs.field(factory=Distribution)
    faults: Distribution = attrs.field(factory=Distribution)
    simulated_seconds: Distribution = attrs.field(factory=Distribution)
    demands: dict[str, Distribution] = attrs.field(factory=dict)
    """Simulated seconds until each demand was met, of the seeds that made it."""
    counts: Counter[str] = attrs.field(factory=Counter)
    """Faults and shapes that took effect, and how often."""
    seen_in: Counter[str] = attrs.field(factory=Counter)
    """Faults and shapes that took effect, and in how many seeds."""

    def add(self, summary: SeedSummary) -> None:
        self.seeds += 1
        self.failed += bool(summary.failed)
        self.operations.values.append(summary.operations)
        self.deliveries.values.append(summary.deliveries)
        self.reconfigurations.values.append(summary.reconfigurations)
        self.faults.values.append(summary.faults)
        self.simulated_seconds.values.append(summary.simulated_seconds)
        for what, seconds in summary.demands.items():
            self.demands.setdefault(what, Distribution()).values.append(seconds)
        self.counts.update(summary.counts)
        self.seen_in.update(name for name, count in summary.counts.items() if count)


@attrs.define(eq=False)
class Soak:
    """A set of runs: totals per scenario, and the seeds that failed."""

    scenarios: Sequence[str]
    totals: dict[str, Totals] = attrs.field(init=False)
    failures: list[SeedSummary] = attrs.field(factory=list, init=False)
    """Failing seeds, at most `FAILURES_MAX`; the totals count all."""
    real_seconds: float = 0.0
    never_fired: dict[str, Sequence[str]] = attrs.field(factory=dict, init=False)
    """Scenario -> what should have happened in so many seeds, and did not."""

    def __attrs_post_init__(self) -> None:
        self.totals = {name: Totals(name) for name in self.scenarios}

    def add(self, summary: SeedSummary) -> None:
        self.totals[summary.scenario].add(summary)
        if summary.failed and len(self.failures) < FAILURES_MAX:
            self.failures.append(summary)

    @property
    def seeds(self) -> int:
        return sum(totals.seeds for totals in self.totals.values())

    @property
    def failed(self) -> int:
        return sum(totals.failed for totals in self.totals.values())

    @property
    def good(self) -> bool:
        """Every promise was kept, and everything that should be tested was."""
        return not self.failed and not any(self.never_fired.values())
