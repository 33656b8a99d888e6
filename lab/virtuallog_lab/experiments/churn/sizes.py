"""Sizes of a database server on disk, and the positions of its log and its snapshots, polled now
and then."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.ports import Clock, Services
from virtuallog.contract.types import NodeId
from virtuallog_database.control.messages import DatabaseStatus, GetDatabaseStatus
from virtuallog_lab.experiments.growth.stages import resident_bytes
from virtuallog_server.local_cluster.supervisor import LocalCluster, LocalNode

STATUS_SECONDS: Final = 5.0


@attrs.frozen(kw_only=True)
class NodeSizes:
    """One server."""

    node: NodeId
    log_bytes: int
    """Bytes of its loglets, preallocated segments of the write-ahead log included."""
    store_bytes: int
    """Bytes of the database: the live store and its snapshots, each file once."""
    resident_bytes: int
    state: str
    cursor: int
    snapshot: int


@attrs.frozen(kw_only=True)
class ClusterSizes:
    """All servers at one moment."""

    at: float
    """Seconds since the start."""
    writes: int
    """Acknowledged so far."""
    trim_point: int
    """Position where the log begins."""
    nodes: Sequence[NodeSizes]

    def most(self, name: str) -> int:
        """The largest of all servers."""
        return max(int(getattr(node, name)) for node in self.nodes)

    def least(self, name: str) -> int:
        return min(int(getattr(node, name)) for node in self.nodes)


@attrs.define(eq=False)
class SizeObserver:
    """Looks at a cluster that is under load."""

    cluster: LocalCluster
    services: Services
    log: VirtualLog
    clock: Clock
    began: float
    looks: list[ClusterSizes] = attrs.field(factory=list, init=False)

    async def look(self, writes: int) -> ClusterSizes:
        """Look now."""
        try:
            trim_point = int(await self.log.find_trim_point())
        except UnavailableError:  # a server is down, and others are busy
            trim_point = self.looks[-1].trim_point if self.looks else 0
        found: dict[NodeId, NodeSizes] = {}
        async with trio.open_nursery() as nursery:
            for node in self.cluster.nodes.values():
                nursery.start_soon(self._look_at, node, found)
        nodes = [found[node] for node in sorted(found)]
        at = self.clock.monotonic() - self.began
        look = ClusterSizes(at=at, writes=writes, trim_point=trim_point, nodes=nodes)
        self.looks.append(look)
        return look

    async def _look_at(self, node: LocalNode, found: dict[NodeId, NodeSizes]) -> None:
        try:
            status = await self.services.call(node.id, GetDatabaseStatus(), STATUS_SECONDS)
        except VirtualLogError:
            status = DatabaseStatus(state="silent")
        data = node.config.data
        found[node.id] = NodeSizes(
            node=node.id,
            log_bytes=taken_bytes(data / "storage") + taken_bytes(data / "values"),
            store_bytes=taken_bytes(data / "stores"),
            resident_bytes=resident_bytes(node.pid),
            state=status.state,
            cursor=status.cursor,
            snapshot=status.snapshot,
        )


def taken_bytes(directory: Path) -> int:
    """Disk bytes of all files below; a file with several names counts once."""
    taken: dict[int, int] = {}
    for file in directory.rglob("*"):
        try:
            state = file.stat()
        except FileNotFoundError:  # it has just been dropped
            continue
        taken[state.st_ino] = state.st_blocks * 512
    return sum(taken.values())
