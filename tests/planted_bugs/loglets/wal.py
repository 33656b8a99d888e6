"""Bugs of the write-ahead log beneath the LogServers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.contract.errors import VirtualLogError
from virtuallog_loglets.native.core import segment_index
from virtuallog_loglets.native.core.durable_state import DurableLogs
from virtuallog_loglets.wal.core import segment_format as fmt
from virtuallog_loglets.wal.core import tail_scan
from virtuallog_loglets.wal.core.record import Address, WalRecord, address_of, sequence_of
from virtuallog_loglets.wal.core.tail_scan import RecordVisitor, ScanResult
from virtuallog_loglets.wal.log import WriteAheadLog
from virtuallog_loglets.wal.segment_writer import SegmentWriter, _Group

_cut_group: Final = SegmentWriter._cut_group


@mutant(
    SegmentWriter._cut_group,
    published="Redpanda 21.10, NATS JetStream 2.12.1",
    scenario="loaded",
    found_by=["acknowledged below the stop", "loglet tails move forward", "acknowledged is readable"],
)
def acknowledged_before_the_sync(self: SegmentWriter) -> tuple[int, Sequence[bytes]]:
    """A group is called back, and counted as durable, before it is written."""
    offset, chunks = _cut_group(self)
    assert self._group is not None and self.segment is not None
    self.segment.group_synced()
    callbacks, self._group.callbacks = self._group.callbacks, []
    for done, addresses in callbacks:
        done(addresses)
    return offset, chunks


@mutant(
    SegmentWriter._fail,
    published="fsyncgate, PostgreSQL 2018",
    scenario="broken-disk",
    found_by=[
        "acknowledged below the stop",
        "loglet tails move forward",
        "acknowledged is readable",
    ],
)
def failed_sync_taken_for_a_sync(self: SegmentWriter, group: _Group, failure: VirtualLogError) -> None:
    """Callers that wait for a group whose sync failed hear that it is durable; the log ends only after that."""
    assert self.segment is not None
    self.segment.group_synced()
    for done, addresses in group.callbacks:
        done(addresses)
    self.ended = failure
    self.wake()


@mutant(
    tail_scan._scan_records,
    scenario="torn",
    found_by=["restart forgets nothing", "progress"],
)
def torn_tail_accepted(image: bytes, sequence: int, stop: int, visit: RecordVisitor) -> ScanResult:
    """Recovery believes the headers of records, and does not look at what the power left of the rest."""
    at, last_group, records = fmt.HEADER_BYTES, 0, 0
    while (start := at + fmt.RECORD_HEADER_BYTES) <= stop:
        marker, kind, length, _payload, synced, _header = fmt.RECORD.unpack_from(image, at)
        if marker != fmt.MARKER or start + length > stop:
            break
        visit(address_of(sequence, at), WalRecord(kind, image[start : start + length]))
        records, last_group, at = records + 1, synced, start + length
    return ScanResult(records=records, end=at, last_group=last_group)


@mutant(
    DurableLogs.lowest_address_needed,
    scenario="dropped",
    found_by=["restart forgets nothing", "progress"],
)
def segments_dropped_that_hold_live_waves(self: DurableLogs) -> Address:
    """After a trim the WAL may drop all but its newest segment."""
    return self.newest_address


@mutant(
    WriteAheadLog.drop_before,
    scenario="dropped",
    found_by=["restart forgets nothing", "progress"],
)
def one_segment_too_many_dropped(self: WriteAheadLog, address: Address) -> None:
    """The segment that the address lies in goes as well, unless it is being written."""
    self._segment_files.drop_below(min(sequence_of(address) + 1, self._segment_files.next_sequence - 1))


@mutant(
    DurableLogs.index,
    scenario="cluster",
    within=10,
    found_by=["progress", "followers reach the tail", "acknowledged is readable"],
)
def index_without_the_last_wave(self: DurableLogs, sequence: int) -> bytes:
    """The index of a segment lacks the last wave of each loglet in it, and stands for the segment
    at the next start."""
    first, stop = address_of(sequence, 0), address_of(sequence + 1, 0)
    parts = {segment: loglet.waves.part(first, stop) for segment, loglet in self.loglets.items()}
    for part in parts.values():
        for column in part._columns:
            del column[-1:]
    return segment_index.encode({segment: part for segment, part in parts.items() if len(part)})


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
