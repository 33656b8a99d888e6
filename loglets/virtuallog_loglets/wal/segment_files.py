"""Segment files around the active one: the spare that is made ahead, and the closed ones until they
are dropped.

One background task makes the spare and deletes dropped files, oldest first, so that the files of a
log are consecutive at every moment. A full disk is found out here: by a spare that cannot be made.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio
from crc32c import crc32c

from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import CorruptionError, DiskFullError, StorageError
from virtuallog.contract.ports import File, Storage
from virtuallog_loglets.wal.core import index_format
from virtuallog_loglets.wal.core import segment_format as fmt
from virtuallog_loglets.wal.core.record import WalRecord
from virtuallog_loglets.wal.recovery import RecoveredLog
from virtuallog_loglets.wal.settings import WalSettings

_READ_BYTES: Final = 8 << 10
"""Bytes of the first read for a record: most records fit, and little is copied in vain."""

_SPARE = CrashPoint("wal: a spare segment is on the disk, nobody uses it")
_DROPPED = CrashPoint("wal: a segment is dropped, its file is still there", rare=True)
_REMOVED = CrashPoint("wal: the file of a dropped segment is gone, others may follow", rare=True)


class SegmentFiles:
    """Segment files by sequence number. `changed` is called when the spare has been made, or could
    not be made."""

    def __init__(
        self, storage: Storage, settings: WalSettings, recovered: RecoveredLog, changed: Callable[[], None]
    ) -> None:
        self.full = False
        """True if the last attempt to make a spare found no room; stays until one succeeds."""
        self.failure: StorageError | None = None
        self.spare = recovered.spare
        """File for the next segment; None while there is none."""
        self._storage = storage
        self._settings = settings
        self._changed = changed
        self._sizes = dict(recovered.sizes)
        self._next_sequence = recovered.next_sequence
        self._first = min(self._sizes, default=self._next_sequence)
        self._retry = False
        self._is_wanted = False
        """True once `make_spare` was called: before that, no spare is made."""
        self._work = trio.lowlevel.ParkingLot()
        self._open: dict[int, File] = {}
        self._users: dict[int, int] = {}
        if recovered.active is not None:
            file, segment = recovered.active
            self._open[segment.sequence] = file

    @property
    def first(self) -> int:
        """Lowest sequence that may be read."""
        return self._first

    @property
    def next_sequence(self) -> int:
        """Sequence of the first segment that has not begun."""
        return self._next_sequence

    @property
    def segments(self) -> int:
        """Number of segments that may be read."""
        return self._next_sequence - self._first

    @property
    def bytes(self) -> int:
        """Bytes of all files, the spare and those that wait for deletion included."""
        return sum(self._sizes.values()) + (self.spare.size if self.spare is not None else 0)

    def take_spare(self) -> tuple[int, File]:
        """Begin the next segment in the spare; another one is made when `make_spare` is called."""
        assert self.spare is not None
        sequence, file, self.spare = self._next_sequence, self.spare, None
        self._next_sequence += 1
        self._sizes[sequence] = file.size
        self._open[sequence] = file
        return sequence, file

    def make_spare(self) -> None:
        """Make the spare if there is none. On a full disk: try once more; that is cheap where it
        fails at once."""
        self._retry = self._is_wanted = True
        self._work.unpark_all()

    def drop_below(self, sequence: int) -> None:
        """Make all segments below unreadable now and delete their files soon. The caller keeps the
        active one."""
        assert sequence < self._next_sequence
        if sequence > self._first:
            self._first = sequence
            self._work.unpark_all()

    async def run(self) -> None:
        """Make spares and delete dropped files until cancelled or until the disk fails (see `failure`)."""
        try:
            while True:
                oldest = next(iter(self._sizes), self._first)
                if oldest < self._first:
                    await self._delete(oldest)
                    self._retry = True
                elif self._is_wanted and self.spare is None and (self._retry or not self.full):
                    await self._create_spare()
                else:
                    await self._work.park()
        except StorageError as error:
            self.failure = error
            self._changed()

    async def _create_spare(self) -> None:
        self._retry = False
        try:
            self.spare = await self._storage.create(fmt.name_of(self._next_sequence), self._settings.segment_bytes)
        except DiskFullError:
            self.full = True
        else:
            self.full = False
            _SPARE.reached()
        self._changed()

    async def _delete(self, sequence: int) -> None:
        if sequence in self._open:
            await self._open.pop(sequence).close()
        _DROPPED.reached()
        await self._storage.remove(index_format.name_of(sequence))
        await self._storage.remove(fmt.name_of(sequence))
        _REMOVED.reached()
        del self._sizes[sequence]

    @asynccontextmanager
    async def reading(self, sequence: int) -> AsyncIterator[File]:
        """The file of a segment, kept open meanwhile (unless it is dropped)."""
        self._users[sequence] = self._users.get(sequence, 0) + 1
        try:
            yield await self._opened(sequence)
        finally:
            self._users[sequence] -= 1
            if not self._users[sequence]:
                del self._users[sequence]

    async def _opened(self, sequence: int) -> File:
        if sequence not in self._open:
            await self._close_unused()
            file = await self._storage.open(fmt.name_of(sequence))
            if sequence in self._open or sequence < self._first:
                await file.close()  # another reader was faster, or it has been dropped meanwhile
            else:
                self._open[sequence] = file
        if sequence not in self._open:
            raise StorageError(f"{fmt.name_of(sequence)} has been dropped")
        self._open[sequence] = file = self._open.pop(sequence)  # the end of the dictionary: used last
        return file

    async def _close_unused(self) -> None:
        """Make room for one more open file. The newest segment is being written and stays open."""
        unused = [key for key in self._open if key not in self._users and key != self._next_sequence - 1]
        for sequence in unused[: max(0, len(self._open) - self._settings.files_open_max + 1)]:
            await self._open.pop(sequence).close()


async def read_record(file: File, sequence: int, offset: int) -> WalRecord:
    """Read one record of a segment file.

    Raises:
        CorruptionError: the bytes there are not a whole record.
        StorageError: the disk failed.
    """
    start = await file.read(offset, _READ_BYTES)
    header = fmt.parse_record_header_untrusted(start[: fmt.RECORD_HEADER_BYTES], sequence, offset)
    if header is None:
        raise CorruptionError(f"{file.name}: no valid record header at offset {offset}")
    kind, length, checksum = header
    end = fmt.RECORD_HEADER_BYTES + length
    if end > len(start):
        start += await file.read(offset + len(start), end - len(start))
    payload = start[fmt.RECORD_HEADER_BYTES : end]
    if len(payload) != length or crc32c(payload) != checksum:
        raise CorruptionError(f"{file.name}: the record at offset {offset} does not match its checksum")
    return WalRecord(kind, payload)
