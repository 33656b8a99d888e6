"""Markers that count: the first of each batch, in the order of batches, for every reader and from
every start."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from pyspark_virtuallog.markers.ledger import Ledger, Verdict
from pyspark_virtuallog.markers.marker import HEADS_MAX, Checkpoint, Marker, PlacedMarker, QueryId, Winner
from virtuallog.contract.batch import SessionId
from virtuallog.contract.types import LogPosition

WINNER = Winner(SessionId(b"s" * 16), LogPosition(0), LogPosition(0), 1, 1)
NOTHING = Checkpoint(LogPosition(0), ())


def query(name: int) -> QueryId:
    return QueryId(name.to_bytes(16, "big"))


def at(position: int, name: int, batch: int | None) -> PlacedMarker:
    checkpoint = None if batch is None else NOTHING
    return PlacedMarker(LogPosition(position), Marker(query(name), batch, checkpoint, (WINNER,)))


def played(markers: list[PlacedMarker]) -> list[bool]:
    ledger = Ledger(LogPosition(0))
    return [ledger.play(marker) for marker in markers]


def test_the_first_marker_of_a_batch_counts() -> None:
    """The picture in the module: a driver that was taken for dead goes on as if nothing had happened."""
    log = [at(100, 1, 5), at(140, 1, 6), at(230, 1, 5), at(260, 1, 6), at(310, 1, 7)]

    assert played(log) == [True, True, False, False, True]


def test_batches_without_rows_leave_no_marker_and_are_passed_over() -> None:
    """The next batch counts although a number is missing."""
    assert played([at(1, 1, 0), at(2, 1, 4), at(3, 1, 3)]) == [True, True, False]


def test_queries_do_not_touch_each_other() -> None:
    """Numbers of batches mean something within one query only."""
    assert played([at(1, 1, 5), at(2, 2, 5), at(3, 1, 5), at(4, 2, 6)]) == [True, True, False, True]


def test_a_job_of_its_own_always_counts() -> None:
    """It has no number that another one could have had before."""
    assert played([at(1, 1, None), at(2, 1, None), at(3, 1, 0), at(4, 1, None)]) == [True] * 4


def test_verdicts() -> None:
    """The ledger's verdict on a batch decides if it may be committed."""
    ledger = Ledger(LogPosition(0))
    ledger.play(at(1, 1, 5))

    assert [ledger.verdict(query(1), batch) for batch in (4, 5, 6)] == [
        Verdict.SUPERSEDED,
        Verdict.COMMITTED,
        Verdict.OPEN,
    ]
    assert ledger.verdict(query(2), 0) is Verdict.OPEN


def test_the_query_that_was_silent_for_longest_is_forgotten() -> None:
    """A marker is bounded, so memory is: one more than it holds drops the one whose last batch lies furthest back."""
    ledger = Ledger(LogPosition(0))
    ledger.play_to([at(name, name, 0) for name in range(HEADS_MAX)], LogPosition(HEADS_MAX))
    ledger.play(at(HEADS_MAX, 0, 1))  # the oldest one speaks again
    ledger.play(at(HEADS_MAX + 1, HEADS_MAX, 0))

    assert ledger.verdict(query(0), 1) is Verdict.COMMITTED
    assert ledger.verdict(query(1), 0) is Verdict.OPEN
    assert len(ledger.checkpoint().heads) == HEADS_MAX


@given(some.lists(some.tuples(some.integers(1, 3), some.none() | some.integers(0, 4)), max_size=30), some.data())
def test_a_checkpoint_and_what_follows_say_the_same_as_all(
    log: list[tuple[int, int | None]], data: some.DataObject
) -> None:
    """Wherever a reader begins, each marker gets the same verdict: it is a function of the log alone."""
    markers = [at(2 * place, name, batch) for place, (name, batch) in enumerate(log)]
    split = LogPosition(data.draw(some.integers(0, 2 * len(log) + 1)))

    before = Ledger(LogPosition(0))
    before.play_to(markers, split)
    after = Ledger.of(before.checkpoint())
    verdicts = [after.play(marker) for marker in markers if marker.position >= split]

    assert verdicts == played(markers)[len(markers) - len(verdicts) :]


@given(some.lists(some.tuples(some.integers(1, 3), some.integers(0, 4)), max_size=30))
def test_no_batch_counts_twice_and_the_highest_always_does(log: list[tuple[int, int]]) -> None:
    """For any order of markers, and any repetitions."""
    markers = [at(place, name, batch) for place, (name, batch) in enumerate(log)]
    counted = [named for named, counts in zip(log, played(markers), strict=True) if counts]

    assert len(counted) == len(set(counted))
    for name in {name for name, _ in log}:
        assert (name, max(batch for other, batch in log if other == name)) in counted
