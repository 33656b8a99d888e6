"""Copy of a registry at a standby: it follows what the owner stores, so the standby takes over without a load.

    async with open_follower(storage, "registry", tables=[AGENTS]) as follower:
        follower.registry                       as new as the replica of this process
        ... elected:
        async with open_registrar(storage, "registry", tables=[AGENTS], owner=me, follower=follower) as registrar:
            await registrar.recover()           one small write

A storage that cannot be followed is loaded again and again, each `poll_seconds`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import attrs
import trio

from virtuallog.contract.errors import RetryableError
from virtuallog.contract.ports import Clock
from virtuallog.runtime.clock import SystemClock
from virtuallog.runtime.nurseries import unwrapped_errors
from virtuallog_database.registrar.core.ownership import OWNERSHIP
from virtuallog_database.registrar.core.tables import RecordTable, Registry, Slot, decode_untrusted, split_key
from virtuallog_database.registrar.loaded_registry import decode_registry
from virtuallog_database.state.core.record_changes import StoredUpdate
from virtuallog_database.state.records import RecordStorage, UpdateStream, WatchesRecords

RETRY_SECONDS: Final = 0.2
"""Pause before a load that got no answer is repeated."""


@attrs.define(eq=False)
class Follower:
    """A copy that follows; made by `open_follower`."""

    name: str
    _storage: RecordStorage
    _tables: Sequence[RecordTable[Any]]
    _clock: Clock
    _poll_seconds: float
    registry: Registry = attrs.field(factory=Registry, init=False)
    """The copy; empty while there is no registry."""
    version: bytes = attrs.field(default=b"", init=False)
    """Version of the copy; empty while there is no registry."""
    loads: int = attrs.field(default=0, init=False)
    """Loads of the whole registry so far: 1, unless the stream of changes had a hole, or is polled."""
    _changed: trio.Event = attrs.field(factory=trio.Event, init=False)

    async def changed(self) -> None:
        """Wait until the copy changes next."""
        await self._changed.wait()

    async def copy(self) -> tuple[Registry, bytes] | None:
        """A copy of the copy, for an owner that begins, and its version, if it is as new as the storage; None if it is not.

        Raises:
            UnavailableError: the storage does not answer.
        """
        if not isinstance(self._storage, WatchesRecords):
            return None
        present = await self._storage.version(self.name)
        return (self.registry.copy(), self.version) if present == (self.version or None) else None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow until cancelled. Started once the copy is there.

        Raises:
            CorruptionError, BinaryTooOldError: the registry cannot be read.
        """
        if isinstance(self._storage, WatchesRecords):
            with self._storage.watch(self.name) as stream:
                await self._load()
                stream.skip_to(self.version)
                task_status.started()
                await self._follow(stream)
        await self._load()
        task_status.started()
        while True:
            await self._clock.sleep(self._poll_seconds)
            await self._load()

    async def _follow(self, stream: UpdateStream) -> None:
        while True:
            update = await stream.next()
            if update is not None and update.expected == self.version:
                self._apply(update)
            else:
                await self._load()
                stream.skip_to(self.version)

    async def _load(self) -> None:
        while True:
            with suppress(RetryableError):
                found = await self._storage.load(self.name)
                break
            await self._clock.sleep(RETRY_SECONDS)
        self.loads += 1
        if found is None:
            self._set(Registry(), b"")
        elif found.version != self.version:
            self._set(await decode_registry(found, self._tables), found.version)

    def _apply(self, update: StoredUpdate) -> None:
        if not update.version:
            self._set(Registry(), b"")
            return
        tables = {table.name: table for table in (*self._tables, OWNERSHIP)}
        changes: dict[tuple[str, str], Slot | None] = {split_key(key): None for key in update.deletes}
        for key, value in update.puts.items():
            table, name, slot = decode_untrusted(key, value, tables)
            changes[table, name] = slot
        self.registry.commit(changes)
        self._set(self.registry, update.version)

    def _set(self, registry: Registry, version: bytes) -> None:
        self.registry, self.version = registry, version
        self._changed.set()
        self._changed = trio.Event()


@asynccontextmanager
async def open_follower(
    storage: RecordStorage,
    name: str,
    *,
    tables: Sequence[RecordTable[Any]],
    clock: Clock | None = None,
    poll_seconds: float = 1.0,
) -> AsyncIterator[Follower]:
    """Follow a registry while the block runs. The copy is there when it begins.

    Raises:
        CorruptionError, BinaryTooOldError, StorageError: the registry cannot be read, or not any more: then the block is cancelled.
    """
    follower = Follower(name, storage, tables, clock or SystemClock(), poll_seconds)
    with unwrapped_errors():
        async with trio.open_nursery() as nursery:
            await nursery.start(follower.run)
            yield follower
            nursery.cancel_scope.cancel()
