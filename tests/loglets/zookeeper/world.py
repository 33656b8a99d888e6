"""Clients of loglets in a simulated ZooKeeper."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

from tests.simulation.conformance.fixtures import NoServices
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.ports import Clock, Environment
from virtuallog.contract.types import NodeId
from virtuallog.contract.znodes import Znodes
from virtuallog.testing.loglet_suite import Opener
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process
from virtuallog.testing.sim.timeline import Timeline
from virtuallog.testing.sim.zookeeper import SimulatedZnodes, SimulatedZooKeeper, ZooKeeperFaults
from virtuallog_loglets.zookeeper.config import ZooKeeperConfig
from virtuallog_loglets.zookeeper.loglet import ZooKeeperLoglet
from virtuallog_loglets.zookeeper.provider import ZooKeeperProvider

SEGMENT = SegmentId(3, 7)
CONFIG = ZooKeeperConfig(hosts="zookeeper:2181", root="/logs")


@attrs.define(eq=False)
class Bench:
    """A ZooKeeper and a process with any number of clients, each with a connection of its own."""

    zookeeper: SimulatedZooKeeper
    nursery: trio.Nursery
    random: random.Random
    clock: Clock = attrs.field(factory=lambda: SimulatedClock(Process(NodeId(1)), wall_offset_seconds=1_700_000_000.0))
    contiguous: bool = False
    _versions: itertools.count[int] = attrs.field(factory=lambda: itertools.count(100))

    @property
    def environment(self) -> Environment:
        return Environment(services=NoServices(), clock=self.clock, random=self.random, nursery=self.nursery)

    @property
    def provider(self) -> ZooKeeperProvider:
        return ZooKeeperProvider(connect=self.connect)

    def connect(self, config: ZooKeeperConfig, environment: Environment) -> Znodes:
        return self.zookeeper.connect(environment.clock, Process(NodeId(1)))

    def znodes(self) -> SimulatedZnodes:
        return self.zookeeper.connect(self.clock, Process(NodeId(1)))

    def client(self, segment: SegmentId = SEGMENT, znodes: Znodes | None = None) -> ZooKeeperLoglet:
        return ZooKeeperLoglet(segment, CONFIG, znodes or self.znodes(), self.environment)

    async def fresh(self) -> Opener:
        """For the conformance suite."""
        segment = SegmentId(next(self._versions), 1)
        return lambda: self.client(segment)


@asynccontextmanager
async def running_bench(faults: ZooKeeperFaults | None = None, seed: int = 1) -> AsyncIterator[Bench]:
    """On a mock clock."""
    timeline = Timeline()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timeline.run)
        zookeeper = SimulatedZooKeeper(
            timeline,
            random.Random(seed),
            wall=lambda: 1_700_000_000.0 + timeline.now(),
            faults=faults or ZooKeeperFaults(),
        )
        yield Bench(zookeeper, nursery, random.Random(seed))
        nursery.cancel_scope.cancel()
