"""The format of markers: what is written is read back, and nothing else is taken for one."""

from __future__ import annotations

import attrs
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as some

from pyspark_virtuallog.markers.marker import (
    Checkpoint,
    Head,
    Marker,
    PlacedMarker,
    QueryId,
    Winner,
    marker_of,
    parse_untrusted,
)
from virtuallog.contract.batch import ENTRY_BYTES_MAX, Batch, SessionId
from virtuallog.contract.errors import MalformedError, TooLargeError, UnsupportedError
from virtuallog.contract.types import LogPosition, PlacedBatch

POSITIONS = some.integers(0, 1 << 62).map(LogPosition)
NAMES = some.binary(min_size=16, max_size=16)


@some.composite
def markers(draw: some.DrawFn) -> Marker:
    positions = sorted(draw(some.sets(POSITIONS, max_size=4)))
    queries = draw(some.lists(NAMES, min_size=len(positions), max_size=len(positions), unique=True))
    heads = tuple(
        Head(QueryId(query), draw(some.integers(0, 1 << 40)), position)
        for query, position in zip(queries, positions, strict=True)
    )
    looked = LogPosition(positions[-1] + 1 if positions else draw(POSITIONS))
    winners = []
    for session in draw(some.lists(NAMES, min_size=1, max_size=4, unique=True)):
        first, span = draw(POSITIONS), draw(some.integers(0, 1 << 40))
        count = draw(some.integers(1, span + 1))
        winners.append(Winner(SessionId(session), first, LogPosition(first + span), count, draw(POSITIONS)))
    is_alone = draw(some.booleans())
    batch = None if is_alone else draw(some.integers(0, 1 << 62))
    checkpoint = None if is_alone else Checkpoint(looked, heads)
    return Marker(QueryId(draw(NAMES)), batch, checkpoint, tuple(winners))


def winner(first: int = 1, last: int = 2) -> Winner:
    return Winner(SessionId(b"s" * 16), LogPosition(first), LogPosition(last), last - first + 1, 10)


MARKER = Marker(QueryId(b"q" * 16), 7, Checkpoint(LogPosition(0), ()), (winner(),))


@given(markers())
def test_what_is_written_is_read_back(marker: Marker) -> None:
    """All fields, at their limits too."""
    assert parse_untrusted(marker.encode()) == marker


@given(markers(), some.data())
def test_no_damage_is_taken_for_a_marker(marker: Marker, data: some.DataObject) -> None:
    """One changed byte, or a missing end: it is refused, with an error of ours."""
    blob = bytearray(marker.encode())
    place = data.draw(some.integers(0, len(blob) - 1))
    blob[place] ^= data.draw(some.integers(1, 255))

    for damaged in (bytes(blob), marker.encode()[:place]):
        with pytest.raises((MalformedError, UnsupportedError)):
            parse_untrusted(damaged)


@given(some.binary(max_size=200), some.binary(min_size=56, max_size=200))
def test_strangers_are_no_markers(prefix: bytes, body: bytes) -> None:
    """Neither any bytes, nor any behind a first part that is right."""
    framed = b"VLMARKER\x01\x00" + crc32c(body).to_bytes(4, "little") + body

    for blob in (prefix, framed):
        try:
            parsed = parse_untrusted(blob)
        except MalformedError:
            continue
        assert parsed.encode() == blob


def test_the_format_stays_as_it_is() -> None:
    """These bytes are in logs: another layout is another version."""
    checkpoint = Checkpoint(LogPosition(9), (Head(QueryId(b"h" * 16), 3, LogPosition(5)),))
    marker = Marker(QueryId(b"q" * 16), 7, checkpoint, (winner(10, 12),))

    assert marker.encode().hex() == (
        "564c4d41524b45520100b45ea7e6" + "71" * 16 + "0700000000000000" + "0900000000000000" + "01000000" + "01000000"
        + "68" * 16 + "0300000000000000" + "0500000000000000"
        + "73" * 16 + "0a00000000000000" + "0c00000000000000" + "0300000000000000" + "0a00000000000000"
    )  # fmt: skip


def test_a_later_version_is_refused_by_name() -> None:
    """A reader that skipped it would silently not show its rows."""
    blob = bytearray(MARKER.encode())
    blob[8] = 2

    with pytest.raises(UnsupportedError, match="marker of version 2"):
        parse_untrusted(bytes(blob))


@pytest.mark.parametrize(
    "change",
    [
        {"winners": (winner(), winner())},
        {"winners": (attrs.evolve(winner(), entries=3),)},
        {"winners": (attrs.evolve(winner(), entries=0),)},
        {"checkpoint": Checkpoint(LogPosition(5), (Head(QueryId(b"h" * 16), 3, LogPosition(5)),))},
        {"checkpoint": Checkpoint(LogPosition(9), (Head(QueryId(b"h" * 16), 3, LogPosition(5)),) * 2)},
    ],
    ids=["session twice", "too many entries", "no entries", "head that was not seen", "query twice"],
)
def test_what_contradicts_itself_is_refused(change: dict[str, object]) -> None:
    """Readers would wait for rows that cannot be, or take a batch for two."""
    with pytest.raises(MalformedError):
        parse_untrusted(attrs.evolve(MARKER, **change).encode())  # type: ignore[arg-type]


def test_more_tasks_than_fit_into_an_entry_are_refused() -> None:
    """Before anything is appended."""
    many = tuple(
        Winner(SessionId(number.to_bytes(16, "big")), LogPosition(1), LogPosition(1), 1, 1)
        for number in range(ENTRY_BYTES_MAX // 48)
    )

    with pytest.raises(TooLargeError, match="tasks"):
        attrs.evolve(MARKER, winners=many).encode()


def placed(payloads: list[bytes], position: int) -> PlacedBatch:
    batch = Batch.build(SessionId(b"d" * 16), 0, payloads)
    return PlacedBatch(range(position, position + len(payloads)), batch, 0)


def test_a_marker_is_alone_and_behind_all_that_it_names() -> None:
    """Another one is an entry like any other: its writer has committed nothing."""
    blob = MARKER.encode()

    assert marker_of(placed([blob], 3)) == PlacedMarker(LogPosition(3), MARKER)
    assert marker_of(placed([blob], 2)) is None  # names position 2 itself
    assert marker_of(placed([blob, b"row"], 3)) is None
    assert marker_of(placed([b"row"], 3)) is None
    assert marker_of(placed([blob[:-1]], 3)) is None
