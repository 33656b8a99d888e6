"""Providers whose clients are recorded (`virtuallog.testing.checker.recorders`): the calls of the
product to loglets and the MetaStore.

An observed provider offers exactly the optional methods of the provider it wraps. Composite kinds
open the loglets below them through observed providers too, so each of those is in the history as a
loglet of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, Final, Protocol

import attrs

from virtuallog.contract.capnp_interface import Interface
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.loglet import Loglet, SupportsPost
from virtuallog.contract.metastore import MetaStore, MetaStoreProvider
from virtuallog.contract.placement import Cluster, Placement
from virtuallog.contract.ports import Environment, Handlers, NodeEnvironment
from virtuallog.contract.provider import (
    CompositeProvider,
    LogletProvider,
    Pace,
    ReplicatedProvider,
    ReportsPartialCopies,
    RequiresVersion,
    RetainedLoglets,
    SupportsExternalRelease,
    SupportsRetention,
    SupportsSweep,
    SupportsTimedRelease,
)
from virtuallog.contract.types import LogletOffset, NodeId
from virtuallog.contract.versions import FIRST
from virtuallog.testing.checker.actions import LogletCopy
from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.recorders import RecordedLoglet, RecordedMetaStore, RecordedPosts


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

    @property
    def since(self) -> int:
        return self._provider.since if isinstance(self._provider, RequiresVersion) else FIRST

    def plan(self, cluster: Cluster, settings: Mapping[str, str], previous: bytes | None) -> bytes:
        return self._provider.plan(cluster, settings, previous)

    def describe(self, config: bytes) -> Mapping[str, Any]:
        return self._provider.describe(config)

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> Loglet:
        """A moved loglet keeps its name in the history, and its tails are marked as those of a copy. An archive is not recorded:
        what is read from it was appended to another loglet."""
        loglet = self._provider.open(segment, config, environment)
        if isinstance(self._provider, SupportsTimedRelease):
            return loglet
        recorded = RecordedPosts if isinstance(loglet, SupportsPost) else RecordedLoglet
        known_as = origin(self._provider, segment, config)
        return recorded(loglet, self._history, known_as, self._who, of_copy=is_moved(self._provider, config))

    async def serve(self, environment: NodeEnvironment) -> Handlers:
        return await self._provider.serve(environment)

    async def forget(self, lowest_live_version: int) -> None:
        await self._provider.forget(lowest_live_version)


class _Observing(Protocol):
    """Common state of the parts below: the observed provider, and where it is observed."""

    _provider: Any
    _history: History
    _who: str


class _Keeping(_Observing):
    __slots__ = ()

    def loglets(self, segment: SegmentId, config: bytes) -> RetainedLoglets:
        kept: RetainedLoglets = self._provider.loglets(segment, config)
        return kept


class _Replicated(_Keeping):
    __slots__ = ()

    def placement(self, config: bytes) -> Placement:
        placement: Placement = self._provider.placement(config)
        return placement

    def move(self, segment: SegmentId, config: bytes, servers: tuple[NodeId, ...]) -> bytes:
        moved: bytes = self._provider.move(segment, config, servers)
        return moved

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
        copy = LogletCopy(origin(self._provider, segment, config), stop)
        with self._history.record(self._who, copy) as returned:
            await self._provider.replicate(segment, config, target, stop, environment, pace, lost)
            returned(None)


class _Forgetting(_Observing):
    __slots__ = ()

    async def sweep_loglets(self, horizon: int, live: Collection[SegmentId]) -> None:
        await self._provider.sweep_loglets(horizon, live)


class _TellingPartial(_Observing):
    __slots__ = ()

    async def partial_copies(self, segment: SegmentId, config: bytes, environment: Environment) -> Collection[NodeId]:
        found: Collection[NodeId] = await self._provider.partial_copies(segment, config, environment)
        return found


class _Releasing(_Observing):
    __slots__ = ()

    def released(self, config: bytes, now_ms: int) -> bytes | None:
        released: bytes | None = self._provider.released(config, now_ms)
        return released


class _Elsewhere(_Observing):
    __slots__ = ()

    async def release(self, segment: SegmentId, config: bytes, environment: Environment) -> None:
        await self._provider.release(segment, config, environment)


_OFFERS: Final[Mapping[type, type]] = {
    ReplicatedProvider: _Replicated,
    SupportsRetention: _Keeping,
    SupportsSweep: _Forgetting,
    ReportsPartialCopies: _TellingPartial,
    SupportsTimedRelease: _Releasing,
    SupportsExternalRelease: _Elsewhere,
}
"""Optional protocols beyond `LogletProvider`, with the class that forwards each. A protocol that
contains another one comes before it."""


def origin(provider: LogletProvider, segment: SegmentId, config: bytes) -> SegmentId:
    """The id that a loglet has in the history, wherever it has been moved: the first one that it had.

    That of a plain one is the id by which nodes know it. One that consists of parts has the id before that of its first
    part (`virtuallog_loglets.striped`).
    """
    if not isinstance(provider, ReplicatedProvider):
        return segment
    first = next(iter(provider.loglets(segment, config)))
    if not isinstance(provider, CompositeProvider):
        return first
    return SegmentId(first.version, (first.attempt - 1) % (1 << 63))


def is_moved(provider: LogletProvider, config: bytes) -> bool:
    """True for a config made by `ReplicatedProvider.move`: it names the loglet, independent of the
    id of its segment.

    The id alone does not tell: a part of a composite loglet keeps its own when all of it is moved.
    """
    return isinstance(provider, ReplicatedProvider) and "loglet" in provider.describe(config)


def observed(provider: LogletProvider, history: History, who: str) -> LogletProvider:
    """The provider, with recorded clients."""
    offers = tuple(passed for offer, passed in _OFFERS.items() if isinstance(provider, offer))
    return _class_of(offers)(provider, history, who)


def all_observed(providers: Mapping[str, LogletProvider], history: History, who: str) -> Mapping[str, LogletProvider]:
    """Observed versions of all providers of a process; composite ones open their parts through
    observed ones."""
    found = {kind: observed(provider, history, who) for kind, provider in providers.items()}
    for provider in providers.values():
        if isinstance(provider, CompositeProvider):
            provider.over(found)
    return found


@cache
def _class_of(offers: tuple[type, ...]) -> type[ObservedProvider]:
    bases = tuple(one for one in offers if not any(one is not other and issubclass(other, one) for other in offers))
    return type("ObservedProvider", (*bases, ObservedProvider), {"__slots__": ()})


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
