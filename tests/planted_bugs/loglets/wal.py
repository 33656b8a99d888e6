"""Bugs of the write-ahead log beneath the LogServers."""

from __future__ import annotations

from typing import Final

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.contract.errors import StorageError
from virtuallog_loglets.native.core import segment_index
from virtuallog_loglets.native.core.durable_state import DurableLogs
from virtuallog_loglets.wal.core import segment_format as fmt
from virtuallog_loglets.wal.core import tail_scan
from virtuallog_loglets.wal.core.record import Address, WalRecord, address_of, sequence_of
from virtuallog_loglets.wal.core.tail_scan import RecordVisitor, ScanResult
from virtuallog_loglets.wal.log import WriteAheadLog


@mutant(
    WriteAheadLog._write_group,
    published="Redpanda 21.10, NATS JetStream 2.12.1",
    scenario="loaded",
    found_by=["acknowledged below the stop", "loglet tails move forward", "acknowledged is readable"],
)
async def acknowledged_before_the_sync(self: WriteAheadLog) -> None:
    """A group is called back, and counted as durable, before it is written."""
    assert self._segment is not None
    segment, chunks, self._opening = self._segment, self._opening, []
    offset = segment.synced
    group = self._take_group(chunks)
    segment.group_synced()
    for done, addresses in group:
        done(addresses)
    await self._write_synced(offset, chunks)
    if not offset:
        self._segment_files.make_spare()


@mutant(
    WriteAheadLog._write_group,
    published="fsyncgate, PostgreSQL 2018",
    scenario="broken-disk",
    found_by=[
        "acknowledged below the stop",
        "loglet tails move forward",
        "acknowledged is readable",
    ],
)
async def failed_sync_taken_for_a_sync(self: WriteAheadLog) -> None:
    """Callers that wait for a group whose sync failed hear that it is durable; the log ends only after that."""
    assert self._segment is not None
    segment, chunks, self._opening = self._segment, self._opening, []
    offset = segment.synced
    group = self._take_group(chunks)
    failure: StorageError | None = None
    try:
        await self._write_synced(offset, chunks)
    except StorageError as error:
        failure = error
    if not offset:
        self._segment_files.make_spare()
    segment.group_synced()
    for done, addresses in group:
        done(addresses)
    if failure is not None:
        raise failure


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
