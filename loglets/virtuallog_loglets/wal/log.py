"""Write-ahead log: one appender task over a `Storage`, with group commit and callbacks.

The appender takes everything that is queued, writes it with one call, syncs once, then calls back
in order. While the disk works the next group queues up: load makes groups larger, not waits longer.
Nothing is called back before the sync. Nothing is written to a segment after a write or a sync of
the log has failed.

Follows the group commit of YugabyteDB and Kudu (specs, B3 to B5), with their gaps closed: a failure
poisons the log, the tail is cut and synced before a segment is continued, and a full disk leaves
room for seals and trims.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs
import trio

from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import (
    BeyondTailError,
    DiskFullError,
    OverloadedError,
    StorageError,
    TooLargeError,
    TrimmedError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.ports import File, Storage
from virtuallog_loglets.wal.core import segment_format as fmt
from virtuallog_loglets.wal.core.record import Address, WalRecord, address_of, offset_of, sequence_of
from virtuallog_loglets.wal.core.segment import Segment, size_of
from virtuallog_loglets.wal.index_writer import IndexedState, IndexWriter
from virtuallog_loglets.wal.metrics import WalMetrics, WalStatistics
from virtuallog_loglets.wal.recovery import RecoveredLog, recover_log
from virtuallog_loglets.wal.segment_check import ScrubThrottle, check_closed_untrusted
from virtuallog_loglets.wal.segment_files import SegmentFiles, read_record
from virtuallog_loglets.wal.settings import WalSettings

_WRITING = CrashPoint("wal: a group is encoded, nothing is written")
_SYNCED = CrashPoint("wal: a group is durable, nobody has been told")
_BEGUN = CrashPoint("wal: a segment and its snapshot are durable, nobody has been told")
_CLOSED = CrashPoint("wal: a segment is closed, the next one has not begun", rare=True)

AppendCallback: TypeAlias = Callable[[Sequence[Address] | VirtualLogError], None]
"""Callback of an append: called once with the addresses of the records, or with the error. Must not
block or raise."""


@attrs.define(eq=False)  # not frozen: made on the hottest path, and frozen classes take twice as long to make
class _Waiting:
    """An append in the queue."""

    records: Sequence[WalRecord]
    done: AppendCallback
    size: int
    essential: bool


class WriteAheadLog:
    """A durable sequence of records, dropped from the front in whole segments."""

    def __init__(
        self,
        storage: Storage,
        settings: WalSettings,
        recovered: RecoveredLog,
        now: Callable[[], float] = lambda: 0.0,
        indexes: IndexedState | None = None,
    ) -> None:
        """Private; use `open`."""
        self._settings = settings
        self._now = now
        self._meter = WalMetrics()
        self._segment_files = SegmentFiles(storage, settings, recovered, self._wake)
        self._index_writer: IndexWriter | None = None
        if indexes is not None:
            self._index_writer = IndexWriter(
                storage, indexes, recovered.without_index, lambda: self._segment_files.first
            )
        self.unread = tuple(recovered.unread)
        """Closed segments that `open` has not read, since there was an index. Some may have been
        dropped meanwhile."""
        self._file: File | None = None
        self._segment: Segment | None = None
        if recovered.active is not None:
            self._file, self._segment = recovered.active
        self._opening: list[bytes] = []
        """Header and snapshot of a segment whose first group has not been written yet."""
        self._queue: deque[_Waiting] = deque()
        self._queued_bytes = 0
        self._parked: trio.lowlevel.Task | None = None
        self._ended: VirtualLogError | None = None
        """Error for every further append (poisoned, or `run` has ended); None while appends are accepted."""
        self._groups = self._records = self._syncs = 0

    @classmethod
    async def open(
        cls,
        storage: Storage,
        settings: WalSettings,
        replay: Callable[[Address, WalRecord], None],
        now: Callable[[], float] = lambda: 0.0,
        indexes: IndexedState | None = None,
    ) -> WriteAheadLog:
        """Recover the log in `storage` (an empty one makes a new log): call `replay` for every
        record, in order.

        A torn tail, for which no append was acknowledged, is cut off. Everything replayed is
        durable on return.

        Args:
            storage: storage of this log alone.
            settings: may differ from those with which the files were written.
            replay: must not block.
            now: a monotonic clock in seconds, for the times in `metrics`; without one they are 0.
            indexes: user that makes indexes of closed segments, and takes them in place of the replay of their records.
                Then `open` need not read those segments (see `check`).

        Raises:
            CorruptionError: stored bytes have changed, or a segment is missing. Stop using this copy.
            MalformedError: files of another version.
            StorageError: the disk failed.
        """
        return cls(storage, settings, await recover_log(storage, settings.segment_bytes, replay, indexes), now, indexes)

    async def run(
        self,
        snapshot: Callable[[], Sequence[WalRecord]],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run the appender until cancelled: take everything queued, write it, sync once, call back
        in order.

        `snapshot` is called between groups, when a new segment begins. At that moment every earlier
        append has been called back. Its result is written first in the new segment, becomes durable
        together with the first group there, and is replayed like any other record. So any prefix of
        segments can be dropped.

        After a cancellation nothing is called back any more: the outcome of queued appends is
        unknown.

        Raises:
            StorageError: a write or a sync failed; every append has been, and will be, answered with it.
        """
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._segment_files.run)
                if self._index_writer is not None:
                    nursery.start_soon(self._index_writer.run)
                self._segment_files.make_spare()
                task_status.started()
                failure = await self._append_groups(snapshot)
                nursery.cancel_scope.cancel()
        finally:
            # Cancelled: queued appends are not called back, since no caller is left that could
            # act on it.
            self._ended = self._ended or UnavailableError("the write-ahead log has stopped")
        raise failure

    def append(self, records: Sequence[WalRecord], done: AppendCallback, *, essential: bool = False) -> None:
        """Queue `records`, in this order and after everything queued before. Never blocks.

        `done` is called on the event loop: with the addresses once all of the records are durable,
        in the order of the appends; or with the error. A refusal (nothing was queued) is reported
        before `append` returns. A crash may keep any prefix of the records of an append that was
        not called back.

        Args:
            records: at least one; together at most `group_bytes_max`.
            done: receives the outcome.
            essential: may use the headroom of a full disk (seals, trims, repairs).

        Errors given to `done`:
            StorageError: the log is poisoned; whether the records are in it is unknown.
            DiskFullError: no room and not essential. Nothing was written.
            OverloadedError: `queue_bytes_max` is exceeded. Nothing was queued.
            TooLargeError: over a limit. Nothing was queued.
            UnavailableError: `run` has ended. Nothing was queued.
        """
        size = size_of(records)
        refusal = self._refusal(records, size, essential)
        if refusal is not None:
            done(refusal)
            return
        self._queue.append(_Waiting(records, done, size, essential))
        self._queued_bytes += size
        if self._parked is not None:
            self._wake()

    async def read(self, address: Address) -> WalRecord:
        """Read the record at an address that `append` or `replay` gave.

        Raises:
            TrimmedError: its segment has been dropped; `first` is the lowest address that may still be read.
            BeyondTailError: nothing durable is there yet.
            CorruptionError: the bytes there are not a whole record.
            StorageError: the disk failed.
        """
        sequence, offset = sequence_of(address), offset_of(address)
        if sequence < self._segment_files.first:
            raise self._trimmed()
        tail = self._durable_tail()
        if address >= tail:
            raise BeyondTailError(position=address, tail=tail)
        try:
            async with self._segment_files.reading(sequence) as file:
                return await read_record(file, sequence, offset)
        except StorageError:
            if sequence < self._segment_files.first:  # dropped meanwhile: its file was closed during the read
                raise self._trimmed() from None
            raise

    @property
    def closed(self) -> range:
        """Segments that have a successor and are not dropped."""
        return range(self._segment_files.first, self._segment_files.next_sequence - 1)

    async def check(self, sequence: int, rest: ScrubThrottle) -> None:
        """Read a closed segment, a part at a time, and compare all of it with its checksums.

        Args:
            sequence: one of `closed` or `unread`.
            rest: awaited after each part, with the part's size in bytes.

        Raises:
            TrimmedError: it has been dropped.
            CorruptionError: it is not as it was written.
            MalformedError: likewise.
            StorageError: the disk failed.
        """
        if sequence < self._segment_files.first:
            raise self._trimmed()
        try:
            async with self._segment_files.reading(sequence) as file:
                await check_closed_untrusted(file, sequence, rest)
        except StorageError:
            if sequence < self._segment_files.first:  # dropped meanwhile: its file was closed during the read
                raise self._trimmed() from None
            raise

    def drop_before(self, address: Address) -> None:
        """Allow every segment that lies wholly below `address` to be deleted; the active one never
        is.

        Such segments are unreadable at once. Their files are deleted in the background, oldest
        first, while `run` runs.
        """
        newest = self._segment_files.next_sequence - 1
        if self._segment is not None and not self._segment.synced:
            newest -= 1  # its first group is not durable: it holds no snapshot yet that a recovery could start from
        self._segment_files.drop_below(min(sequence_of(address), newest))

    @property
    def full(self) -> bool:
        """True if the disk had no room for the next segment: the rest of this one is the last room."""
        return self._segment_files.full

    def statistics(self) -> WalStatistics:
        return WalStatistics(
            segments=self._segment_files.segments,
            bytes=self._segment_files.bytes,
            free_bytes=self._free_bytes,
            groups=self._groups,
            records=self._records,
            syncs=self._syncs,
            queued_bytes=self._queued_bytes,
            poisoned=isinstance(self._ended, StorageError),
            full=self.full,
        )

    def metrics(self) -> list[MetricFamily]:
        """See `virtuallog.contract.metrics.MetricsSource`."""
        return self._meter.metrics(self.statistics(), self._settings.queue_bytes_max)

    @property
    def _free_bytes(self) -> int:
        """Bytes left for records: in the active segment and the spare."""
        active = self._segment.room if self._segment is not None else 0
        return active + (self._settings.segment_bytes if self._segment_files.has_spare else 0)

    def _refusal(self, records: Sequence[WalRecord], size: int, essential: bool) -> VirtualLogError | None:
        settings = self._settings
        if self._ended is not None:
            return self._ended
        if size > settings.record_bytes_max:  # else none of the records can be too large
            largest = max(size_of((record,)) - fmt.RECORD_HEADER_BYTES for record in records)
            if largest > settings.record_bytes_max:
                return TooLargeError(what="bytes in a record", size=largest, limit=settings.record_bytes_max)
            if size > settings.group_bytes_max:
                return TooLargeError(what="bytes in an append", size=size, limit=settings.group_bytes_max)
        if self._queued_bytes + size > settings.queue_bytes_max:
            return OverloadedError(f"{self._queued_bytes} bytes wait for the disk")
        if self._segment_files.full and not essential and self._queued_bytes + size > self._room(essential=False):
            self._segment_files.make_spare()  # the caller's retries set the pace of attempts to make the spare
            return _disk_full()
        return None

    def _room(self, *, essential: bool) -> int:
        """Bytes of the active segment that such records may take."""
        if self._segment is None:
            return 0
        reserved = 0 if essential or self._segment_files.has_spare else self._settings.headroom_bytes
        return self._segment.room - reserved

    async def _append_groups(self, snapshot: Callable[[], Sequence[WalRecord]]) -> StorageError:
        """Write groups until the disk fails; then answer all appends with that error, and return it."""
        try:
            while True:
                if self._segment_files.failure is not None:
                    raise self._segment_files.failure
                if not self._queue:
                    await self._park()
                elif self._queue[0].size <= self._room(essential=self._queue[0].essential):
                    await self._write_group()
                elif self._segment_files.has_spare:
                    await self._roll(snapshot)
                elif self._segment_files.full:
                    self._refuse_first()
                else:
                    await self._park()  # until the spare has been made, or could not be made
        except StorageError as error:
            self._poison(error)
            return error

    async def _write_group(self) -> None:
        """Write what is queued and fits, sync once, call back. Not cancelled once the write has begun."""
        assert self._segment is not None
        segment, chunks, self._opening = self._segment, self._opening, []
        offset, records = segment.synced, segment.records
        group = self._take_group(chunks)
        _WRITING.reached()
        started = self._now()
        try:
            await self._write_synced(offset, chunks)
        except StorageError as error:
            self._ended = error
            for done, _ in group:
                done(error)
            raise
        _SYNCED.reached()
        if not offset:
            _BEGUN.reached()
            self._segment_files.make_spare()
        segment.group_synced()
        self._groups += 1
        self._records += segment.records - records
        self._meter.synced(segment.records - records, segment.synced - offset, self._now() - started)
        for done, addresses in group:
            done(addresses)

    async def _write_synced(self, offset: int, chunks: Sequence[bytes]) -> None:
        assert self._file is not None
        try:
            await self._file.write_synced(offset, chunks)
        except DiskFullError as error:
            # No excuse here: the space was allocated when the segment was made. Whether a part
            # was written is unknown.
            raise StorageError(f"{self._file.name}: {error}") from error
        self._syncs += 1

    def _take_group(self, chunks: list[bytes]) -> list[tuple[AppendCallback, Sequence[Address]]]:
        """Encode queued appends behind `chunks`, as many as fit."""
        assert self._segment is not None
        queue, segment = self._queue, self._segment
        stop = segment.end + self._settings.group_bytes_max
        group: list[tuple[AppendCallback, Sequence[Address]]] = []
        while queue:
            first = queue[0]
            if first.size > self._room(essential=first.essential) or segment.end + first.size > stop:
                break
            queue.popleft()
            self._queued_bytes -= first.size
            group.append((first.done, segment.encode(first.records, chunks)))
        return group

    async def _roll(self, snapshot: Callable[[], Sequence[WalRecord]]) -> None:
        """Close the active segment and begin the spare. The snapshot travels with the next group."""
        if self._segment is not None:
            offset, footer = self._segment.footer()
            await self._write_synced(offset, [footer])
            if self._index_writer is not None:
                self._index_writer.add(self._segment.sequence, (self._segment.end, self._segment.records))
            _CLOSED.reached()
        # No await from here to the write of the group: the snapshot is the state behind all
        # earlier appends.
        records = snapshot()
        size, limit = size_of(records), self._settings.snapshot_bytes_max
        if size > limit:
            raise StorageError(
                f"a snapshot of {size} bytes does not fit into a segment ({limit}): enlarge segment_bytes"
            )
        sequence, self._file = self._segment_files.take_spare()
        self._segment, self._opening = Segment.begin(sequence, self._file.size, records)

    def _refuse_first(self) -> None:
        """Refuse the first append in the queue: the disk is full, and it does not fit into the room
        left for its kind."""
        first = self._queue.popleft()
        self._queued_bytes -= first.size
        self._segment_files.make_spare()
        first.done(_disk_full())

    def _poison(self, error: StorageError) -> None:
        """Accept no more appends, for good, and answer those that wait."""
        self._ended = error
        waiting, self._queue, self._queued_bytes = self._queue, deque(), 0
        for append in waiting:
            append.done(error)

    async def _park(self) -> None:
        """Wait for `_wake`. Cancelling it loses nothing: the queue and the segment files keep what
        there is to do."""

        def abort(_raise_cancel: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self._parked = None
            return trio.lowlevel.Abort.SUCCEEDED

        self._parked = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(abort)

    def _wake(self) -> None:
        task, self._parked = self._parked, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def _durable_tail(self) -> Address:
        segment = self._segment
        return (
            address_of(segment.sequence, segment.synced)
            if segment
            else address_of(self._segment_files.next_sequence, 0)
        )

    def _trimmed(self) -> TrimmedError:
        return TrimmedError(first=address_of(self._segment_files.first, fmt.HEADER_BYTES))


def _disk_full() -> DiskFullError:
    return DiskFullError("the disk is full: what is left is kept for seals, trims and repairs")
