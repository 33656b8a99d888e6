"""What a database asks of its disk. RocksDB is behind it (`virtuallog_database.rocks`), or the simulator.

    StoreDirectory      one replica's place on a disk
        store           the live one, a LocalStore, once it is open
        checkpoints     the store at earlier moments, each a set of files that never change
        staging         files of somebody else's checkpoint, on their way to become the store

The local store of Delos (SOSP'21, section 3): a function of the log up to a cursor that moves in the same transaction as the
effects. So it needs no write-ahead log of its own: what a crash takes is played again. Writes are visible at once and durable
after a `flush`; after a crash the store stands where some moment between the last flush and now has left it, never in between
two writes.

Reads and writes are no coroutines: most are answered from memory within a microsecond or two, and the one task that
applies the log must not be interrupted halfway. One that has to go to the disk holds the event loop up for that long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs

from virtuallog.contract.ports import Span


class StoreReader(Protocol):
    """An ordered map of bytes to bytes, as it can be read."""

    def get(self, key: bytes) -> bytes | None: ...

    def scan(self, span: Span, count: int) -> list[tuple[bytes, bytes]]:
        """The first `count` pairs in `span`, in order of their keys."""
        ...


class LocalStore(StoreReader, Protocol):
    """The state of one replica of a database, owned by one component of one process.

    Every method may raise StorageError, DiskFullError or CorruptionError: then this replica must stop (a failure of this disk
    is no function of the log, SOSP'21 section 3.3).
    """

    def write(self, changes: Mapping[bytes, bytes | None], dropped: Sequence[Span] = ()) -> None:
        """Delete everything in `dropped`, then put every pair, and delete where the value is None: all or nothing, visible at
        once. Durable after the next `flush`; writes become durable in their order."""
        ...

    @property
    def is_behind(self) -> bool:
        """Whether the disk is so far behind that one of the next writes may have to wait for it, and the event loop with it: who can
        wait had better do so now. Never raises; one that has failed or is closed says no, as it keeps nobody waiting."""
        ...

    async def flush(self) -> None:
        """Everything written before the call is durable on return."""
        ...

    def snapshot(self) -> StoreReader:
        """The map as it is now, for long scans while writes go on. Let go of it soon: it keeps what is overwritten."""
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
    """The store at earlier moments. A checkpoint is there as a whole or not at all, and never changes; taking one copies nothing
    that is in files already. Errors are those of `LocalStore`."""

    async def names(self) -> list[str]:
        """Sorted."""
        ...

    async def take(self, name: str) -> None:
        """Everything written before the call is in it, perhaps some of what is written meanwhile. On return it is durable, and
        so is that part of the store. Not called twice at a time, nor for a name that is there.

        Raises:
            DiskFullError: nothing of it was left behind, and the store goes on.
        """
        ...

    async def files(self, name: str) -> list[CheckpointFile]:
        """Sorted by their names. Their checksums are those of the moment when the checkpoint was taken.

        Raises:
            UnavailableError: there is no such checkpoint (any more).
            CorruptionError: what is noted about it cannot be read.
        """
        ...

    async def read(self, name: str, file: str, offset: int, length: int) -> bytes:
        """At most `length` bytes; fewer only at the end of the file.

        Raises:
            UnavailableError: there is no such checkpoint (any more), or no such file in it.
        """
        ...

    async def remove(self, name: str) -> None:
        """One that is not there is no error. What is being read of it is not cut short."""
        ...


class StagingArea(Protocol):
    """Files that are to become the store. They survive a crash as far as they were durable: whoever goes on with them
    compares checksums. Names are those of a checkpoint's files, which adapters do not trust."""

    async def files(self) -> list[CheckpointFile]:
        """What is here, sorted by names; reads all of it."""
        ...

    async def write(self, file: str, offset: int, content: bytes) -> None:
        """Put bytes into a file, which is made if need be. Durable by `install` only.

        Raises:
            DiskFullError: no room; the store and its checkpoints are as they were.
            MalformedError: no name that a checkpoint's file can have.
        """
        ...

    async def remove(self, file: str) -> None: ...

    async def clear(self) -> None:
        """Remove all of it, and give its room back."""
        ...

    async def install(self) -> None:
        """Make what is here durable, read it through, and put it in the place of the store in one step; former checkpoints, which are
        of the former store, are removed then. After a crash the store is the former one or the new one, whole. The
        store must not be open meanwhile.

        Raises:
            CorruptionError: this is no store that can be opened and read; the former one is as it was.
        """
        ...


class StoreDirectory(Protocol):
    """One replica's place on a disk, owned by one component of one process."""

    @property
    def checkpoints(self) -> Checkpoints:
        """`take` only while the store is open."""
        ...

    @property
    def staging(self) -> StagingArea: ...

    async def open(self) -> LocalStore:
        """The store, an empty one if there is none. Not twice at a time; close it before it is opened again.

        Raises:
            CorruptionError: RocksDB does not trust what it found.
            StorageError: it cannot be opened.
        """
        ...

    async def close(self) -> None:
        """Let go of the directory. The store, if it is open, is closed with it."""
        ...
