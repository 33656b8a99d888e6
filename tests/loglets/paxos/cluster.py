"""A small cluster for tests of the whole PaxosLoglet; see `tests.loglets.cluster`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs

from tests.loglets.cluster import SEGMENT, LogletCluster, Node, running, writer
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.ports import DurableMap
from virtuallog.contract.types import GapKind, LogletOffset, NodeId, PlacedBatch
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.key_values import SimulatedKeyValuesDisk
from virtuallog.testing.sim.network import LinkQuality
from virtuallog.testing.sim.process import Process
from virtuallog_loglets.paxos.config import PaxosConfig
from virtuallog_loglets.paxos.loglet import PaxosLoglet
from virtuallog_loglets.paxos.provider import PaxosProvider

__all__ = ["SEGMENT", "Cluster", "payloads_of", "read_all", "running_cluster", "writer"]


@attrs.define(eq=False)
class Cluster(LogletCluster[PaxosProvider, PaxosConfig]):
    """Nodes 1 to N, each of which can be a replica, and as many clients as asked for."""

    def create(self, replicas: int = 3, coordinator: int = 1, segment: SegmentId = SEGMENT) -> PaxosConfig:
        """Put a loglet into the chain."""
        ids = tuple(NodeId(n + 1) for n in range(replicas))
        self.chain[segment] = PaxosConfig(replicas=ids, coordinator=NodeId(coordinator))
        return self.chain[segment]

    def client(self, segment: SegmentId = SEGMENT) -> PaxosLoglet:
        """A client in a process of its own."""
        return PaxosLoglet(segment, self.chain[segment], self.environment())

    def provider(self) -> PaxosProvider:
        return PaxosProvider()

    def segment_config(self, segment: SegmentId) -> tuple[str, bytes]:
        """Also by the id under which nodes keep the entries, as on real nodes."""
        origins = {config.loglet: config for config in self.chain.values() if config.loglet is not None}
        return "paxos", (self.chain.get(segment) or origins[segment]).encode()

    def disks(self, node: Node[PaxosProvider], process: Process, clock: SimulatedClock) -> dict[str, Any]:
        async def key_values(_name: str) -> DurableMap:
            opened: DurableMap = node.disk.open(process, clock)
            return opened

        async def storage(_name: str) -> Any:
            raise AssertionError("a replica has no files")

        return {"key_values": key_values, "storage": storage}


@asynccontextmanager
async def running_cluster(nodes: int = 3, seed: int = 1, quality: LinkQuality | None = None) -> AsyncIterator[Cluster]:
    """A running cluster of nodes."""
    async with running(
        Cluster, lambda source, _: SimulatedKeyValuesDisk(source), nodes=nodes, seed=seed, quality=quality
    ) as cluster:
        yield cluster


async def read_all(loglet: PaxosLoglet, stop: int, start: int = 0) -> list[bytes]:
    """Payloads in [start, stop), where nothing is trimmed or lost."""
    payloads: list[bytes] = []
    at = start
    while at < stop:
        for item in await loglet.read(LogletOffset(at), LogletOffset(stop), 1 << 16):
            assert item.start == at
            at = item.stop
            if isinstance(item, PlacedBatch):
                payloads += [record.payload for record in item.records()]
            else:
                assert item.kind is GapKind.FILLER
    return payloads


async def payloads_of(loglet: PaxosLoglet) -> list[bytes]:
    """All that is in the log, in order."""
    return await read_all(loglet, (await loglet.check_tail()).tail)
