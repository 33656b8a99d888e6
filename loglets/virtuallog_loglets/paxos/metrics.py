"""Metrics of the replicas and coordinators of a node.

Counters grow per group, position, election or catch-up, never per entry. Those of all logs on a node add up; positions
are those of the newest log. One `PaxosMetrics` belongs to a node: its ReplicaService makes it, and each LocalReplica
carries it as `replica.meter`.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from functools import partial
from typing import Final

import attrs

from virtuallog.contract import metrics
from virtuallog.contract.metrics import (
    BYTES,
    COUNTS,
    SECONDS,
    Counter,
    Counters,
    Histogram,
    MetricFamily,
    MetricKind,
    Sample,
)
from virtuallog_loglets.paxos.messages import NOWHERE, Standing, Status


class ElectionOutcome(enum.Enum):
    """End of an election; the values are label values."""

    ELECTED = "elected"
    REJECTED = "rejected"
    UNDECIDED = "undecided"
    """Too few replicas answered or vote, or the candidate could not catch up."""


class ProposerPhase(enum.Enum):
    """Phase of a round that met a higher number."""

    PROMISE = "promise"
    WRITE = "write"


class CatchUpSource(enum.Enum):
    """Source of a position that a replica had missed."""

    COPIED = "copied"
    FILLED = "filled"


_PREFIX: Final = "virtuallog_paxos"


def _counter(name: str, meaning: str) -> Counter:
    return Counter(f"{_PREFIX}_{name}_total", meaning)


def _counters(name: str, meaning: str, label: str, known: type[enum.Enum]) -> Counters:
    return Counters.of(f"{_PREFIX}_{name}_total", meaning, label, [each.value for each in known])


def _histogram(name: str, meaning: str, bounds: tuple[float, ...]) -> Histogram:
    return Histogram(f"{_PREFIX}_{name}", meaning, bounds)


_ELECTIONS: Final = partial(
    _counters, "elections", "Elections that a coordinator here has stood for.", "outcome", ElectionOutcome
)
_REJECTS: Final = partial(
    _counters, "rejects", "Rounds of a proposer here that ended with a higher number.", "phase", ProposerPhase
)
_CAUGHT_UP: Final = partial(
    _counters, "caught_up_positions", "Positions that a replica here had missed and has now.", "how", CatchUpSource
)
_CATCH_UPS: Final = partial(_counter, "catch_ups", "Times that a replica here went to fetch what it had missed.")
_TRUNCATIONS: Final = partial(_counter, "truncations", "Times that the begin of a log moved on here.")
_RECOVERIES: Final = partial(_counter, "recoveries", "Replicas here that did not vote and do now.")
_COMMIT_SECONDS: Final = partial(
    _histogram, "commit_seconds", "From the first send of a position until a quorum has accepted it.", SECONDS
)
_VALUE_BYTES: Final = partial(
    _histogram, "value_bytes", "Bytes of the value of a decided position: the batches that share it.", BYTES
)
_GROUP_REQUESTS: Final = partial(_histogram, "group_requests", "Requests that shared one write and one sync.", COUNTS)
_SYNC_SECONDS: Final = partial(_histogram, "sync_seconds", "One write of a group, and its sync.", SECONDS)


@attrs.define(eq=False)
class PaxosMetrics:
    """Counters and histograms of one node."""

    elections: Counters = attrs.field(factory=_ELECTIONS)
    rejects: Counters = attrs.field(factory=_REJECTS)
    caught_up: Counters = attrs.field(factory=_CAUGHT_UP)
    catch_ups: Counter = attrs.field(factory=_CATCH_UPS)
    truncations: Counter = attrs.field(factory=_TRUNCATIONS)
    recoveries: Counter = attrs.field(factory=_RECOVERIES)
    commit_seconds: Histogram = attrs.field(factory=_COMMIT_SECONDS)
    value_bytes: Histogram = attrs.field(factory=_VALUE_BYTES)
    group_requests: Histogram = attrs.field(factory=_GROUP_REQUESTS)
    sync_seconds: Histogram = attrs.field(factory=_SYNC_SECONDS)

    # -- called by the drivers ----------------------------------------------------------------------------------------

    def election_ended(self, outcome: ElectionOutcome) -> None:
        """Count an election that is over; ELECTED is counted once appends are taken."""
        self.elections.add(outcome.value)

    def rejected(self, phase: ProposerPhase) -> None:
        """Count a round that met a higher number."""
        self.rejects.add(phase.value)

    def catch_up_started(self) -> None:
        """Count a call of `catch_up` that found something missing."""
        self.catch_ups.value += 1

    def positions_caught_up(self, how: CatchUpSource, positions: int) -> None:
        """Count positions that a replica here had missed and has learned."""
        self.caught_up.add(how.value, amount=positions)

    def truncated(self) -> None:
        """Count a truncation: `begin` has moved on."""
        self.truncations.value += 1

    def recovered(self) -> None:
        """Count a replica that has become VOTING."""
        self.recoveries.value += 1

    def committed(self, size_bytes: int, seconds: float) -> None:
        """Observe a decided position that a coordinator here has written."""
        self.commit_seconds.observe(seconds)
        self.value_bytes.observe(size_bytes)

    def synced(self, requests: int, seconds: float) -> None:
        """Observe a group that is durable."""
        self.group_requests.observe(requests)
        self.sync_seconds.observe(seconds)

    # -- reports ------------------------------------------------------------------------------------------------------

    def metrics(self, standings: Sequence[Standing], writing_seconds: float) -> list[MetricFamily]:
        """Metric families with the current values.

        Args:
            standings: states of all replicas here, oldest log first.
            writing_seconds: age of the write under way; 0 if there is none.
        """
        own = (
            self.elections, self.rejects, self.catch_ups, self.caught_up, self.truncations, self.recoveries,
            self.commit_seconds, self.value_bytes, self.group_requests, self.sync_seconds,
        )  # fmt: skip
        writing = metrics.gauge(
            "virtuallog_paxos_writing_seconds",
            "Age of the write and sync under way; 0 if there is none.",
            writing_seconds,
        )
        return [*(instrument.family() for instrument in own), writing, *_places(standings)]


def leader_families(positions_in_flight: Sequence[int]) -> list[MetricFamily]:
    """Metric families of the coordinators of a node.

    Args:
        positions_in_flight: for each coordinator that takes appends, the positions that are written and not decided.
    """
    return [
        metrics.gauge(
            f"{_PREFIX}_coordinators_leading", "Coordinators here that take appends.", len(positions_in_flight)
        ),
        metrics.gauge(f"{_PREFIX}_positions_in_flight", "Positions written and not decided.", sum(positions_in_flight)),
    ]


def standalone_families(name: str, recovered: bool, ensemble_size: int) -> list[MetricFamily]:
    """The two metrics that Mesos has for a log used by itself; see `Log.metrics`."""
    return [
        metrics.gauge(f"{name}_recovered", "1 once the replica of this log votes.", recovered),
        metrics.gauge(f"{name}_ensemble_size", "Replicas that take part; quorum <= this < 2 * quorum.", ensemble_size),
    ]


def _places(standings: Sequence[Standing]) -> list[MetricFamily]:
    """Positions of the newest log here; no samples if there is no log."""
    newest = standings[-1:]
    voting = [standing.status is Status.VOTING for standing in standings]
    return [
        metrics.gauge(f"{_PREFIX}_replicas", "Logs that have a replica here.", len(standings)),
        metrics.gauge(f"{_PREFIX}_recovered", "1 if all replicas here vote.", all(voting)),
        _place(f"{_PREFIX}_begin", "First position that is not truncated.", [one.begin for one in newest]),
        _place(f"{_PREFIX}_learned", "First position that is not known to be decided here.", [one.learned for one in newest]),
        _place(f"{_PREFIX}_end", "Highest position promised or written here.", [one.end for one in newest]),
        _place(f"{_PREFIX}_sealed", "1 if the log is closed, as far as this replica knows.", [one.seal != NOWHERE for one in newest]),
    ]  # fmt: skip


def _place(name: str, meaning: str, values: Sequence[int]) -> MetricFamily:
    return MetricFamily(name, MetricKind.GAUGE, meaning, tuple(Sample({}, value) for value in values))
