"""A small cluster of raft replicas; see `tests.loglets.cluster`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs

from tests.loglets.cluster import CLIENT, SEGMENT, LogletCluster, Node, Writer, running, writer
from tests.loglets.native.cluster import LARGE_WAL, SMALL_WAL
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.disk import Disk, DiskFaults
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_loglets.raft import RaftProvider
from virtuallog_loglets.raft.config import RaftConfig
from virtuallog_loglets.raft.core.replica import RaftReplica
from virtuallog_loglets.raft.core.transitions import RaftRole
from virtuallog_loglets.raft.loglet import RaftLoglet
from virtuallog_loglets.wal import WalSettings

__all__ = ["CLIENT", "LARGE_WAL", "SEGMENT", "SMALL_WAL", "Cluster", "Node", "Writer", "running_cluster", "writer"]


@attrs.define(eq=False)
class Cluster(LogletCluster[RaftProvider, RaftConfig]):
    """Nodes 1 to N, each a replica, and as many clients as asked for."""

    wal_settings: WalSettings

    def create(self, replicas: int = 3, leader: int = 1, segment: SegmentId = SEGMENT, first: int = 1) -> RaftConfig:
        """Put a loglet into the chain, on nodes from `first` on."""
        ids = tuple(NodeId(first + n) for n in range(replicas))
        boot = self.nodes[NodeId(leader)].boot
        self.chain[segment] = RaftConfig(replicas=ids, leader=NodeId(leader), boot=boot)
        return self.chain[segment]

    def client(self, segment: SegmentId = SEGMENT) -> RaftLoglet:
        """A client in a process of its own."""
        return RaftLoglet(segment, self.chain[segment], self.environment())

    def provider(self) -> RaftProvider:
        return RaftProvider(self.wal_settings)

    def segment_config(self, segment: SegmentId) -> tuple[str, bytes]:
        return "raft", self.chain[segment].encode()

    def replica(self, node: int, segment: SegmentId = SEGMENT) -> RaftReplica:
        """The core of a replica."""
        provider = self.nodes[NodeId(node)].provider
        assert provider is not None and provider.replicas is not None
        return provider.replicas.drivers[segment].replica

    def leader(self, segment: SegmentId = SEGMENT) -> int:
        """The node that leads in the highest term; 0 if none does."""
        leaders = [(0, 0)]
        for node in self.nodes.values():
            service = node.provider.replicas if node.provider is not None else None
            driver = service.drivers.get(segment) if service is not None else None
            if driver is not None and driver.replica.role is RaftRole.LEADER:
                leaders.append((driver.replica.state.term, int(node.id)))
        return max(leaders)[1]


@asynccontextmanager
async def running_cluster(
    nodes: int = 3,
    seed: int = 1,
    quality: LinkQuality | None = None,
    faults: DiskFaults | None = None,
    wal_settings: WalSettings = SMALL_WAL,
) -> AsyncIterator[Cluster]:
    """A cluster whose nodes serve."""
    async with running(
        lambda nursery, network, source: Cluster(nursery, network, source, wal_settings),
        lambda source, clock: Disk(source, faults, clock),
        nodes=nodes,
        seed=seed,
        quality=quality,
    ) as cluster:
        yield cluster
