"""Metrics of replicas and coordinators: every name from the start, and the values that were fed."""

from __future__ import annotations

import re

import attrs

from tests.source_tree import ROOT
from virtuallog.contract.metrics import Distribution, MetricFamily
from virtuallog_loglets.paxos import metrics
from virtuallog_loglets.paxos.messages import NOWHERE, Standing, Status
from virtuallog_loglets.paxos.metrics import CatchUpSource, ElectionOutcome, PaxosMetrics, ProposerPhase

STANDING = Standing(
    status=Status.VOTING, incarnation=1, promised=2, begin=3, learned=5, end=7, uniform_from=8, uniform=NOWHERE
)


def values(found: list[MetricFamily], name: str) -> dict[tuple[str, ...], float]:
    """Values by label; for a histogram, the number of observations."""
    (family,) = (family for family in found if family.name == f"virtuallog_paxos_{name}")
    return {
        tuple(sample.labels.values()): sample.value.count if isinstance(sample.value, Distribution) else sample.value
        for sample in family.samples
    }


def test_every_name_is_told_from_the_start_and_documented() -> None:
    """A rate over a counter that is missing says nothing; docs/howto/monitor.md has each name, of the same kind, and no other."""
    told = [*PaxosMetrics().metrics([], 0.0), *metrics.leader_families([])]
    rows = re.findall(
        r"^\| `(virtuallog_paxos_\w+)` \| (\w+) \|", (ROOT / "docs/reference/metrics.md").read_text(), re.MULTILINE
    )

    assert sorted((family.name, family.kind.value) for family in told) == sorted(rows)
    assert values(told, "elections_total") == {("elected",): 0, ("rejected",): 0, ("undecided",): 0}


def test_what_happens_is_counted() -> None:
    """Once per election, round, catch-up, position or group."""
    meter = PaxosMetrics()
    meter.election_ended(ElectionOutcome.ELECTED)
    meter.rejected(ProposerPhase.WRITE)
    meter.catch_up_started()
    meter.positions_caught_up(CatchUpSource.COPIED, 10)
    meter.positions_caught_up(CatchUpSource.FILLED, 2)
    meter.truncated()
    meter.recovered()
    meter.committed(size_bytes=100, seconds=0.001)
    meter.synced(requests=5, seconds=0.002)
    told = meter.metrics([], 2.5)

    assert values(told, "elections_total")["elected",] == 1
    assert values(told, "rejects_total") == {("promise",): 0, ("write",): 1}
    assert values(told, "catch_ups_total") == {(): 1}
    assert values(told, "caught_up_positions_total") == {("copied",): 10, ("filled",): 2}
    assert values(told, "truncations_total") == values(told, "recoveries_total") == {(): 1}
    assert values(told, "writing_seconds") == {(): 2.5}
    for name in ("commit_seconds", "value_bytes", "group_requests", "sync_seconds"):
        assert values(told, name) == {(): 1}


def test_places_are_those_of_the_newest_log() -> None:
    """Places are those of the newest log; one replica that does not vote is enough to report it."""
    empty = attrs.evolve(STANDING, status=Status.EMPTY, begin=0, learned=0, end=0)
    told = PaxosMetrics().metrics([empty, STANDING], 0.0)

    assert values(told, "replicas") == {(): 2}
    assert values(told, "recovered") == {(): 0}
    assert [values(told, name) for name in ("begin", "learned", "end", "sealed")] == [{(): n} for n in (3, 5, 7, 0)]
    assert values(metrics.leader_families([1, 0]), "coordinators_leading") == {(): 2}
    assert values(metrics.leader_families([1, 0]), "positions_in_flight") == {(): 1}
