"""Write-ahead log over a `Storage`: appends with callbacks (`segment_writer.py`), reads by address.

Follows the group commit of YugabyteDB and Kudu (specs, B3 to B5), with their gaps closed: a failure
poisons the log, the tail is cut and synced before a segment is continued, and a full disk leaves
room for seals and trims.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio

from virtuallog.contract.errors import BeyondTailError, StorageError, TrimmedError
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.ports import Storage
from virtuallog_loglets.wal.core import segment_format as fmt
from virtuallog_loglets.wal.core.record import Address, WalRecord, address_of, offset_of, sequence_of
from virtuallog_loglets.wal.index_writer import IndexedState, IndexWriter
from virtuallog_loglets.wal.metrics import WalMetrics, WalStatistics
from virtuallog_loglets.wal.recovery import RecoveredLog, recover_log
from virtuallog_loglets.wal.segment_check import ScrubThrottle, check_closed_untrusted
from virtuallog_loglets.wal.segment_files import SegmentFiles, read_record
from virtuallog_loglets.wal.segment_writer import AppendCallback, SegmentWriter
from virtuallog_loglets.wal.settings import WalSettings


class WriteAheadLog:
    """A durable sequence of records, dropped from the front in whole segments."""

    def __init__(
        self,
        storage: Storage,
        settings: WalSettings,
        recovered: RecoveredLog,
        now: Callable[[], float] = lambda: 0.0,
        indexes: IndexedState | None = None,
        meter: WalMetrics | None = None,
    ) -> None:
        """Private; use `open`."""
        self._settings = settings
        self._meter = meter or WalMetrics.of_log_server()
        self._segment_files = SegmentFiles(storage, settings, recovered, self._files_changed)
        self._index_writer: IndexWriter | None = None
        if indexes is not None:
            self._index_writer = IndexWriter(
                storage, indexes, recovered.without_index, lambda: self._segment_files.first
            )
        self.unread = tuple(recovered.unread)
        """Closed segments that `open` has not read, since there was an index. Some may have been
        dropped meanwhile."""
        active = recovered.active or (None, None)
        self._writer = SegmentWriter(settings, self._segment_files, self._index_writer, self._meter, now, *active)

    @classmethod
    async def open(
        cls,
        storage: Storage,
        settings: WalSettings,
        replay: Callable[[Address, WalRecord], None],
        now: Callable[[], float] = lambda: 0.0,
        indexes: IndexedState | None = None,
        meter: WalMetrics | None = None,
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
            meter: counters and histograms; None for those of a LogServer.

        Raises:
            CorruptionError: stored bytes have changed, or a segment is missing. Stop using this copy.
            MalformedError: files of another version.
            StorageError: the disk failed.
        """
        recovered = await recover_log(storage, settings.segment_bytes, replay, indexes)
        return cls(storage, settings, recovered, now, indexes, meter)

    async def run(
        self,
        snapshot: Callable[[], Sequence[WalRecord]],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run the appender until cancelled.

        `snapshot` is called between groups, when a new segment begins. At that moment every earlier
        append has been called back. Its result is written first in the new segment, becomes durable
        together with the first group there, and is replayed like any other record. So any prefix of
        segments can be dropped.

        After a cancellation nothing is called back any more: the outcome of queued appends, and of
        those in the group being written, is unknown. That write has ended on return.

        Raises:
            StorageError: a write or a sync failed; every append has been, and will be, answered with it.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._segment_files.run)
            if self._index_writer is not None:
                nursery.start_soon(self._index_writer.run)
            if self._writer.segment is not None or not self._settings.begins_late:
                self._segment_files.make_spare()
            task_status.started()
            failure = await self._writer.run(snapshot)
            nursery.cancel_scope.cancel()
        raise failure

    def append(
        self, records: Sequence[WalRecord], done: AppendCallback, *, essential: bool = False, stream: object = None
    ) -> None:
        """Queue `records`, in this order and after everything queued before. Never blocks.

        `done` is called on the event loop: with the addresses once all of the records are durable,
        in the order of the appends; or with the error. A refusal is reported before `append` returns
        (nothing was queued), or later, if the disk turns out to be full. A crash may keep any prefix of the records of an append that was
        not called back.

        Args:
            records: at least one; together at most `group_bytes_max`.
            done: receives the outcome.
            essential: may use the headroom of a full disk (seals, trims, repairs).
            stream: identity of appends that rest on each other: if one is refused later, so are those of
                the same stream behind it. None if they rest on nothing.

        Errors given to `done`:
            StorageError: the log is poisoned; whether the records are in it is unknown.
            DiskFullError: no room and not essential. Nothing was written.
            OverloadedError: `queue_bytes_max` is exceeded. Nothing was queued.
            TooLargeError: over a limit. Nothing was queued.
            UnavailableError: `run` has ended. Nothing was queued.
        """
        self._writer.append(records, done, essential=essential, stream=stream)

    def lacks_room(self, size: int) -> bool:
        """True if the disk is full, and has no room for so many bytes of records that are not essential; tries again to make some."""
        return self._writer.lacks_room(size)

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
        active = self._writer.segment
        if active is not None and not active.synced:
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
            groups=self._writer.groups,
            records=self._writer.records,
            syncs=self._writer.syncs,
            queued_bytes=self._writer.queued_bytes,
            writing_seconds=self._writer.writing_seconds,
            poisoned=isinstance(self._writer.ended, StorageError),
            full=self.full,
        )

    def metrics(self) -> list[MetricFamily]:
        """See `virtuallog.contract.metrics.MetricsSource`."""
        return self._meter.metrics(self.statistics(), self._settings.queue_bytes_max)

    @property
    def _free_bytes(self) -> int:
        """Bytes left for records: in the active segment and the spare."""
        active = self._writer.segment.room if self._writer.segment is not None else 0
        return active + (self._settings.segment_bytes if self._segment_files.spare is not None else 0)

    def _files_changed(self) -> None:
        self._writer.wake()

    def _durable_tail(self) -> Address:
        segment = self._writer.segment
        return (
            address_of(segment.sequence, segment.synced)
            if segment
            else address_of(self._segment_files.next_sequence, 0)
        )

    def _trimmed(self) -> TrimmedError:
        return TrimmedError(first=address_of(self._segment_files.first, fmt.HEADER_BYTES))
