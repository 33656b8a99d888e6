"""Thin shells that record what the product asks of loglets and of the MetaStore. They change nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from simulation.history import Get, History, LogletAppend, LogletRead, LogletSeal, LogletTail, Put
from virtuallog.api import Cluster, Loglet, LogletProvider, MetaStore, MetaStoreProvider, Placed
from virtuallog.batch import Batch
from virtuallog.chain import SegmentId
from virtuallog.ports import Environment, Handlers, NodeEnvironment
from virtuallog.rpc.interface import Interface
from virtuallog.types import LogletOffset, NodeId, PlacedBatch, Tail


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
        return ObservedLoglet(loglet, segment, self._history, self._who)

    async def serve(self, environment: NodeEnvironment) -> Handlers:
        return await self._provider.serve(environment)

    async def forget(self, lowest_live_version: int) -> None:
        await self._provider.forget(lowest_live_version)


@attrs.frozen
class ObservedLoglet:
    """A `Loglet` that is recorded, `wait_tail` excepted: an open tail from that may lag."""

    _loglet: Loglet
    _segment: SegmentId
    _history: History
    _who: str

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        action = LogletAppend(self._segment, batch.session, batch.first_sequence, batch.count)
        with self._history.record(self._who, action) as returned:
            places = await self._loglet.append(batch, opens=opens, expected_tail=expected_tail)
            returned(places)
            return places

    async def check_tail(self) -> Tail:
        with self._history.record(self._who, LogletTail(self._segment)) as returned:
            tail = await self._loglet.check_tail()
            returned(tail)
            return tail

    async def wait_tail(self, past: LogletOffset) -> Tail:
        return await self._loglet.wait_tail(past)

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        with self._history.record(self._who, LogletRead(self._segment, start, stop)) as returned:
            found = await self._loglet.read(start, stop, max_bytes)
            batches = [item for item in found if isinstance(item, PlacedBatch)]
            returned(
                [(batch.places, batch.batch.session, batch.batch.first_sequence + batch.first) for batch in batches]
            )
            return found

    async def seal(self) -> None:
        with self._history.record(self._who, LogletSeal(self._segment)) as returned:
            await self._loglet.seal()
            returned(None)

    async def prefix_trim(self, offset: LogletOffset) -> LogletOffset:
        return await self._loglet.prefix_trim(offset)


@attrs.frozen
class ObservedMetaStore:
    """A `MetaStore` whose answers are recorded."""

    _metastore: MetaStore
    _history: History
    _who: str

    async def get(self) -> tuple[int, bytes]:
        with self._history.record(self._who, Get()) as returned:
            found = await self._metastore.get()
            returned(found)
            return found

    async def put(
        self, value: bytes, expected_version: int, attempt: int, members: Sequence[NodeId] | None = None
    ) -> int:
        with self._history.record(self._who, Put(expected_version + 1, value)) as returned:
            version = await self._metastore.put(value, expected_version, attempt, members)
            returned(version)
            return version


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
        return ObservedMetaStore(self._provider.open(members, environment), self._history, self._who)

    async def serve(self, members: Sequence[NodeId], environment: NodeEnvironment) -> Handlers:
        return await self._provider.serve(members, environment)
