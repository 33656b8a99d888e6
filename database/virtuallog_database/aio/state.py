"""State for asyncio: named values with versions, on storages that live on the loop of a thread.

async with open_storage("rocks:data") as storage:
state = AsyncioState(storage)
variable = await state.store((await state.fetch("config")).mutate(b"hello"))
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import attrs

from virtuallog.contract.ports import Clock
from virtuallog.runtime.bridge.asyncio_bridge import AsyncioBridge, open_bridge
from virtuallog.runtime.clock import SystemClock
from virtuallog_database.state.core.record_changes import RecordChanges, VersionedRecords
from virtuallog_database.state.errors import OutcomeUnknownError
from virtuallog_database.state.location import OPEN_SECONDS
from virtuallog_database.state.location import open_storage as open_trio_storage
from virtuallog_database.state.location import records_of as trio_records_of
from virtuallog_database.state.records import RecordStorage
from virtuallog_database.state.state import State
from virtuallog_database.state.storage import StateStorage
from virtuallog_database.state.variable import StateEntry, Variable


@attrs.frozen(eq=False)
class AsyncioStateStorage:
    """A StateStorage for asyncio. Many tasks may call all methods at once. A cancelled write may still happen."""

    storage: StateStorage
    bridge: AsyncioBridge

    @property
    def value_bytes_max(self) -> int:
        """See `StateStorage.value_bytes_max`."""
        return self.storage.value_bytes_max

    async def get(self, name: str) -> StateEntry | None:
        """See `StateStorage.get`."""
        return await self.bridge.call(self.storage.get, name)

    async def set(self, name: str, entry: StateEntry, expected: bytes, *, may_create: bool) -> bool:
        """See `StateStorage.set`."""
        return await self.bridge.call(partial(self.storage.set, name, entry, expected, may_create=may_create))

    async def expunge(self, name: str, expected: bytes) -> bool:
        """See `StateStorage.expunge`."""
        return await self.bridge.call(self.storage.expunge, name, expected)

    async def names(self) -> frozenset[str]:
        """See `StateStorage.names`."""
        return await self.bridge.call(self.storage.names)


@attrs.frozen(eq=False)
class AsyncioRecordStorage:
    """A RecordStorage for asyncio; made by `records_of`."""

    storage: RecordStorage
    bridge: AsyncioBridge

    @property
    def changes_bytes_max(self) -> int:
        """See `RecordStorage.changes_bytes_max`."""
        return self.storage.changes_bytes_max

    async def load(self, name: str) -> VersionedRecords | None:
        """See `RecordStorage.load`."""
        return await self.bridge.call(self.storage.load, name)

    async def update(self, name: str, expected: bytes, changes: RecordChanges, *, may_create: bool) -> bool:
        """See `RecordStorage.update`."""
        return await self.bridge.call(partial(self.storage.update, name, expected, changes, may_create=may_create))


@attrs.define(eq=False)
class AsyncioState:
    """A State for asyncio. Many tasks may call all methods at once."""

    storage: AsyncioStateStorage
    settle_seconds: float = attrs.field(default=20.0, kw_only=True)
    """See `State.settle_seconds`."""
    clock: Clock = attrs.field(factory=SystemClock, kw_only=True)
    random: random.Random = attrs.field(factory=random.SystemRandom, kw_only=True)
    """See `State.random`."""
    _state: State = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._state = State(
            self.storage.storage, settle_seconds=self.settle_seconds, clock=self.clock, random=self.random
        )

    async def fetch(self, name: str) -> Variable:
        """See `State.fetch`."""
        return await self.storage.bridge.call(self._state.fetch, name)

    async def store(self, variable: Variable, *, recreate: bool = True) -> Variable:
        """See `State.store`."""
        return await self.storage.bridge.call(partial(self._state.store, variable, recreate=recreate))

    async def settle(self, error: OutcomeUnknownError) -> Variable | None:
        """See `State.settle`."""
        return await self.storage.bridge.call(self._state.settle, error)

    async def expunge(self, variable: Variable) -> bool:
        """See `State.expunge`."""
        return await self.storage.bridge.call(self._state.expunge, variable)

    async def names(self) -> frozenset[str]:
        """See `State.names`."""
        return await self.storage.bridge.call(self._state.names)


@asynccontextmanager
async def open_storage(
    location: str, *, create: bool = True, open_seconds: float = OPEN_SECONDS
) -> AsyncIterator[AsyncioStateStorage]:
    """Open the storage of a location on a thread of its own while the block runs; arguments and errors as `virtuallog.state.open_storage`."""
    opens = partial(open_trio_storage, location, create=create, open_seconds=open_seconds)
    async with open_bridge(opens, "virtuallog state") as found:
        yield AsyncioStateStorage(found.opened, found.bridge)


def records_of(storage: AsyncioStateStorage) -> AsyncioRecordStorage:
    """The records of a storage; see `virtuallog.state.records_of`."""
    return AsyncioRecordStorage(trio_records_of(storage.storage), storage.bridge)
