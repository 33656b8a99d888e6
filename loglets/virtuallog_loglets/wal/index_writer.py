"""Writer of index files beside closed segments, so that the next recovery need not read the
segments.

Nothing waits for an index and nothing is lost without one. So errors here are ignored: the recovery
reads that segment then. For the same reason no crash can leave a half-true index: its checksum
covers all of it, and it is made of a durable state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import trio

from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import DiskFullError, StorageError
from virtuallog.contract.ports import File, Storage
from virtuallog.runtime import log
from virtuallog_loglets.wal.core import index_format

_WRITE_BYTES: Final = 1 << 20
"""Bytes of one synced write. A group commit may wait for one: an index of tiny records has some megabytes."""

_CREATED = CrashPoint("wal: an index has been made, and is not written", rare=True)
_WRITTEN = CrashPoint("wal: the index of a closed segment is durable", rare=True)


class IndexedState(Protocol):
    """The user of the log: folds records into a state and can index it."""

    def index(self, sequence: int) -> bytes:
        """Encode what the records of this closed segment say, as of now. Called when all of it is
        durable.

        It may leave out what is not needed any more, and what the snapshot at the head of the next
        segment says.
        """
        ...

    def restore_untrusted(self, sequence: int, index: bytes) -> bool:
        """Take in what `index` once returned, in place of the records.

        Called in the order of the log, between the replays of other segments. Returns False if it
        cannot be used; then nothing was changed, and the records are replayed.
        """
        ...


class IndexWriter:
    """Background writer of indexes, oldest segment first."""

    def __init__(
        self,
        storage: Storage,
        indexes: IndexedState,
        closed: Iterable[tuple[int, tuple[int, int]]],
        first: Callable[[], int],
    ) -> None:
        """Create the writer; `run` does the work.

        Args:
            storage: storage of the log.
            indexes: user that encodes the content.
            closed: sequence and footer (end, records) of closed segments that have no index yet.
            first: returns the lowest segment that is not dropped, as of now.
        """
        self._storage = storage
        self._indexes = indexes
        self._closed = deque(closed)
        self._first = first
        self._work = trio.lowlevel.ParkingLot()

    def add(self, sequence: int, footer: tuple[int, int]) -> None:
        """Add a segment that has been closed. Everything in it has been called back."""
        self._closed.append((sequence, footer))
        self._work.unpark_all()

    async def run(self) -> None:
        """Write indexes until cancelled or until the disk fails. Other parts of the log report that failure."""
        while True:
            if not self._closed:
                await self._work.park()
                continue
            sequence, footer = self._closed.popleft()
            if sequence < self._first():
                continue
            try:
                await self._write(sequence, footer)
            except (DiskFullError, StorageError) as error:
                log.info("no index", segment=sequence, reason=str(error))

    async def _write(self, sequence: int, footer: tuple[int, int]) -> None:
        name = index_format.name_of(sequence)
        await self._storage.remove(name)  # a torn one, from the process before
        image = index_format.encode(sequence, footer, self._indexes.index(sequence))
        file = await self._storage.create(name, len(image))
        _CREATED.reached()
        try:
            for start in range(0, len(image), _WRITE_BYTES):
                await file.write_synced(start, [image[start : start + _WRITE_BYTES]])
        finally:
            await file.close()
        _WRITTEN.reached()


async def restored_untrusted(
    storage: Storage, names: Iterable[str], sequence: int, footer: tuple[int, int], indexes: IndexedState
) -> bool:
    """True if the user has taken in the index of a closed segment, in place of its records.

    Raises:
        StorageError: the disk cannot be read.
    """
    name = index_format.name_of(sequence)
    if name not in names:
        return False
    file: File = await storage.open(name)
    try:
        content = index_format.decode_untrusted(await file.read(0, file.size), sequence, footer)
    finally:
        await file.close()
    return content is not None and indexes.restore_untrusted(sequence, content)
