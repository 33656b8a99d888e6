"""The kind `raft`: plans replicated logs, opens clients, runs the replicas of a node, moves closed loglets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Final

import attrs

from virtuallog.contract.capnp_interface import Interface
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.diagnosis import Evidence
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.placement import Cluster, Placement
from virtuallog.contract.ports import Environment, Handlers, NodeEnvironment
from virtuallog.contract.provider import Pace, RetainedLoglets
from virtuallog.contract.types import LogletOffset, NodeId
from virtuallog.contract.versions import RAFT
from virtuallog_loglets.raft import diagnosis, planner, wire
from virtuallog_loglets.raft.config import KIND, RaftLimits, decode_untrusted
from virtuallog_loglets.raft.drivers.replica_service import RaftService
from virtuallog_loglets.raft.drivers.rereplication import RaftRereplication
from virtuallog_loglets.raft.loglet import RaftLoglet
from virtuallog_loglets.raft.metrics import replica_families
from virtuallog_loglets.wal import WalSettings

RAFT_WAL: Final = WalSettings(
    segment_bytes=16 << 20, record_bytes_max=10 << 20, group_bytes_max=11 << 20, queue_bytes_max=64 << 20,
    headroom_bytes=1 << 20, begins_late=True,
)  # fmt: skip
"""Small segments: the first one is made when a node gets its first replica, while its log waits."""


@attrs.define(eq=False)
class RaftProvider:
    """`LogletProvider` and `ReplicatedProvider` of raft loglets (`virtuallog.contract.provider`).

    One object serves at most one node.
    """

    color: ClassVar = "green"
    trials: ClassVar[Mapping[str, Mapping[str, str]]] = {"raft": {"servers": "1,2,3"}}
    crash_area: ClassVar = "replicas and clients of a raft loglet"

    wal_settings: WalSettings = RAFT_WAL
    """Settings of the WAL of this node's replicas."""
    limits: RaftLimits = attrs.field(factory=RaftLimits)
    """Limits of what they write and send at once."""
    _replicas: RaftService | None = attrs.field(default=None, init=False)
    _led: set[SegmentId] = attrs.field(factory=set, init=False)
    """Loglets whose replica this process has made: it leads their first term at most once."""

    @property
    def kind(self) -> str:
        return KIND

    @property
    def since(self) -> int:
        """See `virtuallog.contract.provider.RequiresVersion`."""
        return RAFT

    @property
    def settings(self) -> Mapping[str, str]:
        """See `virtuallog.contract.provider.SupportsSettings`."""
        return planner.SETTINGS

    @property
    def contiguous(self) -> bool:
        return True

    @property
    def interfaces(self) -> Sequence[Interface]:
        return (wire.PEER, wire.REPLICA)

    @property
    def replicas(self) -> RaftService | None:
        """Replicas of this node, for tools that inspect them; None before `serve` has started them."""
        return self._replicas

    def metrics(self) -> Sequence[MetricFamily]:
        """Metrics of this node's replicas; empty before `serve`. See `virtuallog.contract.metrics.MetricsSource`."""
        return replica_families(self._replicas) if self._replicas is not None else []

    def plan(self, cluster: Cluster, settings: Mapping[str, str], previous: bytes | None) -> bytes:
        return planner.plan(cluster, settings, previous).encode()

    def describe(self, config: bytes) -> Mapping[str, Any]:
        return decode_untrusted(config).fields

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> Loglet:
        decoded = decode_untrusted(config)
        return RaftLoglet(decoded.loglet or segment, decoded, environment)

    async def serve(self, environment: NodeEnvironment) -> Handlers:
        """Start the replicas of the node. May be called again once the tasks of the former call have ended."""
        self._replicas = await RaftService.start(environment, self.wal_settings, self._led, self.limits)
        return self._replicas.handlers

    async def forget(self, lowest_live_version: int) -> None:
        if self._replicas is not None:
            await self._replicas.forget(lowest_live_version)

    async def sweep_loglets(self, horizon: int, live: Collection[SegmentId]) -> None:
        """See `virtuallog.contract.provider.SupportsSweep`."""
        if self._replicas is not None:
            await self._replicas.sweep_loglets(horizon, live)

    async def explain(self, segment: SegmentId, config: bytes, environment: Environment) -> Sequence[Evidence]:
        """See `virtuallog.contract.provider.SupportsDiagnosis`."""
        decoded = decode_untrusted(config)
        return await diagnosis.explain(decoded.loglet or segment, decoded, environment)

    # -- closed loglets on other nodes ----------------------------------------------------------------------------

    def placement(self, config: bytes) -> Placement:
        """Nodes that hold the loglet. Any replica may lead, so no single node has to be replaced at once."""
        return Placement(groups=(decode_untrusted(config).replicas,), role=planner.REPLICA)

    def loglets(self, segment: SegmentId, config: bytes) -> RetainedLoglets:
        return {decode_untrusted(config).loglet or segment: (self.kind, config)}

    def move(self, segment: SegmentId, config: bytes, servers: tuple[NodeId, ...]) -> bytes:
        return planner.move(segment, decode_untrusted(config), servers).encode()

    async def replicate(
        self,
        segment: SegmentId,
        config: bytes,
        target: bytes,
        stop: LogletOffset,
        environment: Environment,
        pace: Pace,
        lost: Collection[NodeId] = (),
    ) -> None:
        decoded = decode_untrusted(config)
        loglet, former = decoded.loglet or segment, [replica for replica in decoded.replicas if replica not in lost]
        for newcomer in decode_untrusted(target).replicas:
            if newcomer not in former:
                await RaftRereplication(loglet, former, newcomer, environment, pace, self.limits.piece_bytes).run()
