"""Assembly of reads from the records of one replica. Nothing in them is believed."""

from __future__ import annotations

import pytest

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog.contract.types import Gap, GapKind
from virtuallog_loglets.raft.core.read_assembly import RaftCopy, assemble_untrusted
from virtuallog_loglets.raft.core.records import RaftRecord, RecordKind, RecordPlace, build, build_batches
from virtuallog_loglets.raft.messages import RaftRecords, RaftStanding

SEGMENT = SegmentId(1, 0)


def batches(first: int, *sizes: int, segment: SegmentId = SEGMENT) -> RaftRecord:
    """A record with batches of these numbers of entries."""
    place = RecordPlace(segment=segment, index=first + 1, term=1, first=first, commit=0, time_ms=5)
    made = [Batch.build(SessionId(bytes([number] * 16)), 0, [b"x"] * size) for number, size in enumerate(sizes)]
    return build_batches(place, made)


def noop(first: int) -> RaftRecord:
    """A record without entries."""
    place = RecordPlace(segment=SEGMENT, index=first + 1, term=1, first=first, commit=0, time_ms=5)
    return build(place, RecordKind.NOOP)


def assembled(*records: RaftRecord | bytes, start: int = 0, stop: int = 99, trim: int = 0) -> RaftCopy:
    """What a reader makes of these records."""
    blobs = tuple(each.blob if isinstance(each, RaftRecord) else each for each in records)
    reply = RaftRecords(records=blobs, standing=RaftStanding(tail=50, sealed=False, trim=trim))
    return assemble_untrusted(SEGMENT, reply, start, stop)


def spans(copy: RaftCopy) -> list[tuple[int, int]]:
    """Offsets of the parts of a copy."""
    return [(item.start, item.stop) for item in copy.items]


def test_batches_of_consecutive_records_are_put_together() -> None:
    """Records without entries between them leave no gap."""
    copy = assembled(batches(0, 2, 1), noop(3), batches(3, 4))

    assert spans(copy) == [(0, 2), (2, 3), (3, 7)]
    assert copy.damage is None


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [(1, 99, [(1, 2), (2, 3), (3, 7)]), (0, 2, [(0, 2)]), (2, 5, [(2, 3), (3, 5)]), (7, 9, []), (3, 3, [])],
)
def test_batches_are_cut_to_what_was_asked_for(start: int, stop: int, expected: list[tuple[int, int]]) -> None:
    """A record may begin below and end above."""
    assert spans(assembled(batches(0, 2, 1), batches(3, 4), start=start, stop=stop)) == expected


def test_what_was_trimmed_is_a_gap() -> None:
    """Up to the trim, and not past what was asked for."""
    copy = assembled(batches(3, 4), start=1, trim=4)
    assert copy.items[0] == Gap(1, 4, GapKind.TRIMMED)
    assert spans(copy) == [(1, 4), (4, 7)]
    assert assembled(trim=50, stop=9).items == [Gap(0, 9, GapKind.TRIMMED)]


def test_hole_ends_the_copy() -> None:
    """The rest of a reply with a hole is not used."""
    assert spans(assembled(batches(0, 2), batches(3, 4))) == [(0, 2)]
    assert spans(assembled(batches(3, 4))) == []


@pytest.mark.parametrize("damage", ["bit", "garbage", "other loglet"])
def test_damaged_record_ends_the_copy_and_is_told(damage: str) -> None:
    """What lies before it is good."""
    blob = bytearray(batches(2, 1).blob)
    blob[-1] ^= 1
    bad = {
        "bit": bytes(blob),
        "garbage": b"garbage",
        "other loglet": batches(2, 1, segment=SegmentId(9, 9)).blob,
    }
    copy = assembled(batches(0, 2), bad[damage], batches(3, 1))

    assert spans(copy) == [(0, 2)]
    assert isinstance(copy.damage, CorruptionError | MalformedError)
