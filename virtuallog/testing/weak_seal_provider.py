"""The weak-seal loglet as a kind for chains: a loglet on an external service, as Delos' first ones were.

Nothing of it runs on the cluster's own nodes, and it has few settings: the segment gives the name
of the log. A copy of another loglet's entries (`store_copy`, then `VirtualLog.reconfig_modify`) is
a log of any other name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from virtuallog.contract.capnp_interface import Interface
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.placement import Cluster
from virtuallog.contract.ports import Environment, Handlers, NodeEnvironment
from virtuallog.contract.types import NodeId
from virtuallog.testing.weak_seal import CALL_SECONDS, RequestInLog, SetBit, WeakSealImport, WeakSealLoglet

KIND: Final = "weak-seal"


@attrs.define(eq=False)
class WeakSealProvider:
    """Provider of weak-seal loglets. The config is the name of the log; empty for that of the segment.

    Implements `virtuallog.contract.provider.LogletProvider`.
    """

    entries: NodeId
    """Node of the `EntriesServer`."""
    seal: NodeId
    """Node of the `SealServer`."""
    kind: str = attrs.field(default=KIND, init=False)
    contiguous: bool = attrs.field(default=True, init=False)
    interfaces: Sequence[Interface] = attrs.field(default=(), init=False)

    def plan(self, cluster: Cluster, settings: Mapping[str, str], previous: bytes | None) -> bytes:
        for name in settings:
            raise InvalidSettingError(name, f"a loglet of kind {self.kind} has no settings")
        return b""

    def describe(self, config: bytes) -> Mapping[str, Any]:
        return {"log": config.decode()} if config else {}

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> WeakSealLoglet:
        return WeakSealLoglet(environment, self.entries, self.seal, config.decode() or str(segment))

    async def serve(self, environment: NodeEnvironment) -> Handlers:
        return {}

    async def forget(self, lowest_live_version: int) -> None:
        """Do nothing: nodes keep nothing, and the service keeps its logs."""

    async def store_copy(self, environment: Environment, log: str, placed: Sequence[Placed]) -> bytes:
        """Make a sealed log with the content of another one, in order and without holes; return its
        config.

        Raises:
            UnavailableError: no answer in time; may be called again with the same name.
        """
        call = environment.services.call
        await call(self.seal, RequestInLog(log, SetBit()), CALL_SECONDS)
        await call(self.entries, RequestInLog(log, WeakSealImport(tuple(placed))), CALL_SECONDS)
        return log.encode()
