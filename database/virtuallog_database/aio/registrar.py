"""Registrar and follower for asyncio, on the loop of their storage.

    async with open_registrar(records_of(storage), "registry", tables=[AGENTS], owner="master-1") as registrar:
        await registrar.recover()
        await registrar.apply(Admit(agent))
        await registrar.registry.get(AGENTS, "a1")

The tables belong to the other loop and change with each stored batch, so their reads are awaited.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import attrs
import trio

from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.ports import Clock
from virtuallog.runtime.bridge.asyncio_bridge import AsyncioBridge, Pieces
from virtuallog_database.aio.state import AsyncioRecordStorage
from virtuallog_database.registrar.core.batch import OperationResult
from virtuallog_database.registrar.core.edit import Operation
from virtuallog_database.registrar.core.tables import RecordTable, Registry
from virtuallog_database.registrar.follower import Follower
from virtuallog_database.registrar.follower import open_follower as open_trio_follower
from virtuallog_database.registrar.registrar import CHANGES_MAX, Registrar, RegistrarSettings, RegistryChange
from virtuallog_database.registrar.registrar import open_registrar as open_trio_registrar

RecordT = TypeVar("RecordT")


@attrs.frozen(eq=False)
class AsyncioRegistry:
    """A Registry for asyncio: each call reads the tables as they are then."""

    _present: Callable[[], Registry]
    _bridge: AsyncioBridge

    async def get(self, table: RecordTable[RecordT], key: str) -> RecordT | None:
        """See `Registry.get`."""
        return await self._bridge.call_sync(lambda: self._present().get(table, key))

    async def items(self, table: RecordTable[RecordT]) -> Iterator[tuple[str, RecordT]]:
        """See `Registry.items`. These are of one moment."""
        return iter(await self._bridge.call_sync(lambda: list(self._present().items(table))))

    async def count(self, table: RecordTable[Any]) -> int:
        """See `Registry.count`."""
        return await self._bridge.call_sync(lambda: self._present().count(table))

    async def tagged(self, table: RecordTable[Any], tag: str) -> int:
        """See `Registry.tagged`."""
        return await self._bridge.call_sync(lambda: self._present().tagged(table, tag))


class AsyncioChanges(AsyncIterator[RegistryChange]):
    """Stream of stored batches; made by `AsyncioRegistrar.changes`. All that wait come with one way to the other loop."""

    def __init__(self, channel: trio.MemoryReceiveChannel[RegistryChange], bridge: AsyncioBridge) -> None:
        """Hand out what comes from `channel`."""
        self._channel = channel
        self._pieces = Pieces(bridge, self._fetch)
        self._changes: deque[RegistryChange] = deque()

    async def __anext__(self) -> RegistryChange:
        """The next stored batch; waits for it. A cancelled call loses nothing."""
        if not self._changes:
            self._changes.extend(await self._pieces.next())
        if not self._changes:
            raise StopAsyncIteration
        return self._changes.popleft()

    async def _fetch(self) -> list[RegistryChange]:
        """All that wait; waits for one. Empty at the end of the stream."""
        found = list[RegistryChange]()
        try:
            found.append(await self._channel.receive())
            while len(found) < CHANGES_MAX:
                found.append(self._channel.receive_nowait())
        except (trio.EndOfChannel, trio.WouldBlock):
            pass
        return found


@attrs.define(eq=False)
class AsyncioRegistrar:
    """A Registrar for asyncio; made by `open_registrar`. Operations run on the thread of the other loop."""

    _registrar: Registrar
    _bridge: AsyncioBridge

    @property
    def name(self) -> str:
        """Name of the registry."""
        return self._registrar.name

    @property
    def settings(self) -> RegistrarSettings:
        """Settings that it was opened with."""
        return self._registrar.settings

    async def recover(self) -> AsyncioRegistry:
        """See `Registrar.recover`."""
        await self._bridge.call(self._registrar.recover)
        return self.registry

    async def apply(self, operation: Operation) -> OperationResult:
        """See `Registrar.apply`."""
        return await self._bridge.call(self._registrar.apply, operation)

    @property
    def registry(self) -> AsyncioRegistry:
        """See `Registrar.registry`."""
        return AsyncioRegistry(lambda: self._registrar.registry, self._bridge)

    @property
    def version(self) -> bytes:
        """See `Registrar.version`."""
        return self._registrar.version

    @property
    def was_empty(self) -> bool:
        """See `Registrar.was_empty`."""
        return self._registrar.was_empty

    @property
    def is_upgrading(self) -> bool:
        """See `Registrar.is_upgrading`."""
        return self._registrar.is_upgrading

    @property
    def tables(self) -> Sequence[RecordTable[Any]]:
        """See `Registrar.tables`."""
        return self._registrar.tables

    async def metrics(self) -> list[MetricFamily]:
        """See `Registrar.metrics`. Here it takes a way to the other loop."""
        return await self._bridge.call_sync(self._registrar.metrics)

    @property
    def queued(self) -> int:
        """See `Registrar.queued`."""
        return self._registrar.queued

    @property
    def error(self) -> Exception | None:
        """See `Registrar.error`."""
        return self._registrar.error

    async def ended(self) -> Exception:
        """See `Registrar.ended`."""
        return await self._bridge.wait(self._registrar.ended)

    @asynccontextmanager
    async def changes(self) -> AsyncIterator[AsyncioChanges]:
        """See `Registrar.changes`. It is an async context manager here."""

        @asynccontextmanager
        async def opened() -> AsyncIterator[trio.MemoryReceiveChannel[RegistryChange]]:
            with self._registrar.changes() as channel:
                yield channel

        async with self._bridge.hold(opened) as channel:
            yield AsyncioChanges(channel, self._bridge)


@attrs.define(eq=False)
class AsyncioFollower:
    """A Follower for asyncio; made by `open_follower`."""

    follower: Follower
    _bridge: AsyncioBridge

    @property
    def name(self) -> str:
        """Name of the registry."""
        return self.follower.name

    @property
    def registry(self) -> AsyncioRegistry:
        """See `Follower.registry`."""
        return AsyncioRegistry(lambda: self.follower.registry, self._bridge)

    @property
    def version(self) -> bytes:
        """See `Follower.version`."""
        return self.follower.version

    @property
    def loads(self) -> int:
        """See `Follower.loads`."""
        return self.follower.loads

    async def changed(self) -> None:
        """Wait until the copy has another version than `version` at the time of this call."""
        await self._bridge.wait(self._changed_since, self.follower.version)

    async def _changed_since(self, version: bytes) -> None:
        if self.follower.version == version:
            await self.follower.changed()


@asynccontextmanager
async def open_registrar(
    storage: AsyncioRecordStorage,
    name: str,
    *,
    tables: Sequence[RecordTable[Any]],
    owner: str,
    settings: RegistrarSettings | None = None,
    follower: AsyncioFollower | None = None,
    clock: Clock | None = None,
    source: random.Random | None = None,
) -> AsyncIterator[AsyncioRegistrar]:
    """Run a registrar while the block runs, on the loop of its storage; arguments and errors as `virtuallog.state.open_registrar`.

    A follower must be of the same storage.
    """
    opens = partial(
        open_trio_registrar,
        storage.storage,
        name,
        tables=tables,
        owner=owner,
        settings=settings,
        follower=None if follower is None else follower.follower,
        clock=clock,
        source=source,
    )
    async with storage.bridge.hold(opens) as registrar:
        yield AsyncioRegistrar(registrar, storage.bridge)


@asynccontextmanager
async def open_follower(
    storage: AsyncioRecordStorage,
    name: str,
    *,
    tables: Sequence[RecordTable[Any]],
    clock: Clock | None = None,
    poll_seconds: float = 1.0,
) -> AsyncIterator[AsyncioFollower]:
    """Follow a registry while the block runs, on the loop of its storage; arguments and errors as `virtuallog.state.open_follower`."""
    opens = partial(open_trio_follower, storage.storage, name, tables=tables, clock=clock, poll_seconds=poll_seconds)
    async with storage.bridge.hold(opens) as follower:
        yield AsyncioFollower(follower, storage.bridge)
