"""Interval sets against a set of integers."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from virtuallog_loglets.paxos.core.slots import PositionSet

PLACE = st.integers(0, 30)
ADDED = st.lists(st.tuples(PLACE, PLACE), max_size=12)


def both(added: list[tuple[int, int]]) -> tuple[PositionSet, set[int]]:
    positions, slow = PositionSet(), set[int]()
    for start, stop in added:
        positions.add(start, stop)
        slow |= set(range(start, stop))
    return positions, slow


@given(ADDED)
def test_holds_what_was_added(added: list[tuple[int, int]]) -> None:
    """The intervals are ascending and neither overlap nor touch, and hold nothing else."""
    positions, slow = both(added)
    intervals = list(positions)

    assert {place for interval in intervals for place in interval} == slow
    assert all(one.stop < other.start for one, other in pairwise(intervals))
    assert [place in positions for place in range(32)] == [place in slow for place in range(32)]
    assert bool(positions) == bool(slow)


@given(ADDED, PLACE)
def test_drops_what_is_below(added: list[tuple[int, int]], floor: int) -> None:
    """It behaves as a plain set of positions does."""
    positions, slow = both(added)
    positions.drop_below(floor)

    assert {place for interval in positions for place in interval} == {place for place in slow if place >= floor}


@given(ADDED, PLACE)
def test_runs(added: list[tuple[int, int]], place: int) -> None:
    """`run_end` finds the end of a run; a position outside the set begins none."""
    positions, slow = both(added)
    end = place
    while end in slow:
        end += 1

    assert positions.run_end(place) == end


@given(ADDED, PLACE, PLACE)
def test_gaps(added: list[tuple[int, int]], start: int, stop: int) -> None:
    """The gaps are the missing positions, in as few ranges as possible."""
    positions, slow = both(added)
    gaps = positions.gaps(start, stop)

    assert [place for gap in gaps for place in gap] == [place for place in range(start, stop) if place not in slow]
    assert all(one.stop < other.start for one, other in pairwise(gaps))


def test_hundreds_of_millions_cost_nothing() -> None:
    """A log of years is two intervals, not one number for each position."""
    positions = PositionSet()
    positions.add(0, 600_000_000)
    positions.add(600_020_000, 600_020_001)

    assert positions.gaps(0, 700_000_000) == [range(600_000_000, 600_020_000), range(600_020_001, 700_000_000)]
    positions.drop_below(599_999_999)
    assert list(positions) == [range(599_999_999, 600_000_000), range(600_020_000, 600_020_001)]
