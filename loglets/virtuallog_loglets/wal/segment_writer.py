"""Group commit into the active segment of a write-ahead log.

    append --> queue --> _cut_group --> one write, one sync --> _group_written --> callbacks
                 ^         end of the turn, if no group is being written              |
                 '------------------ the next group, if anything waits ---------------'

A group is everything that is queued when it is cut, and is called back in order. While the disk
works the next group queues up: load makes groups larger, not waits longer. Nothing is called back
before the sync. Nothing is written to a segment after a write or a sync of the log has failed.

No task is on this path. The appender's task (`run`) has the rest: it begins segments, refuses what
a full disk has no room for, and ends the log when the disk fails. While it works no group is begun.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs
import trio

from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import (
    DiskFullError,
    OverloadedError,
    StorageError,
    TooLargeError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.ports import File
from virtuallog_loglets.wal.core import segment_format as fmt
from virtuallog_loglets.wal.core.record import Address, WalRecord
from virtuallog_loglets.wal.core.segment import Segment, size_of
from virtuallog_loglets.wal.index_writer import IndexWriter
from virtuallog_loglets.wal.metrics import WalMetrics
from virtuallog_loglets.wal.segment_files import SegmentFiles
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
    stream: object


@attrs.define(eq=False)
class _Group:
    """The group being written."""

    callbacks: list[tuple[AppendCallback, Sequence[Address]]]
    offset: int
    """Offset of its first byte in the segment."""
    records: int
    """Number of records before it in the segment."""
    since: float


@attrs.define(eq=False)
class SegmentWriter:
    """Writer of the active segment, and of the next ones."""

    _settings: WalSettings
    _segment_files: SegmentFiles
    _index_writer: IndexWriter | None
    _meter: WalMetrics
    _now: Callable[[], float]
    _file: File | None
    segment: Segment | None
    """The active segment; None before the first one."""
    ended: VirtualLogError | None = attrs.field(default=None, init=False)
    """Error for every further append (poisoned, or `run` has ended); None while appends are accepted."""
    queued_bytes: int = attrs.field(default=0, init=False)
    groups: int = attrs.field(default=0, init=False)
    records: int = attrs.field(default=0, init=False)
    syncs: int = attrs.field(default=0, init=False)
    _opening: list[bytes] = attrs.field(factory=list, init=False)
    """Header and snapshot of a segment whose first group has not been written yet."""
    _queue: deque[_Waiting] = attrs.field(factory=deque, init=False)
    _group: _Group | None = attrs.field(default=None, init=False)
    """The last group that was cut."""
    _is_writing: bool = attrs.field(default=False, init=False)
    """True from when a group is begun until it is durable, or has failed."""
    _since: float | None = attrs.field(default=None, init=False)
    """Time at which the write under way was given to the disk. None if there is none."""
    _may_begin: bool = attrs.field(default=False, init=False)
    """True if an append may begin a group: none is being written, and the appender's task is parked."""
    _parked: trio.lowlevel.Task | None = attrs.field(default=None, init=False)

    @property
    def writing_seconds(self) -> float:
        """Age of the write under way. 0 if there is none."""
        return 0.0 if self._since is None else self._now() - self._since

    def append(self, records: Sequence[WalRecord], done: AppendCallback, *, essential: bool, stream: object) -> None:
        """See `WriteAheadLog.append`."""
        size = size_of(records)
        refusal = self._refusal(records, size, essential)
        if refusal is not None:
            done(refusal)
            return
        self._queue.append(_Waiting(records, done, size, essential, stream))
        self.queued_bytes += size
        if self.segment is None and self._segment_files.spare is None:
            self._segment_files.make_spare()
        if self._may_begin:
            self._go_on()

    def _refusal(self, records: Sequence[WalRecord], size: int, essential: bool) -> VirtualLogError | None:
        settings = self._settings
        if self.ended is not None:
            return self.ended
        if size > settings.record_bytes_max:  # else none of the records can be too large
            largest = max(size_of((record,)) - fmt.RECORD_HEADER_BYTES for record in records)
            if largest > settings.record_bytes_max:
                return TooLargeError(what="bytes in a record", size=largest, limit=settings.record_bytes_max)
            if size > settings.group_bytes_max:
                return TooLargeError(what="bytes in an append", size=size, limit=settings.group_bytes_max)
        if self.queued_bytes + size > settings.queue_bytes_max:
            return OverloadedError(f"{self.queued_bytes} bytes wait for the disk")
        return _disk_full() if not essential and self.lacks_room(size) else None

    def lacks_room(self, size: int) -> bool:
        """See `WriteAheadLog.lacks_room`."""
        if not self._segment_files.full or self.queued_bytes + size <= self._room(essential=False):
            return False
        self._segment_files.make_spare()  # the caller's retries set the pace of attempts to make the spare
        return True

    def _room(self, *, essential: bool) -> int:
        """Bytes of the active segment that such records may take."""
        segment = self.segment
        if segment is None:
            return 0
        reserved = 0 if essential or self._segment_files.spare is not None else self._settings.headroom_bytes
        return segment.limit - segment.end - reserved

    async def run(self, snapshot: Callable[[], Sequence[WalRecord]]) -> StorageError:
        """Begin segments until the disk fails; then answer all appends with that error, and return it.

        Cancelled, it returns once the group being written is on the disk; nothing is called back
        any more.
        """
        try:
            while True:
                if not self._is_writing:
                    await self._make_way(snapshot)
                    self._may_begin = True
                    self._go_on()
                await self._park()
                if isinstance(self.ended, StorageError):
                    raise self.ended
        except StorageError as error:
            self._poison(error)
            return error
        finally:
            # Cancelled: queued appends are not called back, since no caller is left that could act
            # on it. The files may be opened anew, so no write may go on in them.
            self._may_begin = False
            self.ended = self.ended or UnavailableError("the write-ahead log has stopped")
            while self._is_writing:
                with trio.CancelScope(shield=True):
                    await self._park()

    async def _make_way(self, snapshot: Callable[[], Sequence[WalRecord]]) -> None:
        """Do what must be done before the first append in the queue can be written."""
        self._may_begin = False
        while True:
            if self._segment_files.failure is not None:
                raise self._segment_files.failure
            if not self._queue or self._first_fits:
                return
            if self._segment_files.spare is not None:
                await self._roll(snapshot)
            elif self._segment_files.full:
                self._refuse_first()
            else:
                await self._park()  # until the spare has been made, or could not be made

    @property
    def _first_fits(self) -> bool:
        first = self._queue[0]
        return first.size <= self._room(essential=first.essential)

    def _go_on(self) -> None:
        """Begin the next group, if there is anything for it, or leave to the task what comes before it."""
        if self._segment_files.failure is not None:
            self.wake()
        elif self._queue:
            if self._first_fits:
                assert self._file is not None
                self._may_begin, self._is_writing = False, True
                self._file.write_soon(self._cut_group, self._group_written)
            else:
                self.wake()

    def _cut_group(self) -> tuple[int, Sequence[bytes]]:
        """Take what is queued and fits. Called at the end of the turn in which the group was begun."""
        assert self.segment is not None
        segment, chunks, self._opening = self.segment, self._opening, []
        offset, records = segment.synced, segment.records
        self._since = self._now()
        self._group = _Group(self._take_group(chunks), offset, records, self._since)
        _WRITING.reached()
        return offset, chunks

    def _group_written(self, failure: VirtualLogError | None) -> None:
        """Call back, and begin the next group: the disk has as little rest as possible."""
        self._is_writing, self._since = False, None
        if isinstance(failure, UnavailableError):
            self.ended = self.ended or StorageError(str(failure))
        if self.ended is not None:  # cancelled meanwhile, or this process has lost its storage
            self.wake()
            return
        group, segment = self._group, self.segment
        assert group is not None
        assert segment is not None
        if failure is not None:
            self._fail(group, failure)
            return
        _SYNCED.reached()
        if not group.offset:
            _BEGUN.reached()
            self._segment_files.make_spare()
        segment.group_synced()
        seconds = self._now() - group.since
        for done, addresses in group.callbacks:
            done(addresses)
        self._may_begin = True
        self._go_on()
        # behind the answers and the next group
        self.groups += 1
        self.syncs += 1
        records = segment.records - group.records
        self.records += records
        self._meter.synced(records, segment.synced - group.offset, seconds)

    def _fail(self, group: _Group, failure: VirtualLogError) -> None:
        assert self._file is not None
        # A full disk is no excuse here: the space was allocated when the segment was made. Whether
        # a part was written is unknown.
        error = failure if isinstance(failure, StorageError) else StorageError(f"{self._file.name}: {failure}")
        self.ended = error
        for done, _ in group.callbacks:
            done(error)
        self.wake()

    async def _close_segment(self, segment: Segment) -> None:
        assert self._file is not None
        offset, footer = segment.footer()
        self._since = self._now()
        try:
            await self._file.write_synced(offset, [footer])
        except DiskFullError as error:  # as in `_fail`
            raise StorageError(f"{self._file.name}: {error}") from error
        finally:
            self._since = None
        self.syncs += 1
        if self._index_writer is not None:
            self._index_writer.add(segment.sequence, (segment.end, segment.records))
        _CLOSED.reached()

    def _take_group(self, chunks: list[bytes]) -> list[tuple[AppendCallback, Sequence[Address]]]:
        """Encode queued appends behind `chunks`, as many as fit."""
        assert self.segment is not None
        queue, segment = self._queue, self.segment
        stop = segment.end + self._settings.group_bytes_max
        group: list[tuple[AppendCallback, Sequence[Address]]] = []
        while queue:
            first = queue[0]
            if first.size > self._room(essential=first.essential) or segment.end + first.size > stop:
                break
            queue.popleft()
            self.queued_bytes -= first.size
            group.append((first.done, segment.encode(first.records, chunks)))
        return group

    async def _roll(self, snapshot: Callable[[], Sequence[WalRecord]]) -> None:
        """Close the active segment and begin the spare. The snapshot travels with the next group."""
        if self.segment is not None:
            await self._close_segment(self.segment)
        # No group is written from here to the one that this one's snapshot travels with: it is the
        # state behind all earlier appends.
        records = snapshot()
        size, limit = size_of(records), self._settings.snapshot_bytes_max
        if size > limit:
            raise StorageError(
                f"a snapshot of {size} bytes does not fit into a segment ({limit}): enlarge segment_bytes"
            )
        sequence, self._file = self._segment_files.take_spare()
        self.segment, self._opening = Segment.begin(sequence, self._file.size, records)

    def _refuse_first(self) -> None:
        """Refuse the first append in the queue, and those of its stream behind it: the disk is full, and
        it does not fit into the room left for its kind."""
        first = self._queue.popleft()
        refused = [first]
        if first.stream is not None:
            refused += [each for each in self._queue if each.stream is first.stream]
            self._queue = deque(each for each in self._queue if each.stream is not first.stream)
        self.queued_bytes -= sum(each.size for each in refused)
        self._segment_files.make_spare()
        for each in refused:
            each.done(_disk_full())

    def _poison(self, error: StorageError) -> None:
        """Accept no more appends, for good, and answer those that wait."""
        self.ended = error
        waiting, self._queue, self.queued_bytes = self._queue, deque(), 0
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

    def wake(self) -> None:
        """Let the appender's task look what there is to do."""
        task, self._parked = self._parked, None
        if task is not None:
            trio.lowlevel.reschedule(task)


def _disk_full() -> DiskFullError:
    return DiskFullError("the disk is full: what is left is kept for seals, trims and repairs")
