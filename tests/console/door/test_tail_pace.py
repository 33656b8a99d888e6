"""The pace of all tails: however many they are, so many sends and bytes in a second."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from virtuallog_console.access.admission import STREAMS_MAX
from virtuallog_console.door.core.tail_pace import (
    BEHIND_SECONDS,
    BYTES_PER_SECOND,
    GROUP_BYTES,
    SENDS_PER_SECOND,
    TailPace,
)

TAILS = st.integers(1, STREAMS_MAX)
SIZES = st.lists(st.integers(100, 1 << 23) | st.integers(100, 1000), min_size=1, max_size=300)


@given(TAILS, SIZES)
def test_no_stretch_has_more_sends_or_bytes(count: int, sizes: list[int]) -> None:
    """Groups are sent one after the other, each with its pause: the sends and bytes of all tails fit into the time that it takes."""
    pace, at, seconds, groups = TailPace(count), 0, 0.0, 0
    while at < len(sizes):
        end = at + pace.group(sizes[at:])
        assert end > at
        seconds += pace.pause_seconds(sum(sizes[at:end]))
        at, groups = end, groups + 1

    assert groups * count <= seconds * SENDS_PER_SECOND * (1 + 1e-9)
    assert sum(sizes) * count <= seconds * BYTES_PER_SECOND * (1 + 1e-9)


@given(TAILS, SIZES)
def test_what_is_left_is_sent_in_time(count: int, sizes: list[int]) -> None:
    """The oldest are skipped, and only if all would take longer than `BEHIND_SECONDS`. The newest one is left if it fits by itself."""
    pace = TailPace(count)
    skipped = pace.skipped(sizes)
    left = sizes[skipped:]

    assert sum(left) * count <= BEHIND_SECONDS * BYTES_PER_SECOND * (1 + 1e-9)
    assert skipped == 0 or sum(sizes) * count > BEHIND_SECONDS * BYTES_PER_SECOND
    assert left or sizes[-1] * count > BEHIND_SECONDS * BYTES_PER_SECOND


@given(TAILS, st.integers(1, 1 << 20), st.integers(100, 1 << 23))
def test_entries_that_are_not_read_are_skipped_by_the_same_rule(count: int, unread: int, size: int) -> None:
    """If all have the mean size, as many are skipped as if they had been read; one is read in any case, since its size is a guess."""
    pace, shown = TailPace(count), min(unread, 3000)
    skipped = pace.skipped_unread(unread, size)
    read = pace.skipped([size] * unread) if unread == shown else pace.skipped([size] * shown)

    assert 0 <= skipped < unread
    if unread == shown:
        assert skipped == min(read, unread - 1)


def test_groups_of_many_tails_come_less_often_and_are_as_large() -> None:
    """Entries of 100 bytes: a hundred groups a second for one tail, and one for a hundred."""
    sizes = [230] * 1000

    assert [TailPace(tails).pause_seconds(230) for tails in (1, 100)] == [0.01, 1.0]
    assert [TailPace(tails).group(sizes) for tails in (1, 100)] == [GROUP_BYTES // 230] * 2
