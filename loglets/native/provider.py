"""NativeLoglets as a pluggable kind: plans them, opens clients of them, runs their roles on nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from loglets.native import planner, wire
from loglets.native.config import decode_untrusted
from loglets.native.log_server_service import LogServerService
from loglets.native.loglet import NativeLoglet
from loglets.native.pieces import Pieces
from loglets.native.sequencer_service import SequencerService
from loglets.wal import WalSettings
from virtuallog.api import Cluster, Loglet
from virtuallog.chain import SegmentId
from virtuallog.ports import Environment, Handlers, NodeEnvironment
from virtuallog.rpc.interface import Interface


@attrs.define(eq=False)
class NativeProvider:
    """See `virtuallog.api.LogletProvider`. One object serves at most one node."""

    wal_settings: WalSettings = attrs.field(factory=WalSettings)
    """Of this node's LogServer."""
    pieces: Pieces = attrs.field(factory=Pieces)
    _log_server: LogServerService | None = attrs.field(default=None, init=False)
    _sequencers: SequencerService | None = attrs.field(default=None, init=False)

    @property
    def kind(self) -> str:
        return "native"

    @property
    def contiguous(self) -> bool:
        return True

    @property
    def interfaces(self) -> Sequence[Interface]:
        return (wire.LOG_SERVER, wire.SEQUENCER)

    @property
    def log_server(self) -> LogServerService | None:
        """This node's LogServer, once `serve` has started it: for tools that look inside."""
        return self._log_server

    def plan(self, cluster: Cluster, settings: Mapping[str, str], previous: bytes | None) -> bytes:
        return planner.plan(cluster, settings, previous).encode()

    def describe(self, config: bytes) -> Mapping[str, Any]:
        decoded = decode_untrusted(config)
        known = {"servers": list(decoded.servers), "sequencer": decoded.sequencer, "boot": decoded.boot}
        return {**decoded.others, **known}

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> Loglet:
        return NativeLoglet(segment, decode_untrusted(config), environment, self.pieces)

    async def serve(self, environment: NodeEnvironment) -> Handlers:
        """Both roles: a node whose roles do not include one of them is never named in a config for it."""
        self._log_server = await LogServerService.start(environment, self.wal_settings)
        self._sequencers = SequencerService(environment, self.pieces)
        return {**self._log_server.handlers, **self._sequencers.handlers}

    async def forget(self, lowest_live_version: int) -> None:
        if self._sequencers is not None:
            self._sequencers.forget(lowest_live_version)
        if self._log_server is not None:
            await self._log_server.forget(lowest_live_version)
