"""What a database asks of its disk. RocksDB is behind it (`database.rocks_store`), or the simulator.

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

from virtuallog.ports import Span


class Reading(Protocol):
    """An ordered map of bytes to bytes, as it can be read."""

    def get(self, key: bytes) -> bytes | None: ...

    def scan(self, span: Span, count: int) -> list[tuple[bytes, bytes]]:
        """The first `count` pairs in `span`, in order of their keys."""
        ...


class LocalStore(Reading, Protocol):
    """The state of one replica of a database, owned by one component of one process.

    Every method may raise StorageError, DiskFullError or CorruptionError: then this replica must stop (a failure of this disk
    is no function of the log, SOSP'21 section 3.3).
    """

    def write(self, changes: Mapping[bytes, bytes | None], dropped: Sequence[Span] = ()) -> None:
        """Delete everything in `dropped`, then put every pair, and delete where the value is None: all or nothing, visible at
        once. Durable after the next `flush`; writes become durable in their order."""
        ...

    async def flush(self) -> None:
        """Everything written before the call is durable on return."""
        ...

    def snapshot(self) -> Reading:
        """The map as it is now, for long scans while writes go on. Let go of it soon: it keeps what is overwritten."""
        ...

    async def close(self) -> None: ...
