"""A replica's side of replication: does what a leader has sent follow, and what of it is new? (R8, R9, R12)"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog_loglets.raft.core import membership, records
from virtuallog_loglets.raft.core.log import RaftLog
from virtuallog_loglets.raft.core.records import RaftRecord, RecordKind


@attrs.define
class Matched:
    """The records follow."""

    index: int
    """The log is equal to the leader's up to here, once `new` is in it."""
    new: Sequence[RaftRecord]
    """Records to append, behind `keep`."""
    keep: int
    """Last index to keep: what is behind it is of another term."""


@attrs.define
class Diverged:
    """They do not: the logs differ at the index before them, or this one ends earlier."""

    index: int
    """Last index at or below it at which they may be equal."""
    term: int


def parse_all_untrusted(segment: SegmentId, previous: int, term: int, blobs: Sequence[bytes]) -> list[RaftRecord]:
    """Decode the records of a message, which lie back to back behind `previous`, of terms up to `term`.

    Raises:
        MalformedError, CorruptionError: they do not, or cannot be read.
    """
    found: list[RaftRecord] = []
    for blob in blobs:
        record = records.parse_untrusted(blob)
        if record.segment != segment:
            raise CorruptionError(f"a record of loglet {record.segment} was sent to loglet {segment}")
        previous += 1
        if record.index != previous or record.term > term or (found and record.term < found[-1].term):
            raise MalformedError(f"a record of index {record.index}, term {record.term} where {previous} is due")
        found.append(record)
    return found


def match(log: RaftLog, commit: int, previous: int, term: int, sent: Sequence[RaftRecord]) -> Matched | Diverged:
    """Compare a message with the log.

    Nothing is dropped because a message is shorter than the log: only a record of another term at the same index shows
    that the rest is not the leader's. What is committed is equal on both sides, also where the message says nothing about it.

    Raises:
        CorruptionError: a committed record would be replaced. Some replica has broken a promise.
    """
    if previous > commit and not log.matches(previous, term):
        return Diverged(*log.hint(min(previous, log.last_index), term))
    for number, record in enumerate(sent):
        if record.index <= log.base.index or log.matches(record.index, record.term):
            continue
        if record.index <= commit:
            raise CorruptionError(
                f"the committed record at {record.index} would be replaced by one of term {record.term}"
            )
        check_new(log, record.index - 1, sent[number:])
        return Matched(max(previous + len(sent), commit), sent[number:], record.index - 1)
    return Matched(max(previous + len(sent), commit), (), log.last_index)


def check_new(log: RaftLog, keep: int, new: Sequence[RaftRecord]) -> None:
    """Check that records may follow that at `keep`, as to indexes, offsets, terms, members and the SEAL.

    Raises:
        CorruptionError: they contradict the log: no correct leader sends them.
        MalformedError: the members cannot be read.
    """
    offset, sealed, term = log.offset_at(keep), 0 < log.seal <= keep, log.term_at(keep) or 0
    for index, record in enumerate(new, keep + 1):
        if record.index != index or record.first != offset or record.term < term:
            found = f"a record {record.index} at offset {record.first}, term {record.term}"
            raise CorruptionError(f"{found} where {index}, {offset}, {term} is due")
        if sealed and record.kind in (RecordKind.BATCHES, RecordKind.SEAL):
            raise CorruptionError(f"a record of kind {record.kind.name} behind the SEAL")
        if record.kind is RecordKind.CONFIGURATION:
            membership.decode_untrusted(record.index, record.body)
        offset, sealed, term = record.stop, sealed or record.kind is RecordKind.SEAL, record.term
