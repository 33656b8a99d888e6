"""Providers whose clients are recorded (`virtuallog.testing.recorded`): what the product asks of loglets and the MetaStore."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attrs

from virtuallog.api import Cluster, Loglet, LogletProvider, MetaStore, MetaStoreProvider
from virtuallog.chain import SegmentId
from virtuallog.dropped import ForgetsOthers
from virtuallog.kept import Kept
from virtuallog.ports import Environment, Handlers, NodeEnvironment
from virtuallog.replicated import Pace, Placement, ReplicatedProvider
from virtuallog.rpc.interface import Interface
from virtuallog.testing.history import History
from virtuallog.testing.recorded import RecordedLoglet, RecordedMetaStore
from virtuallog.types import LogletOffset, NodeId


@attrs.frozen
class ObservedProvider:
    """A `LogletProvider` whose clients are recorded."""

    _provider: LogletProvider
    _history: History
    _who: str

    @property
    def kind(self) -> str:
        return self._provider.kind

    @property
    def contiguous(self) -> bool:
        return self._provider.contiguous

    @property
    def interfaces(self) -> Sequence[Interface]:
        return self._provider.interfaces

    def plan(self, cluster: Cluster, settings: Mapping[str, str], previous: bytes | None) -> bytes:
        return self._provider.plan(cluster, settings, previous)

    def describe(self, config: bytes) -> Mapping[str, Any]:
        return self._provider.describe(config)

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> Loglet:
        loglet = self._provider.open(segment, config, environment)
        return RecordedLoglet(loglet, self._history, segment, self._who)

    async def serve(self, environment: NodeEnvironment) -> Handlers:
        return await self._provider.serve(environment)

    async def forget(self, lowest_live_version: int) -> None:
        await self._provider.forget(lowest_live_version)


@attrs.frozen
class _ObservedReplicatedProvider(ObservedProvider):
    """The same of one that can move loglets to other nodes. A loglet that was moved is the same one in the history; copies
    are looked at on the servers, not recorded."""

    _replicated: ReplicatedProvider

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> Loglet:
        loglet = self._provider.open(segment, config, environment)
        return RecordedLoglet(loglet, self._history, next(iter(self.loglets(segment, config))), self._who)

    def placement(self, config: bytes) -> Placement:
        return self._replicated.placement(config)

    def loglets(self, segment: SegmentId, config: bytes) -> Kept:
        return self._replicated.loglets(segment, config)

    def move(self, segment: SegmentId, config: bytes, servers: tuple[NodeId, ...]) -> bytes:
        return self._replicated.move(segment, config, servers)

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
        await self._replicated.replicate(segment, config, target, stop, environment, pace, lost)

    async def forget_others(self, horizon: int, live: Collection[SegmentId]) -> None:
        if isinstance(self._provider, ForgetsOthers):
            await self._provider.forget_others(horizon, live)


def observed(provider: LogletProvider, history: History, who: str) -> LogletProvider:
    """The provider, with recorded clients."""
    if isinstance(provider, ReplicatedProvider):
        return _ObservedReplicatedProvider(provider, history, who, provider)
    return ObservedProvider(provider, history, who)


@attrs.frozen
class ObservedMetaStoreProvider:
    """A `MetaStoreProvider` whose clients are recorded."""

    _provider: MetaStoreProvider
    _history: History
    _who: str

    @property
    def interfaces(self) -> Sequence[Interface]:
        return self._provider.interfaces

    def open(self, members: Sequence[NodeId], environment: Environment) -> MetaStore:
        return RecordedMetaStore(self._provider.open(members, environment), self._history, self._who)

    async def serve(self, members: Sequence[NodeId], environment: NodeEnvironment) -> Handlers:
        return await self._provider.serve(members, environment)
