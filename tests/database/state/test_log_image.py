"""A state in a log: what its records say, what the image of them holds, and what of the log is still needed."""

from __future__ import annotations

import random
import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog_database.errors import BinaryTooOldError
from virtuallog_database.state.core.log_image import LogImage
from virtuallog_database.state.core.log_records import (
    FRAME_BYTES,
    DiffRecord,
    ExpungeRecord,
    LogRecord,
    SnapshotRecord,
    cost_of,
    parse_untrusted,
)
from virtuallog_database.state.variable import NAME_BYTES_MAX, StateEntry

ENTRY_BYTES = 1 << 20
"""Bytes that fit into one entry of the log of these tests."""

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
versions = st.binary(min_size=16, max_size=16)
values = st.binary(max_size=100)
entries = st.builds(StateEntry, values, versions)
numbers = st.integers(0, 2**32 - 1)
records = st.one_of(
    st.builds(SnapshotRecord, st.lists(st.tuples(names, entries), min_size=1, max_size=3).map(tuple)),
    st.builds(DiffRecord, names, versions, versions, numbers, numbers, values),
    st.builds(ExpungeRecord, names, versions),
)


class Log:
    """A log with one writer: all records, and the image of them."""

    def __init__(self, image: LogImage, seed: int = 1) -> None:
        self.image = image
        self.records: dict[int, bytes] = {}
        self._random = random.Random(seed)
        self._next = image.next_position

    def append(self, record: LogRecord) -> None:
        self.image.apply(self._next, record)
        self.records[self._next] = record.encode()
        self._next += self._random.choice((1, 1, 1, 2))  # a position of the log itself in between

    def set(self, name: str, value: bytes) -> None:
        """What a storage does for a write: the record, then one that moves old names, then a truncation."""
        record = self.image.next_record(name, StateEntry(value, self._random.randbytes(16)))
        self.append(record)
        moved = self.image.rewrite(record.cost, ENTRY_BYTES)
        if moved is not None:
            assert len(moved.encode()) <= ENTRY_BYTES
            self.append(moved)

    def expunge(self, name: str) -> None:
        version = self.image.version(name)
        assert version is not None
        self.append(ExpungeRecord(name, version))

    def truncate(self) -> None:
        point = self.image.truncation_point
        self.records = {position: blob for position, blob in self.records.items() if position >= point}
        self.image.truncated()

    def replayed(self) -> LogImage:
        """The image of a client that begins with what is left."""
        image = LogImage(min(self.records, default=self._next), self.image.diffs_between_snapshots)
        for position, blob in self.records.items():
            image.apply(position, parse_untrusted(blob))
        image.complete()
        return image

    def total(self) -> int:
        """Bytes of all records that are left."""
        return sum(len(blob) for blob in self.records.values())


# -- records ----------------------------------------------------------------------------------------------------------


@given(records)
def test_a_record_is_read_as_it_was_written(record: LogRecord) -> None:
    """All values, versions and names come back."""
    assert parse_untrusted(record.encode()) == record


def test_the_format_is_for_ever() -> None:
    """One record of each kind, byte for byte."""
    one, two = b"1" * 16, b"2" * 16
    assert SnapshotRecord((("a", StateEntry(b"xyz", one)),)).encode().hex() == (
        "5653010126722401" + "010061" + "31" * 16 + "03000000" + "78797a"
    )
    assert DiffRecord("a", one, two, 1, 2, b"m").encode().hex() == (
        "5653010267b732f7" + "010061" + "31" * 16 + "32" * 16 + "01000000" + "02000000" + "6d"
    )
    assert ExpungeRecord("a", one).encode().hex() == "5653010356d8b20d" + "010061" + "31" * 16


@given(st.binary(max_size=200))
def test_other_bytes_are_no_record(blob: bytes) -> None:
    """Nor are they anything worse than malformed."""
    with pytest.raises(MalformedError):
        parse_untrusted(blob)


@given(records, st.data())
def test_a_damaged_record_is_none(record: LogRecord, data: st.DataObject) -> None:
    """One changed byte, cut anywhere, or with more behind it."""
    blob = bytearray(record.encode())
    at = data.draw(st.integers(0, len(blob) - 1))
    for damaged in (blob[:at], blob + b"\0"):
        with pytest.raises(MalformedError):
            parse_untrusted(bytes(damaged))
    blob[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(MalformedError):
        parse_untrusted(bytes(blob))


@given(st.binary(min_size=4, max_size=200), st.integers(0, 255))
def test_bytes_with_a_right_checksum_are_a_record_or_malformed(body: bytes, kind: int) -> None:
    """No body of a record that another program has made, on purpose, does any harm."""
    try:
        record = parse_untrusted(sealed(1, kind, body))
    except MalformedError:
        return
    assert record.encode() == sealed(1, kind, body)


def test_a_record_of_a_later_version_needs_a_later_program() -> None:
    """Its checksum tells it from damage. Its body may have any form."""
    with pytest.raises(BinaryTooOldError):
        parse_untrusted(sealed(2, 9, b"anything"))
    with pytest.raises(MalformedError):
        parse_untrusted(b"VS\2" + sealed(1, 1, b"anything")[3:])
    with pytest.raises(MalformedError):
        parse_untrusted(sealed(0, 1, b"anything"))


def test_a_snapshot_of_the_longest_name_has_room() -> None:
    """FRAME_BYTES is what a value has beside it, at most; and a record never counts for less than it takes."""
    name, value = "x" * NAME_BYTES_MAX, b"value"
    record = SnapshotRecord(((name, StateEntry(value, bytes(16))),))
    assert len(record.encode()) == FRAME_BYTES + len(value)
    assert record.cost == cost_of(name, value) > len(record.encode())


@given(values, values)
def test_a_difference_leads_from_one_value_to_the_other(before: bytes, after: bytes) -> None:
    """And holds no byte of what they share in front or behind."""
    base, entry = StateEntry(before, b"1" * 16), StateEntry(after, b"2" * 16)
    diff = DiffRecord.between("name", base, entry)
    assert diff.applied(base) == entry
    assert diff.prefix + diff.suffix + len(diff.middle) == len(after)
    assert DiffRecord.between("name", entry, entry).middle == b""


# -- the image --------------------------------------------------------------------------------------------------------

steps = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.sampled_from("abcdef"), values),
        st.tuples(st.just("append"), st.sampled_from("abcdef"), values),
        st.tuples(st.just("expunge"), st.sampled_from("abcdef"), st.just(b"")),
        st.tuples(st.just("truncate"), st.just(""), st.just(b"")),
    ),
    max_size=60,
)


@given(steps, st.integers(0, 4), st.integers(0, 300))
def test_the_image_is_that_of_a_dict(steps: list[tuple[str, str, bytes]], diffs: int, slack: int) -> None:
    """After any writes, moves and truncations; and a client that begins with what the log still holds has the same one."""
    log, model = Log(LogImage(1, diffs, slack)), dict[str, bytes]()
    for step, name, value in steps:
        if step == "set":
            model[name] = value
            log.set(name, value)
        elif step == "append":
            model[name] = model.get(name, b"") + value
            log.set(name, model[name])
        elif step == "expunge" and name in model:
            del model[name]
            log.expunge(name)
        elif step == "truncate":
            log.truncate()
        replayed = log.replayed()
        for image in (log.image, replayed):
            assert {each: image.get(each).value for each in image.names()} == model  # type: ignore[union-attr]
        assert replayed.truncation_point == log.image.truncation_point or not model
        assert (replayed.live_bytes, replayed.log_bytes) == (log.image.live_bytes, log.image.log_bytes)
        assert log.image.live_bytes <= log.image.log_bytes


def test_a_value_is_stored_as_a_difference_only_if_that_is_smaller() -> None:
    """And only so many times behind one snapshot."""
    log = Log(LogImage(diffs_between_snapshots=2))
    kinds = []
    for number in range(6):
        log.set("name", b"-" * 1000 + b"%d" % number)
        kinds.append(type(parse_untrusted(list(log.records.values())[-1])))
    assert kinds == [SnapshotRecord, DiffRecord, DiffRecord] * 2

    log = Log(LogImage(diffs_between_snapshots=100))
    for value in (b"short", b"shorter", b"", b""):
        log.set("name", value)
    assert all(isinstance(parse_untrusted(blob), SnapshotRecord) for blob in log.records.values())


def test_what_a_name_needs_holds_the_truncation_point() -> None:
    """Differences need the snapshot that they begin with. Without names nothing is needed."""
    image = LogImage(next_position=5, diffs_between_snapshots=9)
    assert image.truncation_point == 5
    entry = StateEntry(bytes(1000), b"1" * 16)
    image.apply(5, image.next_record("a", entry))
    image.apply(7, image.next_record("b", entry))
    diff = image.next_record("a", StateEntry(b"x" + bytes(1000), b"2" * 16))
    assert isinstance(diff, DiffRecord)
    image.apply(8, diff)
    assert image.truncation_point == 5
    image.apply(9, ExpungeRecord("a", b"2" * 16))
    assert image.truncation_point == 7
    image.apply(11, ExpungeRecord("b", b"1" * 16))
    image.skip(12)
    assert image.truncation_point == 13
    assert image.live_bytes == image.log_bytes == 0


def test_a_record_for_another_version_is_corruption() -> None:
    """No difference is applied to a value that it was not made for, and no other version is removed."""
    one, two, three = (StateEntry(bytes(100) + digit, digit * 16) for digit in (b"1", b"2", b"3"))
    diff = DiffRecord.between("name", two, three)
    for record in (diff, ExpungeRecord("name", two.version), ExpungeRecord("other", one.version)):
        for former in ([], [SnapshotRecord((("name", one),))]):
            image = LogImage()
            for position, each in enumerate(former, 1):
                image.apply(position, each)
            with pytest.raises(CorruptionError):
                image.apply(2, record)
    with pytest.raises(CorruptionError):
        DiffRecord("name", b"1" * 16, b"2" * 16, 100, 2, b"").applied(one)


def test_a_truncated_log_may_begin_with_what_is_not_needed() -> None:
    """Another name holds the truncation point. Mesos checks that a DIFF has a base, and ends there; with this log it never starts again."""
    log = Log(LogImage(diffs_between_snapshots=1))
    log.set("a", bytes(1000))
    log.set("b", b"")
    log.set("a", bytes(1001))
    log.set("a", bytes(1002))
    log.truncate()
    assert [type(parse_untrusted(blob)) for blob in log.records.values()] == [
        SnapshotRecord,
        DiffRecord,
        SnapshotRecord,
    ]

    replayed = log.replayed()

    assert replayed.get("a") == log.image.get("a")
    assert replayed.names() == {"a", "b"}


def test_a_truncated_log_must_hold_all_that_is_needed() -> None:
    """Defect 9: the base of a difference was truncated, and nothing replaces it. The name has a value that is lost, so it is not taken for one
    without a value."""
    one, two, three = (StateEntry(bytes(100) + digit, digit * 16) for digit in (b"1", b"2", b"3"))
    image = LogImage(next_position=7)
    image.apply(7, DiffRecord.between("name", one, two))
    with pytest.raises(CorruptionError, match="name"):
        image.complete()
    with pytest.raises(CorruptionError):  # nor do two that do not fit each other go through
        image.apply(8, DiffRecord.between("name", one, three))


@pytest.mark.parametrize("hot_bytes", [10, 1000, 50_000])
def test_a_rarely_written_name_does_not_pin_the_log(hot_bytes: int) -> None:
    """Many names are written once, then one again and again. The log stays below a multiple of what is needed, however large that one is; and
    the names move, each now and then."""
    slack = 20_000
    log = Log(LogImage(diffs_between_snapshots=3, slack_bytes=slack))
    for number in range(200):
        log.set(f"cold {number}", b"%d" % number * 100)
    largest = 0
    for _ in range(3000 if hot_bytes < 50_000 else 300):
        log.set("hot", random.Random(log.image.next_position).randbytes(hot_bytes))
        if log.image.garbage_bytes > slack:
            log.truncate()
        largest = max(largest, log.total() - 4 * log.image.live_bytes)
    assert largest <= 3 * slack + hot_bytes
    assert min(log.records) > 201
    assert log.image.get("cold 7") == log.replayed().get("cold 7")


def test_the_truncation_point_is_found_at_once() -> None:
    """It is right behind each of many writes, and no write takes longer for many names."""
    image = LogImage()
    for position in range(1, 20_001):
        image.apply(position, SnapshotRecord(((str(position % 2000), StateEntry(b"", bytes(16))),)))
        assert image.truncation_point == max(1, position - 1999)


def sealed(version: int, kind: int, body: bytes) -> bytes:
    """Bytes that look like a record."""
    tag = b"VS" + bytes((version, kind))
    return tag + struct.pack("<I", crc32c(body, crc32c(tag))) + body
