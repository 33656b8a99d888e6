"""The kind `paxos`: plans replicated logs, opens clients, runs the roles of a node and moves closed logs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

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
from virtuallog_loglets.paxos import diagnosis, planner, wire
from virtuallog_loglets.paxos.config import KIND, decode_untrusted
from virtuallog_loglets.paxos.drivers.coordinator_service import CoordinatorService
from virtuallog_loglets.paxos.drivers.local_replica import LocalReplica
from virtuallog_loglets.paxos.drivers.replica_maintenance import maintain_replica
from virtuallog_loglets.paxos.drivers.replica_service import ReplicaService
from virtuallog_loglets.paxos.drivers.rereplication import PIECE_BYTES, PaxosRereplication
from virtuallog_loglets.paxos.loglet import PaxosLoglet
from virtuallog_loglets.paxos.metrics import leader_families


@attrs.define(eq=False)
class PaxosProvider:
    """Provider of paxos loglets. One object serves at most one node.

    Implements `LogletProvider` and `ReplicatedProvider` of `virtuallog.contract.provider`.
    """

    color: ClassVar = "orange"
    trials: ClassVar[Mapping[str, Mapping[str, str]]] = {"paxos": {"servers": "1,2,3"}}
    crash_area: ClassVar = "replicas, coordinators and clients of a paxos loglet"

    piece_bytes: int = PIECE_BYTES
    """Bytes of a closed log that are copied in one step."""
    _replicas: ReplicaService | None = attrs.field(default=None, init=False)
    _coordinators: CoordinatorService | None = attrs.field(default=None, init=False)

    @property
    def kind(self) -> str:
        return KIND

    @property
    def settings(self) -> Mapping[str, str]:
        """Settings and their help texts; see `virtuallog.contract.provider.SupportsSettings`."""
        return planner.SETTINGS

    @property
    def contiguous(self) -> bool:
        return False

    @property
    def interfaces(self) -> Sequence[Interface]:
        return (wire.REPLICA, wire.COORDINATOR)

    @property
    def replicas(self) -> ReplicaService | None:
        """Replicas of this node, for tools that inspect them; None before `serve` has started them."""
        return self._replicas

    @property
    def coordinators(self) -> CoordinatorService | None:
        """Coordinators of this node, for tools that inspect them; None before `serve` has started them."""
        return self._coordinators

    def metrics(self) -> Sequence[MetricFamily]:
        """Metrics of this node's roles; empty before `serve`.

        See `virtuallog.contract.metrics.MetricsSource`.
        """
        replicas = self._replicas.metrics() if self._replicas is not None else []
        return [
            *replicas,
            *(leader_families(self._coordinators.positions_in_flight) if self._coordinators is not None else []),
        ]

    def plan(self, cluster: Cluster, settings: Mapping[str, str], previous: bytes | None) -> bytes:
        return planner.plan(cluster, settings, previous).encode()

    def describe(self, config: bytes) -> Mapping[str, Any]:
        decoded = decode_untrusted(config)
        moved = {} if decoded.loglet is None else {"loglet": str(decoded.loglet)}
        return {**decoded.others, "replicas": list(decoded.replicas), "coordinator": decoded.coordinator, **moved}

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> Loglet:
        decoded = decode_untrusted(config)
        return PaxosLoglet(decoded.loglet or segment, decoded, environment)

    async def serve(self, environment: NodeEnvironment) -> Handlers:
        """Run both roles, replica and coordinator: the node of any replica may lead."""
        coordinators = CoordinatorService(environment, self._require_replicas)

        def made(replica: LocalReplica) -> None:
            coordinators.made(replica)
            environment.nursery.start_soon(maintain_replica, replica, replica.ensemble, environment)

        self._coordinators = coordinators
        self._replicas = await ReplicaService.start(environment, made)
        return {**self._replicas.handlers, **coordinators.handlers}

    async def forget(self, lowest_live_version: int) -> None:
        if self._coordinators is not None:
            self._coordinators.forget(lowest_live_version)
        if self._replicas is not None:
            await self._replicas.forget(lowest_live_version)

    async def sweep_loglets(self, horizon: int, live: Collection[SegmentId]) -> None:
        """Drop dead loglets, recreate lost replicas; see `virtuallog.contract.provider.SupportsSweep`."""
        if self._coordinators is not None:
            self._coordinators.sweep_loglets(horizon, live)
        if self._replicas is not None:
            await self._replicas.sweep_loglets(horizon, live)
            await self._replicas.recreate_lost(live)
            await self._replicas.refresh_holders(live)

    async def explain(self, segment: SegmentId, config: bytes, environment: Environment) -> Sequence[Evidence]:
        """Evidence about the loglet; see `virtuallog.contract.provider.SupportsDiagnosis`."""
        decoded = decode_untrusted(config)
        return await diagnosis.explain(decoded.loglet or segment, decoded, environment)

    def _require_replicas(self) -> ReplicaService:
        assert self._replicas is not None, "no request is served before `serve` has returned"
        return self._replicas

    # -- closed loglets on other nodes ----------------------------------------------------------------------------

    def placement(self, config: bytes) -> Placement:
        """Nodes that hold the loglet. Any replica may order, so no single node has to be replaced at once."""
        return Placement(groups=(decode_untrusted(config).replicas,), role=planner.REPLICA)

    def loglets(self, segment: SegmentId, config: bytes) -> RetainedLoglets:
        return {decode_untrusted(config).loglet or segment: (self.kind, config)}

    async def partial_copies(self, segment: SegmentId, config: bytes, environment: Environment) -> Collection[NodeId]:
        """Replicas that recover, wait for a copy or do not answer; see `virtuallog.contract.provider.ReportsPartialCopies`."""
        decoded = decode_untrusted(config)
        return await diagnosis.partial_replicas(decoded.loglet or segment, decoded, environment)

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
        newcomers_first = sorted(decode_untrusted(target).replicas, key=former.__contains__)
        for server in newcomers_first:
            copying = PaxosRereplication(loglet, former, server, stop, environment, pace, self.piece_bytes)
            await (copying.complete() if server in former else copying.run())
