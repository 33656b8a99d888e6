"""Ranges to save, and the backup to restore."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.server.backup.core.test_manifest import with_ranges
from virtuallog_server.backup.core.choice import covered_until, covers, planned, range_at_time

RANGES = st.tuples(st.integers(0, 60), st.integers(0, 60))


def test_a_begun_range_is_taken() -> None:
    """It begins where one is needed, and does not reach beyond the tail; of two the longer one."""
    assert planned([(100, 200), (100, 250), (100, 500), (300, 380)], 100, 400) == [(100, 250), (250, 400)]
    assert planned([(90, 120)], 100, 400, most=200) == [(100, 300), (300, 400)]
    assert planned([], 7, 7) == []


@given(st.lists(RANGES), st.integers(0, 50), st.integers(0, 50), st.integers(1, 20))
def test_ranges_are_adjacent_and_whole(present: list[tuple[int, int]], start: int, length: int, most: int) -> None:
    """Any remains at the place: the ranges cover what is needed, each is one that is there or a bounded new one."""
    found = planned(present, start, start + length, most)
    edges = [start, *(stop for _, stop in found)]
    assert [low for low, _ in found] == edges[:-1] and edges[-1] == start + length
    assert all(low < high and (high - low <= most or (low, high) in present) for low, high in found)


def test_a_backup_reaches_from_its_state_to_its_end() -> None:
    """Positions, both ends included; times behind the state's, up to the moment of the backup."""
    manifest = with_ranges(10, 20, 35)
    assert [position for position in range(50) if covers(manifest, position, None)] == [*range(10, 36)]
    assert [time for time in range(1000, 1050) if covers(manifest, None, time)] == [*range(1011, 1036)]
    assert covers(manifest, None, None)
    assert not covers(with_ranges(0, 20), 0, None)


def test_the_index_of_times_names_a_range() -> None:
    """The first one with an entry of that time or later."""
    manifest = with_ranges(10, 20, 35)
    found = [range_at_time(manifest, time) for time in (0, 1019, 1020, 1034, 1035)]
    assert [each and each.start for each in found] == [10, 10, 20, 20, None]


def test_a_fast_clock_covers_nothing_that_is_not_there() -> None:
    """What is covered ends with the newest entry, or before if the machine's clock is behind; and never before the former backup's end."""
    assert covered_until(wall_ms=9_000, newest_ms=5_000, former_ms=0) == 5_000
    assert covered_until(wall_ms=4_000, newest_ms=5_000, former_ms=0) == 4_000
    assert covered_until(wall_ms=4_000, newest_ms=5_000, former_ms=4_500) == 4_500
    assert covered_until(wall_ms=4_000, newest_ms=0, former_ms=0) == 4_000
