"""Clipping and shifting of read results, against an obvious slow version."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.types import Data, Gap, GapKind, PlacedBatch

SESSION = SessionId(bytes(16))

bounds = st.integers(0, 60)


@st.composite
def placed_batches(draw: st.DrawFn) -> PlacedBatch:
    """Make a batch somewhere, consecutive or striped."""
    count, step, start = draw(st.integers(1, 8)), draw(st.integers(1, 4)), draw(st.integers(0, 20))
    payloads = [b"%d" % index for index in range(count)]
    batch = Batch.build(SESSION, draw(st.integers(0, 100)), payloads)
    return PlacedBatch(range(start, start + count * step, step), batch, time_ms=5)


def records(placed: PlacedBatch | None) -> list[Data]:
    return list(placed.records()) if placed else []


@given(placed_batches(), bounds, bounds)
def test_clipping_keeps_exactly_the_entries_in_the_range(placed: PlacedBatch, start: int, stop: int) -> None:
    """Clipping keeps place, payload and sequence number of the entries in the range; None if no
    entry is in it."""
    clipped = placed.clip(start, stop)

    assert records(clipped) == [record for record in records(placed) if start <= record.position < stop]
    assert (clipped is None) == (not records(clipped))


@given(placed_batches(), bounds, bounds, bounds, bounds)
def test_clipping_twice_is_clipping_to_both(placed: PlacedBatch, start: int, stop: int, low: int, high: int) -> None:
    """Clipping twice, as a loglet and the chain do, is clipping to both ranges."""
    once = placed.clip(start, stop)

    assert records(once.clip(low, high) if once else None) == records(placed.clip(max(start, low), min(stop, high)))


@given(placed_batches(), st.integers(0, 1000), bounds, bounds)
def test_shifting_moves_places_and_nothing_else(placed: PlacedBatch, by: int, start: int, stop: int) -> None:
    """An entry's payload and sequence number move with it, clipped or not."""
    clipped = placed.clip(start, stop) or placed
    moved = clipped.shift(by)

    assert [(r.position - by, r.payload, r.sequence) for r in records(moved)] == [
        (r.position, r.payload, r.sequence) for r in records(clipped)
    ]
    assert moved.shift(-by) == clipped


@given(placed_batches(), bounds, bounds)
def test_start_and_stop_enclose_the_entries(placed: PlacedBatch, start: int, stop: int) -> None:
    """`stop` is one past the last entry in view, for any stride."""
    clipped = placed.clip(start, stop) or placed
    positions = [record.position for record in records(clipped)]

    assert (clipped.start, clipped.stop) == (min(positions), max(positions) + 1)


def test_what_is_within_the_range_is_not_copied() -> None:
    """A batch within the range is returned as it is: the usual case costs nothing."""
    placed = PlacedBatch(range(3, 5), Batch.build(SESSION, 0, [b"a", b"b"]), time_ms=1)

    assert placed.clip(3, 5) is placed


def test_a_record_says_where_it_is_from() -> None:
    """Session, sequence and time come with each entry."""
    placed = PlacedBatch(range(10, 13), Batch.build(SESSION, 7, [b"a", b"b", b"c"]), time_ms=99)

    assert records(placed.clip(11, 12)) == [Data(11, b"b", 99, SESSION, 8)]  # type: ignore[arg-type]


@given(bounds, st.integers(1, 20), bounds, bounds)
def test_a_gap_is_clipped_like_a_range(start: int, length: int, low: int, high: int) -> None:
    """A clipped gap has the common places of both, with the gap's reason; None if they have no common place."""
    clipped = Gap(start, start + length, GapKind.LOST).clip(low, high)
    common = [place for place in range(start, start + length) if low <= place < high]

    assert clipped == (Gap(common[0], common[-1] + 1, GapKind.LOST) if common else None)


def test_a_gap_is_shifted_whole() -> None:
    """Both ends of a shifted gap move, the reason stays."""
    assert Gap(1, 4, GapKind.TRIMMED).shift(10) == Gap(11, 14, GapKind.TRIMMED)
