"""Records of a Raft log: read back as they were written, and told from anything else."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog.contract.types import POSITION_MAX
from virtuallog_loglets.raft.core.records import (
    RECORD_BYTES_MAX,
    RaftRecord,
    RecordKind,
    RecordPlace,
    build,
    build_batches,
    parse_untrusted,
)

SEGMENT = SegmentId(3, 7)

places = st.builds(
    lambda index, term, first, commit, time_ms: RecordPlace(
        segment=SEGMENT, index=index, term=term, first=first, commit=min(commit, index - 1), time_ms=time_ms
    ),
    st.integers(1, POSITION_MAX), st.integers(1, POSITION_MAX), st.integers(0, POSITION_MAX - 1000),
    st.integers(0, POSITION_MAX), st.integers(0, 1 << 62),
)  # fmt: skip
batches = st.lists(
    st.builds(
        Batch.build, st.binary(min_size=16, max_size=16).map(SessionId), st.integers(0, 1000),
        st.lists(st.binary(max_size=20), min_size=1, max_size=4),
    ),
    min_size=1, max_size=5,
)  # fmt: skip


def fields(record: RaftRecord) -> tuple[object, ...]:
    """Everything that a record says."""
    return (
        record.blob, record.kind, record.segment, record.index, record.term, record.first, record.count, record.commit,
        record.time_ms,
    )  # fmt: skip


def small() -> RaftRecord:
    """A record with two batches, of three entries."""
    place = RecordPlace(segment=SEGMENT, index=5, term=2, first=10, commit=4, time_ms=99)
    two = Batch.build(SessionId(bytes(16)), 0, [b"a", b"b"])
    return build_batches(place, [two, Batch.build(SessionId(bytes([1] * 16)), 8, [b"c"])])


@given(places, batches)
def test_record_of_batches_is_read_back(place: RecordPlace, given_batches: list[Batch]) -> None:
    """All of its header, and its batches at their offsets."""
    made = build_batches(place, given_batches)
    found = parse_untrusted(made.blob)

    assert fields(found) == fields(made)
    assert [placed.batch for placed in found.placed()] == given_batches
    assert next(placed.start for placed in found.placed()) == place.first
    assert found.stop == place.first + sum(batch.count for batch in given_batches)
    assert [offset for offset, _ in found.parts()] == [placed.start for placed in found.placed()]


@given(places, st.sampled_from([RecordKind.NOOP, RecordKind.SEAL, RecordKind.CONFIGURATION]))
def test_record_without_batches_is_read_back(place: RecordPlace, kind: RecordKind) -> None:
    """It takes an index and no offset."""
    made = build(place, kind, b"members" if kind is RecordKind.CONFIGURATION else b"")
    found = parse_untrusted(made.blob)

    assert fields(found) == fields(made)
    assert (found.count, found.stop, list(found.placed()), found.parts()) == (0, place.first, [], [])


@given(st.integers(0, 10_000), st.integers(0, 7))
def test_flipped_bit_is_found(place: int, bit: int) -> None:
    """In any byte: the record is no record, or does not match its checksum."""
    blob = bytearray(small().blob)
    blob[place % len(blob)] ^= 1 << bit

    with pytest.raises((MalformedError, CorruptionError)):
        parse_untrusted(bytes(blob))


@given(st.integers(0, 10_000))
def test_record_that_is_cut_short_is_found(size: int) -> None:
    """At any byte."""
    blob = small().blob
    with pytest.raises((MalformedError, CorruptionError)):
        parse_untrusted(blob[: size % len(blob)])


@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_fail_otherwise(blob: bytes) -> None:
    """Garbage behind the first bytes of a record is refused with a documented error."""
    for start in (b"", b"VR\x01\x01"):
        with suppress(MalformedError, CorruptionError):
            list(parse_untrusted(start + blob).placed())


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (1, {"index": 0}),
        (1, {"term": 0}),
        (1, {"commit": 5}),  # not below its index
        (1, {"count": 0}),
        (2, {"count": 1}),
        (1, {"first": POSITION_MAX}),
        (9, {}),
    ],
    ids=["index", "term", "commit", "no entries", "entries of a NOOP", "past the last offset", "kind"],
)
def test_record_that_contradicts_itself_is_malformed(kind: int, changes: dict[str, int]) -> None:
    """Although its checksum is right: another program has made it."""
    values = {"version": 3, "attempt": 7, "index": 5, "term": 2, "first": 10, "count": int(kind == 1), "commit": 4}
    header = struct.pack("<QQQQQIQQ", *{**values, **changes}.values(), 99)
    checksum = crc32c(header, crc32c(bytes((kind,))))
    with pytest.raises(MalformedError):
        parse_untrusted(struct.pack("<2sBBI", b"VR", 1, kind, checksum) + header)


def test_batches_that_do_not_add_up_are_found_by_the_reader_of_the_batches() -> None:
    """The header says two entries, the body has three."""
    made = small()
    header = struct.pack("<QQQQQIQQ", 3, 7, 5, 2, 10, 2, 4, 99)
    checksum = crc32c(made.body, crc32c(header, crc32c(b"\x01")))
    found = parse_untrusted(struct.pack("<2sBBI", b"VR", 1, 1, checksum) + header + made.body)

    with pytest.raises(MalformedError):
        list(found.placed())


def test_record_larger_than_the_limit_is_malformed() -> None:
    """It is not even read."""
    with pytest.raises(MalformedError):
        parse_untrusted(bytes(RECORD_BYTES_MAX + 1))
