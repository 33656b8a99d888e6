"""Disk ports of a database. Implemented by RocksDB (`virtuallog_database.rocks`) and by the
simulator.

    StoreDirectory      the place of one replica on a disk
        store           the live store, a LocalStore, once it is open
        checkpoints     the store at earlier moments, each a set of files that never change
        staging         files of a received checkpoint, which will become the store

The local store of Delos (SOSP'21, section 3) is a function of the log up to a cursor. The cursor
moves in the same transaction as the effects. So the store needs no write-ahead log: what a crash
takes is played again. Writes are visible at once, and durable after a `flush`. After a crash the
store stands at some write between the last flush and the crash, never between two writes.

Reads and writes are plain functions, not coroutines. Most are answered from memory within a
microsecond or two, and the one task that applies the log must not be interrupted halfway. One that
has to go to the disk blocks the event loop that long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs

from virtuallog.contract.ports import Span


class RecordReader(Protocol):
    """Read access to single values of a map of bytes to bytes."""

    def get(self, key: bytes) -> bytes | None: ...


class StoreReader(RecordReader, Protocol):
    """Read access to an ordered map of bytes to bytes."""

    def scan(self, span: Span, count: int) -> list[tuple[bytes, bytes]]:
        """The first `count` pairs in `span`, in order of their keys."""
        ...


class LocalStore(StoreReader, Protocol):
    """State of one replica of a database, owned by one component of one process.

    Every method may raise StorageError, DiskFullError or CorruptionError. Then this replica must
    stop: a failure of this disk is no function of the log (SOSP'21, section 3.3).
    """

    def write(self, changes: Mapping[bytes, bytes | None], dropped: Sequence[Span] = ()) -> None:
        """Delete everything in `dropped`, then put every pair and delete where the value is None.
        All or nothing, and visible at once. Durable after the next `flush`; writes become durable
        in their order."""
        ...

    @property
    def is_behind(self) -> bool:
        """True if the disk lags so far behind that one of the next writes may block the event loop.
        A caller that can wait should wait now. Never raises; False for a store that has failed or
        is closed, as it blocks no caller."""
        ...

    async def flush(self) -> None:
        """Make everything written before the call durable."""
        ...

    def snapshot(self) -> StoreReader:
        """The map as it is now, for long scans while writes go on. Release it soon: it retains
        overwritten values."""
        ...

    async def close(self) -> None: ...


@attrs.frozen
class CheckpointFile:
    """One file of a checkpoint."""

    name: str
    size: int
    checksum: int
    """CRC32C of its content."""


class Checkpoints(Protocol):
    """The store at earlier moments. A checkpoint exists as a whole or not at all, and never
    changes. Taking one copies nothing that is in files already. Errors are those of `LocalStore`."""

    async def names(self) -> list[str]:
        """Names of the checkpoints, sorted."""
        ...

    async def take(self, name: str) -> None:
        """Take a checkpoint. It holds everything written before the call, and perhaps some later
        writes. On return it is durable, and so is that part of the store. Must not run twice at a
        time, nor for an existing name.

        Raises:
            DiskFullError: nothing of it was left behind, and the store goes on.
        """
        ...

    async def files(self, name: str) -> list[CheckpointFile]:
        """Files of a checkpoint, sorted by name, with the checksums of the moment when it was
        taken.

        Raises:
            UnavailableError: there is no such checkpoint (any more).
            CorruptionError: the listing of its files cannot be read.
        """
        ...

    async def read(self, name: str, file: str, offset: int, length: int) -> bytes:
        """At most `length` bytes; fewer only at the end of the file.

        Raises:
            UnavailableError: there is no such checkpoint (any more), or no such file in it.
        """
        ...

    async def remove(self, name: str) -> None:
        """Remove a checkpoint; a missing one is no error. A read that is under way completes."""
        ...


class StagingArea(Protocol):
    """Files that are to become the store. What was durable survives a crash: callers that resume
    must compare checksums. Names are those of a checkpoint's files; adapters validate them."""

    async def files(self) -> list[CheckpointFile]:
        """The staged files, sorted by name. Reads all of their content."""
        ...

    async def write(self, file: str, offset: int, content: bytes) -> None:
        """Write bytes into a file, which is created if missing. Durable by `install` only.

        Raises:
            DiskFullError: no room; the store and its checkpoints are as they were.
            MalformedError: not a valid name for a file of a checkpoint.
        """
        ...

    async def remove(self, file: str) -> None: ...

    async def clear(self) -> None:
        """Remove all files and free their disk space."""
        ...

    async def install(self) -> None:
        """Make the staged files durable, read them through, and replace the store by them in one
        step. Checkpoints of the former store are removed then. After a crash the store is the
        former one or the new one, whole. The store must not be open meanwhile.

        Raises:
            CorruptionError: this is no store that can be opened and read; the former one is as it
                was.
        """
        ...


class StoreDirectory(Protocol):
    """The place of one replica on a disk, owned by one component of one process."""

    @property
    def checkpoints(self) -> Checkpoints:
        """Checkpoints of the store. `take` works only while the store is open."""
        ...

    @property
    def staging(self) -> StagingArea: ...

    async def open(self) -> LocalStore:
        """Open the store; an empty one is created if there is none. Close it before opening it
        again.

        Raises:
            CorruptionError: RocksDB found damage.
            StorageError: it cannot be opened.
        """
        ...

    async def close(self) -> None:
        """Release the directory. Closes the store first if it is open."""
        ...
