"""Batches: one blob with a fixed format; any damage by a disk or a network is noticed."""

from __future__ import annotations

import struct
from contextlib import nullcontext

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.batch import BATCH_BYTES_MAX, BATCH_COUNT_MAX, SEQUENCE_MAX, Batch, SessionId
from virtuallog.contract.errors import CorruptionError, MalformedError, TooLargeError
from virtuallog.exactly_once.session_digest import SessionDigest

SESSION = SessionId(bytes(range(16)))

sessions = st.binary(min_size=16, max_size=16).map(SessionId)
headers = st.dictionaries(st.text(max_size=8), st.binary(max_size=20), max_size=4)
batches = st.builds(
    Batch.build,
    sessions,
    st.integers(0, SEQUENCE_MAX - 12),
    st.lists(st.binary(max_size=40), min_size=1, max_size=12),
    headers,
)


def with_checksum(blob: bytes) -> bytes:
    """Give a forged blob a correct checksum, as an attacker would."""
    return blob[:4] + struct.pack("<I", crc32c(blob[8:])) + blob[8:]


@given(sessions, st.integers(0, SEQUENCE_MAX >> 1), st.lists(st.binary(max_size=40), min_size=1), headers)
def test_what_goes_in_comes_out(session: SessionId, first: int, payloads: list[bytes], named: dict[str, bytes]) -> None:
    """Session, sequence numbers, payloads and headers of any values survive the blob."""
    batch = Batch.parse_untrusted(Batch.build(session, first, payloads, named).blob)

    assert (batch.session, batch.first_sequence, batch.count) == (session, first, len(payloads))
    assert batch.stop_sequence == first + len(payloads)
    assert batch.payloads == payloads
    assert batch.headers == named


@given(batches)
def test_equal_means_equal_bytes(batch: Batch) -> None:
    """A batch that went over the wire is equal to the one that was sent, and finds its place in a dictionary."""
    again = Batch.parse_untrusted(bytes(batch.blob))

    assert again == batch
    assert {batch: 1}[again] == 1
    assert batch != Batch.build(batch.session, batch.first_sequence, [*batch.payloads, b""], batch.headers)


def test_the_format_is_what_it_was() -> None:
    """Version 1, byte for byte: logs written by the first release stay readable."""
    blob = Batch.build(SESSION, 7, [b"ab", b"", b"c"], {"k": b"v"}).blob

    body = bytes(range(16)) + struct.pack("<QII", 7, 3, 8) + struct.pack("<III", 2, 2, 3)
    body += b"\x01\x00k\x01\x00\x00\x00v" + b"abc"
    assert blob == b"VB\x01\x00" + struct.pack("<I", crc32c(body)) + body


@given(batches, st.data())
def test_a_damaged_batch_is_noticed(batch: Batch, data: st.DataObject) -> None:
    """A batch with one changed byte, or a cut end, gives an error of ours, never another and never
    a batch."""
    blob = bytearray(batch.blob)
    at = data.draw(st.integers(0, len(blob) - 1))
    blob[at] ^= data.draw(st.integers(1, 255))
    for damaged in (bytes(blob), batch.blob[:at], batch.blob + b"\x00"):
        with pytest.raises((MalformedError, CorruptionError)):
            Batch.parse_untrusted(damaged)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_batch_or_an_error_of_ours(garbage: bytes) -> None:
    """Any bytes, also with a batch's first bytes and a right checksum, give a batch or an error of
    ours."""
    for blob in (garbage, with_checksum(b"VB\x01\x00" + garbage)):
        try:
            batch = Batch.parse_untrusted(blob)
        except (MalformedError, CorruptionError):
            continue
        assert len(batch.payloads) == batch.count


@given(batches, st.data())
def test_a_forged_batch_is_harmless(batch: Batch, data: st.DataObject) -> None:
    """A batch with changed bytes and a fitting checksum may be another batch, but opening it is safe."""
    blob = bytearray(batch.blob)
    for _ in range(data.draw(st.integers(1, 4))):
        blob[data.draw(st.integers(8, len(blob) - 1))] = data.draw(st.integers(0, 255))
    try:
        forged = Batch.parse_untrusted(with_checksum(bytes(blob)))
        assert len(forged.payloads) == forged.count
        assert all(isinstance(value, bytes) for value in forged.headers.values())
    except MalformedError:
        pass


def test_forged_entries_neither_overlap_nor_run_backwards() -> None:
    """A blob with entry ends that do not ascend is no batch: columnar readers trust them."""
    blob = bytearray(Batch.build(SESSION, 0, [b"ab", b"cd", b"ef"]).blob)
    blob[44:48] = struct.pack("<I", 5)  # the second entry now ends at 5 ...
    blob[40:44] = struct.pack("<I", 9)  # ... and the first one behind it, outside of the batch

    with pytest.raises(MalformedError):
        _ = Batch.parse_untrusted(with_checksum(bytes(blob))).payloads


def test_a_later_version_is_refused_by_name() -> None:
    """A batch of a later version is refused by name."""
    blob = Batch.build(SESSION, 0, [b"x"]).blob

    with pytest.raises(MalformedError, match="version 1"):
        Batch.parse_untrusted(b"VB\x02" + blob[3:])


def test_limits_are_checked_when_a_batch_is_built() -> None:
    """Building a batch of no entries, too many entries or too many bytes fails; the largest of each
    kind works."""
    overhead = len(Batch.build(SESSION, 0, [b""]).blob)

    for payloads in ([], [b""] * (BATCH_COUNT_MAX + 1), [bytes(BATCH_BYTES_MAX - overhead + 1)]):
        with pytest.raises(TooLargeError):
            Batch.build(SESSION, 0, payloads)
    for payloads in ([b""] * BATCH_COUNT_MAX, [bytes(BATCH_BYTES_MAX - overhead)]):
        assert Batch.parse_untrusted(Batch.build(SESSION, 0, payloads).blob).payloads == payloads


def test_a_header_name_has_a_limit_too() -> None:
    """A header name is at most as long as its 16-bit length can tell."""
    assert Batch.build(SESSION, 0, [b""], {"n" * 0xFFFF: b""}).headers == {"n" * 0xFFFF: b""}

    with pytest.raises(TooLargeError):
        Batch.build(SESSION, 0, [b""], {"n" * 0x10000: b""})


@pytest.mark.parametrize("session", [b"", b"short", bytes(17)])
def test_a_session_has_sixteen_bytes(session: bytes) -> None:
    """A session has sixteen bytes: a shorter name would come back padded from the wire, as another
    session."""
    with pytest.raises(AssertionError):
        Batch.build(SessionId(session), 0, [b"x"])


@pytest.mark.parametrize(
    ("first", "is_taken"), [(SEQUENCE_MAX - 1, True), (SEQUENCE_MAX, False), ((1 << 64) - 1, False)]
)
def test_sequence_numbers_end_before_those_that_cannot_be_stored(first: int, is_taken: bool) -> None:
    """The next sequence number of a session is stored with 64 bits, by every replica. One batch of a wrong client, past them, would
    end all of them, again after each restart."""
    batch = Batch.build(SessionId(bytes(16)), first, [b"x"])
    with nullcontext() if is_taken else pytest.raises(MalformedError):
        digest = SessionDigest()
        taken = Batch.parse_untrusted(batch.blob)
        digest.take_batch(taken.session, taken.first_sequence, taken.count, 0)
        assert [each.next_sequence for each in SessionDigest.decode_untrusted(digest.encode()).sessions()] == [
            first + 1
        ]
