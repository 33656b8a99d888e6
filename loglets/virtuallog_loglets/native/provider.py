"""Provider of NativeLoglets: plans them, opens clients, runs their roles on nodes, moves closed
ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import attrs

from virtuallog.contract.capnp_interface import Interface
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.diagnosis import Evidence
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.placement import Cluster, Placement, SequencerId
from virtuallog.contract.ports import Environment, Handlers, NodeEnvironment
from virtuallog.contract.provider import Pace, RetainedLoglets
from virtuallog.contract.types import LogletOffset, NodeId
from virtuallog_loglets.native import diagnosis, planner, wire
from virtuallog_loglets.native.config import TransferLimits, decode_untrusted
from virtuallog_loglets.native.drivers.log_server_service import LogServerService
from virtuallog_loglets.native.drivers.rereplication import NativeRereplication
from virtuallog_loglets.native.drivers.sequencer_service import SequencerService
from virtuallog_loglets.native.loglet import NativeLoglet
from virtuallog_loglets.wal import WalSettings


@attrs.define(eq=False)
class NativeProvider:
    """`LogletProvider` and `ReplicatedProvider` of the native kind
    (`virtuallog.contract.provider`).

    One object serves at most one node.
    """

    color: ClassVar = "blue"
    trials: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "native": {"servers": "1,2,3"},
        "disaggregated": {"servers": "4,5,6"},
    }
    crash_area: ClassVar = "LogServers, sequencers and clients of a NativeLoglet"

    wal_settings: WalSettings = attrs.field(factory=WalSettings)
    """Settings of the WAL of this node's log server."""
    pieces: TransferLimits = attrs.field(factory=TransferLimits)
    _log_server: LogServerService | None = attrs.field(default=None, init=False)
    _sequencers: SequencerService | None = attrs.field(default=None, init=False)

    @property
    def kind(self) -> str:
        return "native"

    @property
    def settings(self) -> Mapping[str, str]:
        """See `virtuallog.contract.provider.SupportsSettings`."""
        return planner.SETTINGS

    @property
    def contiguous(self) -> bool:
        return True

    @property
    def interfaces(self) -> Sequence[Interface]:
        return (wire.LOG_SERVER, wire.SEQUENCER)

    @property
    def log_server(self) -> LogServerService | None:
        """This node's log server, for tools that inspect it; None until `serve` has started it."""
        return self._log_server

    def metrics(self) -> Sequence[MetricFamily]:
        """Metrics of this node's roles; empty until `serve` has started them. See
        `virtuallog.contract.metrics.MetricsSource`."""
        sequencers = self._sequencers.metrics() if self._sequencers is not None else []
        return [*sequencers, *(self._log_server.metrics() if self._log_server is not None else [])]

    def plan(self, cluster: Cluster, settings: Mapping[str, str], previous: bytes | None) -> bytes:
        return planner.plan(cluster, settings, previous).encode()

    def describe(self, config: bytes) -> Mapping[str, Any]:
        decoded = decode_untrusted(config)
        moved = {} if decoded.loglet is None else {"loglet": str(decoded.loglet)}
        known = {"servers": list(decoded.servers), "sequencer": decoded.sequencer, "boot": decoded.boot}
        return {**decoded.others, **known, **moved}

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> Loglet:
        decoded = decode_untrusted(config)
        return NativeLoglet(decoded.loglet or segment, decoded, environment, self.pieces)

    async def serve(self, environment: NodeEnvironment) -> Handlers:
        """Start both roles, log server and sequencers. A config never names this node for a role
        that it does not have.

        May be called again once the tasks of the former call have ended. The sequencers that ran
        then stay stopped, as if the process had been restarted.
        """
        self._log_server = await LogServerService.start(environment, self.wal_settings)
        if self._sequencers is None:
            self._sequencers = SequencerService(environment, self.pieces)
        else:
            self._sequencers.begin_anew(environment)
        return {**self._log_server.handlers, **self._sequencers.handlers}

    async def forget(self, lowest_live_version: int) -> None:
        if self._sequencers is not None:
            self._sequencers.forget(lowest_live_version)
        if self._log_server is not None:
            await self._log_server.forget(lowest_live_version)

    async def sweep_loglets(self, horizon: int, live: Collection[SegmentId]) -> None:
        """See `virtuallog.contract.provider.SupportsSweep`."""
        if self._sequencers is not None:
            self._sequencers.sweep_loglets(horizon, live)
        if self._log_server is not None:
            await self._log_server.sweep_loglets(horizon, live)

    async def explain(self, segment: SegmentId, config: bytes, environment: Environment) -> Sequence[Evidence]:
        """See `virtuallog.contract.provider.SupportsDiagnosis`."""
        decoded = decode_untrusted(config)
        return await diagnosis.explain(decoded.loglet or segment, decoded, environment)

    # -- closed loglets on other servers --------------------------------------------------------------------------

    def placement(self, config: bytes) -> Placement:
        decoded = decode_untrusted(config)
        sequencer = SequencerId(decoded.sequencer, decoded.boot)
        return Placement(groups=(decoded.servers,), role=planner.LOG_SERVER, sequencers=(sequencer,))

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
        loglet, former = decoded.loglet or segment, [server for server in decoded.servers if server not in lost]
        latter = decode_untrusted(target).servers
        for newcomer in (server for server in latter if server not in former):
            await NativeRereplication(loglet, former, newcomer, stop, environment, self.pieces, pace).run()
        # The newcomer is sealed. Of the other servers perhaps only a minority that stays is.
        await self.open(segment, target, environment).seal()
