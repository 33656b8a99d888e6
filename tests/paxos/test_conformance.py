"""A PaxosLoglet keeps every clause of the loglet contract: on a good network, and on one that loses, doubles and swaps."""

from __future__ import annotations

import itertools
import random

import attrs
import pytest
import trio

from tests.paxos.cluster import Cluster, running_cluster
from virtuallog.chain import SegmentId
from virtuallog.ports import Clock
from virtuallog.testing.clock import SimulatedClock
from virtuallog.testing.links import LinkQuality
from virtuallog.testing.loglet_suite import CLAUSES, Clause, Opener, run_clause
from virtuallog.testing.process import Process
from virtuallog.types import NodeId

QUALITIES = {
    "good": LinkQuality(),
    "bad": LinkQuality(loss=0.01, duplicate=0.02, reorder=0.05, tail_probability=0.02, tail_seconds=0.02),
}


@attrs.define
class PaxosFixture:
    """Fresh loglets of one cluster."""

    cluster: Cluster
    contiguous: bool = False
    clock: Clock = attrs.field(factory=lambda: SimulatedClock(Process(NodeId(99))))
    versions: itertools.count[int] = attrs.field(factory=lambda: itertools.count(1))

    @property
    def random(self) -> random.Random:
        return self.cluster.random

    async def fresh(self) -> Opener:
        segment = SegmentId(next(self.versions), 1)
        self.cluster.create(segment=segment)
        return lambda: self.cluster.client(segment)


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.__name__)
@pytest.mark.parametrize("network", QUALITIES)
async def test_clause(network: str, clause: Clause, autojump_clock: trio.testing.MockClock) -> None:
    """The loglet keeps the clause (its docstring says which promise that is)."""
    async with running_cluster(quality=QUALITIES[network]) as cluster:
        await run_clause(clause, PaxosFixture(cluster))
        assert not any(node.failures for node in cluster.nodes.values())
