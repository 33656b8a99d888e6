"""A cluster whose nodes are servers of a Zelos: the product's own, with small thresholds, and a witness on top of their stacks."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Final

import attrs
import trio

from virtuallog.testing.byte_streams import ByteStreams, StreamQuality
from virtuallog.testing.process import Process
from virtuallog.types import NodeId
from virtuallog_database.engines.base import BaseSettings
from virtuallog_database.engines.checksums import ChecksumSettings
from virtuallog_database.engines.lease import Lease, LeaseSettings
from virtuallog_database.engines.rollout import RolloutSettings
from virtuallog_database.engines.stack import StackSettings
from virtuallog_database.engines.switches import BOUNDS, FLOOR
from virtuallog_database.engines.time import Time
from virtuallog_database.engines.view_tracking import ViewSettings
from virtuallog_database.hosting import HostSettings, Life
from virtuallog_database.kv.database import UpkeepSettings
from virtuallog_database.replica import ReplicaSettings
from virtuallog_database.snapshots.place import Place
from virtuallog_database.snapshots.policy import SnapshotSettings
from virtuallog_server.node import Node
from virtuallog_server.zookeeper.settings import ZooKeeperSettings
from virtuallog_simulation.world.cluster import Cluster
from virtuallog_simulation.world.machine import MachinePorts
from virtuallog_simulation.world.world import World
from virtuallog_simulation.zelos.connection import Dial
from virtuallog_simulation.zelos.inside import Inside, Manner
from virtuallog_simulation.zelos.streams import WithClients, address_of, node_at
from virtuallog_simulation.zelos.witness import Witness

ZOOKEEPER: Final = ZooKeeperSettings(session_timeout_min_ms=1000)
STACK: Final = StackSettings(
    base=BaseSettings(follow_pause=0.05, follow_burst=4, trim_pause=0.3),
    view=ViewSettings(announce_seconds=0.4, eject_seconds=4.0),
    checksums=ChecksumSettings(period_seconds=3.0, first_seconds=1.0),
)
SNAPSHOTS: Final = SnapshotSettings(log_bytes=2 << 10, seconds=3.0, seconds_min=0.3)
"""Some in every run, so that the log is trimmed under those who are away."""


UPKEEP: Final = UpkeepSettings(reap_seconds=1.0)
DRIFT: Final = 0.3
"""That of the worst clocks that a nemesis makes. The lease must be told; by default it trusts clocks more."""
LEASE_SECONDS: Final = 1.5


@attrs.frozen
class Engines:
    """Which engines a run has that are off at first."""

    enabled: tuple[str, ...]
    wanting: frozenset[NodeId]
    """Who tries to have the lease."""
    drift: float = DRIFT
    """That the lease is told of."""

    @classmethod
    def draw(cls, source: random.Random, nodes: Sequence[NodeId]) -> Engines:
        enabled = tuple(name for name in (Lease.name, Time.name) if source.random() < 0.6)
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
class Servers:
    """Give `prepare` to a cluster as its `on_node`."""

    world: World
    witness: Witness
    engines: Engines
    quality: StreamQuality
    count: Callable[[str], None]
    """Told of what was reached."""
    places: Sequence[Place] = ()
    """Where a store can be begun with."""
    manner: Manner = attrs.field(factory=Manner)
    """Of the programs beside them."""
    settings: ZooKeeperSettings = ZOOKEEPER
    streams: ByteStreams = attrs.field(init=False)
    lives: dict[NodeId, Life] = attrs.field(factory=dict, init=False)
    """The newest life of each replica; none while its node has not opened it."""
    _numbers: Iterator[int] = attrs.field(factory=lambda: count(1), init=False)

    def __attrs_post_init__(self) -> None:
        source = self.world.random("client streams")
        self.streams = ByteStreams(self.world.network, source, node_at, self.quality)

    def start(self, cluster: Cluster) -> None:
        """Before the cluster starts, and once it has drawn its transport."""
        self.world.transport = WithClients(self.world.transport, self.streams)
        cluster.zookeeper, cluster.on_node = self.settings, self.prepare

    def prepare(self, node: Node, ports: MachinePorts, nursery: trio.Nursery) -> None:
        """Let it listen to clients, too, and put a program beside it."""
        assert node.database is not None
        process = ports.process
        settings = self.engines.settings(process.node, self.witness)
        node.database.settings = attrs.evolve(settings, places=self.places)
        who = f"inside {process.node}.{process.boot}"
        inside = Inside(
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

    def _begin(self, node: NodeId, inside: Inside, life: Life) -> None:
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
        """How a client on this process connects to each of them."""
        return [partial(self.streams.connect, process, address_of(node)) for node in nodes]
