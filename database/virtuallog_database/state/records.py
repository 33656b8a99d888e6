"""The contract of a storage of records: a value that is a map, stored by what has changed.

A value of 50,000 records is 10 MB. `StateStorage` writes a value whole; a `RecordStorage` writes the records that a store
changes. Both compare and set the same version, with the same rules (`virtuallog_database.state.storage`).

`PackedRecords` keeps the records of any `StateStorage` in one value, as Mesos does.
"""

from __future__ import annotations

from collections import deque
from contextlib import AbstractContextManager
from typing import Final, Protocol, runtime_checkable

import attrs
import trio

from virtuallog_database.state.core.record_changes import (
    RecordChanges,
    StoredUpdate,
    VersionedRecords,
    pack,
    unpack_untrusted,
)
from virtuallog_database.state.storage import StateStorage, check_size
from virtuallog_database.state.variable import StateEntry

STREAM_MAX: Final = 4096
"""Updates that wait for the reader of an `UpdateStream`."""
STREAM_BYTES_MAX: Final = 64 << 20
"""Bytes of keys and values that wait for it. A reader that is further behind loads all records, which take about as much."""


@runtime_checkable
class RecordStorage(Protocol):
    """Maps of records by name. Many tasks may call all methods at once. A cancelled write may still happen."""

    @property
    def changes_bytes_max(self) -> int:
        """Most bytes of keys and values in one `update`."""
        ...

    async def load(self, name: str) -> VersionedRecords | None:
        """All records of a name; None if there are none. Reflects every write that was completed before the call.

        Raises:
            UnavailableError: the storage does not answer.
        """
        ...

    async def update(self, name: str, expected: bytes, changes: RecordChanges, *, may_create: bool) -> bool:
        """Change records if the name has the version `expected`, or if it has none and `may_create` is set. The answers and errors are those of
        `StateStorage.set`.

        Raises:
            TooLargeError: the changes exceed `changes_bytes_max`, or the storage cannot hold all records that there would be; nothing was done.
            UnavailableError: unknown outcome.
        """
        ...


@attrs.define(eq=False)
class UpdateStream:
    """Updates of one name in order, for one reader. None stands for a hole: the reader must load."""

    _waiting: deque[StoredUpdate | None] = attrs.field(factory=deque, init=False)
    _bytes: int = attrs.field(default=0, init=False)
    """Bytes of the updates that wait."""
    _arrived: trio.Event = attrs.field(factory=trio.Event, init=False)

    def put(self, update: StoredUpdate | None) -> None:
        """Add an update, or a hole. A reader that is STREAM_MAX updates or STREAM_BYTES_MAX bytes behind gets a hole instead of them."""
        size = 0 if update is None else update.size
        if update is None or len(self._waiting) >= STREAM_MAX or self._bytes + size > STREAM_BYTES_MAX:
            self._waiting.clear()
            update, size, self._bytes = None, 0, 0
        self._waiting.append(update)
        self._bytes += size
        self._arrived.set()

    async def next(self) -> StoredUpdate | None:
        """The next update, or a hole. Takes nothing if it is cancelled."""
        while not self._waiting:
            self._arrived = trio.Event()
            await self._arrived.wait()
        return self._take()

    def skip_to(self, version: bytes) -> None:
        """Drop what a load of this version has brought already."""
        versions = [None if update is None else update.version for update in self._waiting]
        if version in versions:
            for _ in range(versions.index(version) + 1):
                self._take()

    def _take(self) -> StoredUpdate | None:
        update = self._waiting.popleft()
        self._bytes -= 0 if update is None else update.size
        return update


@runtime_checkable
class WatchesRecords(Protocol):
    """Part of a `RecordStorage` that tells of updates."""

    def watch(self, name: str) -> AbstractContextManager[UpdateStream]:
        """Stream of the updates of a name that are stored from now on, in order."""
        ...

    async def version(self, name: str) -> bytes | None:
        """Version of a name, as new as a `load`; None if there is none. The stream has every update up to it then.

        Raises:
            UnavailableError: the storage does not answer.
        """
        ...


@attrs.define(eq=False)
class PackedRecords:
    """Implements `RecordStorage`: all records in one value of a `StateStorage`, which is written whole each time."""

    _storage: StateStorage
    _known: dict[str, VersionedRecords] = attrs.field(factory=dict, init=False)
    """Last known records of each name that was written or loaded here."""

    @property
    def changes_bytes_max(self) -> int:
        return self._storage.value_bytes_max

    async def load(self, name: str) -> VersionedRecords | None:
        entry = await self._storage.get(name)
        if entry is None:
            return None
        self._known[name] = VersionedRecords(unpack_untrusted(name, entry.value), entry.version)
        return self._known[name]

    async def update(self, name: str, expected: bytes, changes: RecordChanges, *, may_create: bool) -> bool:
        known = self._known.get(name)
        if known is None or known.version != expected:
            known = await self.load(name)
        if known is not None and known.version == changes.version:
            return True
        if known is not None and known.version != expected:
            return False
        records = {} if known is None else dict(known.records)
        for key in changes.deletes:
            records.pop(key, None)
        records.update(changes.puts)
        entry = StateEntry(pack(records.items()), changes.version)
        check_size(name, entry.value, self._storage.value_bytes_max)
        is_done = await self._storage.set(name, entry, expected, may_create=may_create)
        if is_done:
            self._known[name] = VersionedRecords(records, changes.version)
        return is_done
