"""A cluster whose nodes are servers of the database: the product's own, with small thresholds, and
a witness on top of their stacks."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Final

import attrs
import trio

from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.process import Process
from virtuallog.testing.sim.tcp_network import SimulatedTcpNetwork, StreamQuality
from virtuallog_database.engines.base.base_engine import BaseSettings
from virtuallog_database.engines.checksums import ChecksumSettings
from virtuallog_database.engines.core.enabled_engines import BOUNDS, FLOOR
from virtuallog_database.engines.lease import LeaseEngine, LeaseSettings
from virtuallog_database.engines.rollout import RolloutSettings
from virtuallog_database.engines.stack import StackSettings
from virtuallog_database.engines.time_engine import TimeEngine
from virtuallog_database.engines.view_tracking import ViewSettings
from virtuallog_database.replica.database import UpkeepSettings
from virtuallog_database.replica.host import HostSettings, ReplicaIncarnation
from virtuallog_database.replica.replica import ReplicaSettings
from virtuallog_database.snapshots.compaction_store import CompactionStore
from virtuallog_database.snapshots.policy import SnapshotSettings
from virtuallog_server.config.zookeeper_settings import ZooKeeperSettings
from virtuallog_server.node.node import Node
from virtuallog_simulation.scenarios.database.client_streams import ClientStreams, address_of, node_at
from virtuallog_simulation.scenarios.database.witness import Witness
from virtuallog_simulation.workload.database.connection import Dial
from virtuallog_simulation.workload.database.embedded_client import EmbeddedClient, EmbeddedClientPace
from virtuallog_simulation.world.cluster import Cluster
from virtuallog_simulation.world.machine import MachinePorts
from virtuallog_simulation.world.world import World

ZOOKEEPER: Final = ZooKeeperSettings(session_timeout_min_ms=1000)
STACK: Final = StackSettings(
    base=BaseSettings(follow_pause_seconds=0.05, follow_burst=4, trim_pause_seconds=0.3),
    view=ViewSettings(announce_seconds=0.4, eject_seconds=4.0),
    checksums=ChecksumSettings(period_seconds=3.0, first_seconds=1.0),
)
SNAPSHOTS: Final = SnapshotSettings(log_bytes=2 << 10, seconds=3.0, seconds_min=0.3)
"""Some in every run, so that the log is trimmed under those who are away."""


UPKEEP: Final = UpkeepSettings(reap_seconds=1.0)
DRIFT: Final = 0.3
"""Drift of the worst clocks that a nemesis makes. The lease must know it; by default it trusts
clocks more."""
LEASE_SECONDS: Final = 1.5


@attrs.frozen
class OptionalEngines:
    """Engines of a run that are off at first."""

    enabled: tuple[str, ...]
    wanting: frozenset[NodeId]
    """Replicas that try to get the lease."""
    drift: float = DRIFT
    """Drift that the lease is configured with."""

    @classmethod
    def draw(cls, source: random.Random, nodes: Sequence[NodeId]) -> OptionalEngines:
        enabled = tuple(name for name in (LeaseEngine.name, TimeEngine.name) if source.random() < 0.6)
        return cls((BOUNDS, FLOOR, *enabled), frozenset(source.sample(nodes, source.choice((1, 2, 3)))))

    def settings(self, node: NodeId, witness: Witness) -> HostSettings:
        """Small ones."""
        stack = attrs.evolve(
            STACK,
            rollout=RolloutSettings(enable=self.enabled, retry_seconds=0.5),
            lease=LeaseSettings(wanted=node in self.wanting, duration_seconds=LEASE_SECONDS, drift=self.drift),
        )
        replica = ReplicaSettings(recipe=witness.recipe, stack=stack)
        return HostSettings(replica=replica, snapshots=SNAPSHOTS, upkeep=UPKEEP)


@attrs.define(eq=False)
class DatabaseServers:
    """Give `prepare` to a cluster as its `on_node`."""

    world: World
    witness: Witness
    engines: OptionalEngines
    quality: StreamQuality
    count: Callable[[str], None]
    """Called with each shape that was reached."""
    places: Sequence[CompactionStore] = ()
    """Places from which a store can begin."""
    manner: EmbeddedClientPace = attrs.field(factory=EmbeddedClientPace)
    """Pace of the programs beside the servers."""
    settings: ZooKeeperSettings = ZOOKEEPER
    streams: SimulatedTcpNetwork = attrs.field(init=False)
    lives: dict[NodeId, ReplicaIncarnation] = attrs.field(factory=dict, init=False)
    """The newest life of each replica; none while its node has not opened it."""
    _numbers: Iterator[int] = attrs.field(factory=lambda: count(1), init=False)

    def __attrs_post_init__(self) -> None:
        source = self.world.random("client streams")
        self.streams = SimulatedTcpNetwork(self.world.network, source, node_at, self.quality)

    def start(self, cluster: Cluster) -> None:
        """Before the cluster starts, and once it has drawn its transport."""
        self.world.transport = ClientStreams(self.world.transport, self.streams)
        cluster.zookeeper, cluster.on_node = self.settings, self.prepare

    def prepare(self, node: Node, ports: MachinePorts, nursery: trio.Nursery) -> None:
        """Let it listen to clients, too, and put a program beside it."""
        assert node.database is not None
        process = ports.process
        settings = self.engines.settings(process.node, self.witness)
        node.database.settings = attrs.evolve(settings, places=self.places)
        who = f"inside {process.node}.{process.boot}"
        inside = EmbeddedClient(
            who,
            self.world.history,
            ports.clock,
            self.world.random(who),
            self.count,
            lambda: next(self._numbers),
            self.manner,
        )
        self.lives.pop(process.node, None)
        node.database.on_life = partial(self._begin, process.node, inside)
        nursery.start_soon(inside.run)
        nursery.start_soon(self._listen, node, process)

    def _begin(self, node: NodeId, inside: EmbeddedClient, life: ReplicaIncarnation) -> None:
        self.lives[node] = life
        inside.begin(life)

    async def _listen(self, node: Node, process: Process) -> None:
        listener = self.streams.listen(process, address_of(process.node))
        assert node.database is not None
        async with trio.open_nursery() as nursery:
            while True:
                stream = await listener.accept()
                nursery.start_soon(node.database.serve_stream, stream, "127.0.0.1")

    def dials(self, process: Process, nodes: Sequence[NodeId]) -> Sequence[Dial]:
        """Functions by which a client on this process connects to each server."""
        return [partial(self.streams.connect, process, address_of(node)) for node in nodes]
