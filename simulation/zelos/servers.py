"""A cluster whose nodes are servers of a Zelos: the product's own, with small thresholds, and a witness on top of their stacks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import attrs
import trio

from database.engines.base import BaseSettings
from database.engines.checksums import ChecksumSettings
from database.engines.stack import StackSettings
from database.engines.view_tracking import ViewSettings
from database.hosting import HostSettings
from database.replica import ReplicaSettings
from database.snapshots.policy import SnapshotSettings
from server.node import Node
from server.zookeeper.settings import ZooKeeperSettings
from simulation.world.cluster import Cluster
from simulation.world.machine import MachinePorts
from simulation.world.world import World
from simulation.zelos.connection import Dial
from simulation.zelos.streams import WithClients, address_of, node_at
from simulation.zelos.witness import Witness
from virtuallog.testing.byte_streams import ByteStreams, StreamQuality
from virtuallog.testing.process import Process
from virtuallog.types import NodeId

ZOOKEEPER: Final = ZooKeeperSettings(session_timeout_min_ms=1000)
STACK: Final = StackSettings(
    base=BaseSettings(follow_pause=0.05, trim_pause=0.3),
    view=ViewSettings(announce_seconds=0.4, eject_seconds=4.0),
    checksums=ChecksumSettings(period_seconds=3.0, first_seconds=1.0),
)
SNAPSHOTS: Final = SnapshotSettings(log_bytes=2 << 10, seconds=3.0, seconds_min=0.3)
"""Some in every run, so that the log is trimmed under those who are away."""


def host_settings(witness: Witness) -> HostSettings:
    """Small ones."""
    return HostSettings(replica=ReplicaSettings(recipe=witness.recipe, stack=STACK), snapshots=SNAPSHOTS)


@attrs.define(eq=False)
class Servers:
    """Give `prepare` to a cluster as its `on_node`."""

    world: World
    settings: HostSettings
    quality: StreamQuality
    streams: ByteStreams = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        source = self.world.random("client streams")
        self.streams = ByteStreams(self.world.network, source, node_at, self.quality)

    def start(self, cluster: Cluster) -> None:
        """Before the cluster starts, and once it has drawn its transport."""
        self.world.transport = WithClients(self.world.transport, self.streams)
        cluster.zookeeper, cluster.on_node = ZOOKEEPER, self.prepare

    def prepare(self, node: Node, ports: MachinePorts, nursery: trio.Nursery) -> None:
        """Let it listen to clients, too."""
        assert node.database is not None
        node.database.settings = self.settings
        nursery.start_soon(self._listen, node, ports.process)

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
