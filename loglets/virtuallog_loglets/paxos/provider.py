"""Replicated logs as a pluggable kind: plans them, opens clients of them, runs their roles on nodes, moves closed ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attrs

from virtuallog.api import Cluster, Loglet
from virtuallog.chain import SegmentId
from virtuallog.explaining import Evidence
from virtuallog.kept import Kept
from virtuallog.metrics import Family
from virtuallog.ports import Environment, Handlers, NodeEnvironment
from virtuallog.replicated import Pace, Placement
from virtuallog.rpc.interface import Interface
from virtuallog.types import LogletOffset, NodeId
from virtuallog_loglets.paxos import explaining, planner, wire
from virtuallog_loglets.paxos.config import KIND, decode_untrusted
from virtuallog_loglets.paxos.coordinator_service import CoordinatorService
from virtuallog_loglets.paxos.copying import PIECE_BYTES, Copying
from virtuallog_loglets.paxos.keeper import keep
from virtuallog_loglets.paxos.loglet import PaxosLoglet
from virtuallog_loglets.paxos.metrics import leading
from virtuallog_loglets.paxos.replica_service import LocalReplica, ReplicaService


@attrs.define(eq=False)
class PaxosProvider:
    """See `virtuallog.api.LogletProvider` and `virtuallog.replicated.ReplicatedProvider`. One object serves at most one node."""

    piece_bytes: int = PIECE_BYTES
    """How much of a closed log is copied in one step."""
    _replicas: ReplicaService | None = attrs.field(default=None, init=False)
    _coordinators: CoordinatorService | None = attrs.field(default=None, init=False)

    @property
    def kind(self) -> str:
        return KIND

    @property
    def settings(self) -> Mapping[str, str]:
        """See `virtuallog.planning.TellsSettings`."""
        return planner.SETTINGS

    @property
    def contiguous(self) -> bool:
        return False

    @property
    def interfaces(self) -> Sequence[Interface]:
        return (wire.REPLICA, wire.COORDINATOR)

    @property
    def replicas(self) -> ReplicaService | None:
        """This node's replicas, once `serve` has started them: for tools that look inside."""
        return self._replicas

    @property
    def coordinators(self) -> CoordinatorService | None:
        """The same of its coordinators."""
        return self._coordinators

    def metrics(self) -> Sequence[Family]:
        """Of this node's roles, once `serve` has started them. See `virtuallog.metrics.Measured`."""
        replicas = self._replicas.metrics() if self._replicas is not None else []
        return [*replicas, *(leading(self._coordinators.positions_in_flight) if self._coordinators is not None else [])]

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
        """Both roles: a node is named in a config as a replica, and any replica's node may lead."""
        coordinators = CoordinatorService(environment, self._require_replicas)

        def made(replica: LocalReplica) -> None:
            coordinators.made(replica)
            environment.nursery.start_soon(keep, replica, replica.ensemble, environment)

        self._coordinators = coordinators
        self._replicas = await ReplicaService.start(environment, made)
        return {**self._replicas.handlers, **coordinators.handlers}

    async def forget(self, lowest_live_version: int) -> None:
        if self._coordinators is not None:
            self._coordinators.forget(lowest_live_version)
        if self._replicas is not None:
            await self._replicas.forget(lowest_live_version)

    async def forget_others(self, horizon: int, live: Collection[SegmentId]) -> None:
        """See `virtuallog.dropped.ForgetsOthers`."""
        if self._coordinators is not None:
            self._coordinators.forget_others(horizon, live)
        if self._replicas is not None:
            await self._replicas.forget_others(horizon, live)
            await self._replicas.make_lost(live)
            await self._replicas.follow_moved(live)

    async def explain(self, segment: SegmentId, config: bytes, environment: Environment) -> Sequence[Evidence]:
        """See `virtuallog.explaining.ExplainsLoglets`."""
        decoded = decode_untrusted(config)
        return await explaining.explain(decoded.loglet or segment, decoded, environment)

    def _require_replicas(self) -> ReplicaService:
        assert self._replicas is not None, "no request is served before `serve` has returned"
        return self._replicas

    # -- closed loglets on other nodes ----------------------------------------------------------------------------

    def placement(self, config: bytes) -> Placement:
        """Any replica may order, so nobody has to be replaced at once."""
        return Placement(groups=(decode_untrusted(config).replicas,), role=planner.REPLICA)

    def loglets(self, segment: SegmentId, config: bytes) -> Kept:
        return {decode_untrusted(config).loglet or segment: (self.kind, config)}

    async def partial_copies(self, segment: SegmentId, config: bytes, environment: Environment) -> Collection[NodeId]:
        """See `virtuallog.replicated.TellsPartialCopies`: replicas that recover, wait for a copy, or do not answer."""
        decoded = decode_untrusted(config)
        return await explaining.partial(decoded.loglet or segment, decoded, environment)

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
            copying = Copying(loglet, former, server, stop, environment, pace, self.piece_bytes)
            await (copying.complete() if server in former else copying.run())
