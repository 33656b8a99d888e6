"""`virtuallog bench reconfigure`: a tour through all ordered pairs of targets under a checked load, on processes of its own.

Three nodes and three that only store, one client with so many appends outstanding. The gap of a
swap is the longest stretch without any acknowledgement from its request until a window after it is
decided; the records of the nodes show where the time goes. Afterwards everything is read back and
judged.

The chain and its metadata get longer with every swap, so a new cluster takes over after some
rounds. On each, every target is visited once before the tour, and reported by itself: the first use
of a kind imports its library and connects to its servers, and appends wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from statistics import median
from typing import Final, TypeVar

import attrs

from virtuallog_lab.bench.gaps import find_gaps
from virtuallog_lab.bench.matrix import Matrix
from virtuallog_lab.bench.steps import client_steps, read_steps
from virtuallog_lab.bench.swaps import SwapCost, swap_costs, swap_repeatedly
from virtuallog_lab.bench.targets import LOG_NODES, Target
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.report import Report, Table, tell
from virtuallog_lab.harness.trial import OBSERVED, TrialLoad, run_trial, temporary_cluster

PlaceT = TypeVar("PlaceT")


ROUNDS_MAX: Final = 4
"""Most rounds on one cluster: with six targets 150 segments, whose register is some 25 KB."""


@attrs.frozen(kw_only=True)
class SwapMatrixPlan:
    """Plan of a measurement."""

    targets: Sequence[Target]
    swaps: int
    """Swaps for each ordered pair."""
    load: TrialLoad
    window_seconds: float
    """Before and behind each swap."""
    keep: Path | None = None
    """Folder in which the clusters stay; None to remove them."""

    @property
    def total(self) -> int:
        """Number of swaps, first visits not counted."""
        return self.swaps * len(self.targets) ** 2

    @property
    def rounds(self) -> list[int]:
        """Rounds of each cluster."""
        return [min(ROUNDS_MAX, self.swaps - done) for done in range(0, self.swaps, ROUNDS_MAX)]


@attrs.frozen(kw_only=True)
class ClusterSwaps:
    """Observations on one cluster."""

    first: Sequence[SwapCost]
    """The first visits."""
    seen: Sequence[SwapCost]
    acknowledged: int
    unknown: int
    entries: int
    """Entries in the log."""
    problems: Sequence[str]


@attrs.frozen
class SwapMatrixOutcome:
    """Outcome of the whole measurement."""

    matrix: Matrix
    report: Report


async def run(plan: SwapMatrixPlan, machine: Machine) -> SwapMatrixOutcome:
    """Do all of it; takes a little more than twice the window for each swap, and reads everything back.

    Raises:
        UnavailableError: a swap could not be carried out, or appends did not come back.
        VirtualLogError: a cluster could not be started.
    """
    parts = []
    for number, rounds in enumerate(plan.rounds):
        parts.append(await _run_on_one(plan, rounds, plan.keep / str(number) if plan.keep else None))
        tell(f"cluster {number + 1} of {len(plan.rounds)} is done: {parts[-1].acknowledged:,} entries")
    return conclude(plan, machine, parts)


async def _run_on_one(plan: SwapMatrixPlan, rounds: int, keep: Path | None) -> ClusterSwaps:
    visits = len(plan.targets)
    story = partial(
        swap_repeatedly, targets=[*plan.targets, *tour(plan.targets, rounds)], window_seconds=plan.window_seconds
    )
    async with temporary_cluster(OBSERVED, keep, log_nodes=LOG_NODES) as cluster:
        with client_steps() as client:
            evidence = await run_trial(cluster, plan.load, story)
        steps = read_steps(cluster, client, evidence.workload.started)
    seen = swap_costs(find_gaps(evidence.result, evidence.times, plan.window_seconds), steps)
    return ClusterSwaps(
        first=seen[: visits - 1],
        seen=seen[visits:],  # what is between leads from the last visit to where the tour begins
        acknowledged=evidence.workload.acknowledged,
        unknown=evidence.workload.unknown,
        entries=evidence.verdict.entries,
        problems=evidence.verdict.problems,
    )


def conclude(plan: SwapMatrixPlan, machine: Machine, parts: Sequence[ClusterSwaps]) -> SwapMatrixOutcome:
    """The figures, and the verdict."""
    seen = [one for part in parts for one in part.seen]
    matrix = Matrix.of([target.name for target in plan.targets], seen)
    first = _first_visits(parts)
    acknowledged, unknown, entries = (
        sum(getattr(part, name) for part in parts) for name in ("acknowledged", "unknown", "entries")
    )
    report = Report(
        title=f"{len(seen)} swaps under {plan.load.writers} outstanding appends",
        machine=machine,
        tables=[*matrix.tables(), _first_table(first)],
        plain={
            "swaps": len(seen),
            "outstanding": plan.load.writers,
            "acknowledged": acknowledged,
            "unknown": unknown,
            "first_visits_ms": first,
            **matrix.plain(),
        },
        verdict=f"{acknowledged:,} entries acknowledged, {unknown} unknown, {entries:,} in the logs: nothing lost, nothing "
        "doubled, nothing reordered",
        problems=[problem for part in parts for problem in part.problems],
    )
    return SwapMatrixOutcome(matrix, report)


def _first_visits(parts: Sequence[ClusterSwaps]) -> dict[str, list[float]]:
    """Gap of each cluster's first swap to a target, in ms, by target."""
    found: dict[str, list[float]] = {}
    for part in parts:
        for one in part.first:
            found.setdefault(one.target, []).append(round(1000 * one.gap, 1))
    return found


def _first_table(first: Mapping[str, Sequence[float]]) -> Table:
    rows = [[target, str(len(gaps)), f"{median(gaps):,.1f}", f"{max(gaps):,.1f}"] for target, gaps in first.items()]
    return Table("The first swap to each on a new cluster, before all these", ["", "swaps", "p50 ms", "max ms"], rows)


def circuit(places: Sequence[PlaceT]) -> Iterator[PlaceT]:
    """Yield an Eulerian circuit on the complete directed graph with loops over `places`.

    Each ordered pair, also of a place with itself, follows once; the last place is followed by the
    first. This is a de Bruijn sequence of words of two letters: all Lyndon words of one or two
    letters, in dictionary order (Fredricksen and Maiorana). For three: 0 01 02 1 12 2, and again.
    """
    for index, first in enumerate(places):
        yield first
        for second in places[index + 1 :]:
            yield first
            yield second


def tour(places: Sequence[PlaceT], rounds: int) -> Iterator[PlaceT]:
    """Yield so many circuits one after the other, back to the beginning: each ordered pair comes up
    once per round.

    Rounds, and not all swaps of one pair in a row, so that noise of the machine hits all pairs
    alike.
    """
    return chain(chain.from_iterable(repeat(list(circuit(places)), rounds)), places[:1])
