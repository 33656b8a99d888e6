"""A small cluster for the driver tests; see `tests.loglets.cluster`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs

from tests.loglets.cluster import CLIENT, SEGMENT, LogletCluster, Node, Writer, running, writer
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.types import LogletOffset, NodeId, PlacedBatch
from virtuallog.testing.sim.disk import Disk, DiskFaults
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_loglets.native import NativeProvider
from virtuallog_loglets.native.config import NativeConfig
from virtuallog_loglets.native.loglet import NativeLoglet
from virtuallog_loglets.wal import WalSettings

__all__ = ["CLIENT", "SEGMENT", "Cluster", "Node", "Writer", "read_all", "running_cluster", "writer"]

SMALL_WAL = WalSettings(
    segment_bytes=32 << 10, record_bytes_max=8 << 10, group_bytes_max=16 << 10, queue_bytes_max=1 << 20,
    headroom_bytes=4 << 10,
)  # fmt: skip
"""Segments of 32 KiB, so that a test fills some."""

LARGE_WAL = WalSettings(
    segment_bytes=24 << 20, record_bytes_max=9 << 20, group_bytes_max=10 << 20, queue_bytes_max=20 << 20,
    headroom_bytes=1 << 20,
)  # fmt: skip
"""Takes the largest batches there are."""


@attrs.define(eq=False)
class Cluster(LogletCluster[NativeProvider, NativeConfig]):
    """Nodes 1 to N, each with both roles, and as many clients as asked for."""

    wal_settings: WalSettings

    def create(
        self, servers: int = 3, sequencer: int = 1, segment: SegmentId = SEGMENT, first: int = 1
    ) -> NativeConfig:
        """Put a loglet into the chain, on nodes from `first` on."""
        ids = tuple(NodeId(first + n) for n in range(servers))
        boot = self.nodes[NodeId(sequencer)].boot
        self.chain[segment] = NativeConfig(servers=ids, sequencer=NodeId(sequencer), boot=boot)
        return self.chain[segment]

    def client(self, segment: SegmentId = SEGMENT) -> NativeLoglet:
        """A client in a process of its own."""
        return NativeLoglet(segment, self.chain[segment], self.environment())

    def provider(self) -> NativeProvider:
        return NativeProvider(self.wal_settings)

    def segment_config(self, segment: SegmentId) -> tuple[str, bytes]:
        return "native", self.chain[segment].encode()


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


async def read_all(loglet: NativeLoglet, start: int, stop: int) -> list[bytes]:
    """Payloads in [start, stop), which must hold nothing but data."""
    payloads: list[bytes] = []
    at = start
    while at < stop:
        for placed in await loglet.read(LogletOffset(at), LogletOffset(stop), 1 << 16):
            assert isinstance(placed, PlacedBatch), placed
            assert placed.start == at
            payloads += [record.payload for record in placed.records()]
            at = placed.stop
    return payloads
