"""Shared parts of conformance tests for kinds with loglets on a small cluster: fresh loglets, on
two networks."""

from __future__ import annotations

import itertools
import random
from typing import Any, Final, Generic, Protocol, TypeVar

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import NodeId
from virtuallog.testing.loglet_suite import Clause, Opener, run_clause
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.links import LinkQuality
from virtuallog.testing.sim.process import Process

QUALITIES: Final = {
    "good": LinkQuality(),
    "bad": LinkQuality(loss=0.01, duplicate=0.02, reorder=0.05, tail_probability=0.02, tail_seconds=0.02),
}


class Creating(Protocol):
    """The cluster of a kind, `tests.loglets.cluster.LogletCluster` with what each kind adds."""

    random: random.Random
    nodes: Any

    def create(self, *, segment: SegmentId) -> object: ...

    def client(self, segment: SegmentId) -> Loglet: ...


CreatingT = TypeVar("CreatingT", bound=Creating)


@attrs.define
class ClusterFixture(Generic[CreatingT]):
    """Fresh loglets of one cluster."""

    cluster: CreatingT
    contiguous: bool
    clock: Clock = attrs.field(factory=lambda: SimulatedClock(Process(NodeId(99))))
    versions: itertools.count[int] = attrs.field(factory=lambda: itertools.count(1))

    @property
    def random(self) -> random.Random:
        return self.cluster.random

    async def fresh(self) -> Opener:
        segment = SegmentId(next(self.versions), 1)
        self.cluster.create(segment=segment)
        return lambda: self.cluster.client(segment)


async def check_clause(clause: Clause, fixture: ClusterFixture[CreatingT]) -> None:
    """The loglet keeps the clause, and no node stops serving over it."""
    await run_clause(clause, fixture)
    assert not any(node.failures for node in fixture.cluster.nodes.values())
