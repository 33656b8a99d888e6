"""NativeLoglets as a pluggable kind: plans them, opens clients of them, runs their roles on nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from loglets.native import planner, wire
from loglets.native.config import decode_untrusted
from virtuallog.api import Cluster, Loglet
from virtuallog.chain import SegmentId
from virtuallog.ports import Environment, Handlers, NodeEnvironment
from virtuallog.rpc.interface import Interface


@attrs.define(eq=False)
class NativeProvider:
    """See `virtuallog.api.LogletProvider`. One object serves at most one node."""

    @property
    def kind(self) -> str:
        return "native"

    @property
    def contiguous(self) -> bool:
        return True

    @property
    def interfaces(self) -> Sequence[Interface]:
        return (wire.LOG_SERVER, wire.SEQUENCER)

    def plan(self, cluster: Cluster, settings: Mapping[str, str], previous: bytes | None) -> bytes:
        return planner.plan(cluster, settings, previous).encode()

    def describe(self, config: bytes) -> Mapping[str, Any]:
        decoded = decode_untrusted(config)
        known = {"servers": list(decoded.servers), "sequencer": decoded.sequencer, "boot": decoded.boot}
        return {**decoded.others, **known}

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> Loglet:
        raise NotImplementedError

    async def serve(self, environment: NodeEnvironment) -> Handlers:
        raise NotImplementedError

    async def forget(self, lowest_live_version: int) -> None:
        raise NotImplementedError
