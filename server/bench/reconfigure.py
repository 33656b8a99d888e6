"""`virtuallog bench reconfigure`: a tour through all ordered pairs of targets under a checked load, on processes of its own.

Three nodes and three that only store, one client with so many appends outstanding. The gap of a swap is the longest stretch
without any acknowledgement from when it is asked for until a window after it is decided; where the time goes is told by what the nodes
write down. Afterwards everything is read back and judged.

Before the tour each target is visited once. That is told by itself: whoever comes to a kind for the first time imports its library and
connects to its servers, and appends wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import attrs

from server.bench.gaps import Gaps, Swap, find_gaps
from server.bench.matrix import Matrix
from server.bench.report import Report, Table
from server.bench.steps import Steps, client_steps, read_steps
from server.bench.swapping import swap_repeatedly
from server.bench.targets import LOG_NODES, Target
from server.bench.tour import tour
from server.bench.trial import OBSERVED, Evidence, Load, temporary_cluster, try_out
from server.machine import Machine
from server.workload.pauses import Pause


@attrs.frozen(kw_only=True)
class Plan:
    """What is done."""

    targets: Sequence[Target]
    swaps: int
    """For each ordered pair."""
    load: Load
    window_seconds: float
    """Before and behind each swap."""
    keep: Path | None = None
    """Where the cluster stays, if it does."""

    @property
    def total(self) -> int:
        """How many swaps that makes."""
        return self.swaps * len(self.targets) ** 2


@attrs.frozen(eq=False)
class Outcome:
    """What was seen."""

    plan: Plan
    gaps: Gaps
    matrix: Matrix
    times: Sequence[float]
    """Of all acknowledgements, ascending."""
    report: Report


async def run(plan: Plan, machine: Machine) -> Outcome:
    """Do all of it; takes some twice the window for each swap, then reads everything back.

    Raises:
        UnavailableError: a swap could not be carried out, or appends did not come back.
        VirtualLogError: the cluster could not be started.
    """
    async with temporary_cluster(OBSERVED, plan.keep, log_nodes=LOG_NODES) as cluster:
        walk = [*plan.targets, *tour(plan.targets, plan.swaps)]
        story = partial(swap_repeatedly, targets=walk, window_seconds=plan.window_seconds)
        with client_steps() as searched:
            evidence = await try_out(cluster, plan.load, story)
        return conclude(plan, machine, evidence, read_steps(cluster, searched, evidence.workload.started))


def conclude(plan: Plan, machine: Machine, evidence: Evidence[list[Swap]], steps: Steps) -> Outcome:
    """The figures, and the verdict."""
    visits = len(plan.targets)
    first, gaps = (
        find_gaps(swaps, evidence.times, plan.window_seconds)
        for swaps in (evidence.result[: visits - 1], evidence.result[visits:])
    )
    matrix = Matrix.of([target.name for target in plan.targets], gaps, steps)
    report = Report(
        title=f"{len(gaps.swaps)} swaps under {plan.load.writers} outstanding appends",
        machine=machine,
        tables=[*matrix.tables(), _first_visits(first)],
        plain={
            "swaps": len(gaps.swaps),
            "outstanding": plan.load.writers,
            "acknowledged": evidence.workload.acknowledged,
            "unknown": evidence.workload.unknown,
            "first_visits_ms": {swap.target: _ms(pause) for swap, pause in zip(first.swaps, first.pauses, strict=True)},
            **matrix.plain(),
        },
        verdict=evidence.summary,
        problems=evidence.verdict.problems,
    )
    return Outcome(plan, gaps, matrix, evidence.times, report)


def _first_visits(gaps: Gaps) -> Table:
    rows = [[swap.target, f"{_ms(pause):,.1f}"] for swap, pause in zip(gaps.swaps, gaps.pauses, strict=True)]
    return Table("The first swap to each, before all these", ["", "gap, ms"], rows)


def _ms(pause: Pause) -> float:
    return round(1000 * pause.seconds, 1)
