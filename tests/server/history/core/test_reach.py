"""How far back a log can be read with ranges of backups."""

from __future__ import annotations

import pytest

from virtuallog_server.history.core.reach import beginning, merged, newest_start


@pytest.mark.parametrize(
    ("ranges", "position", "begin"),
    [
        ([(50, 90)], 70, 50),
        ([(50, 90)], 50, 50),
        ([(50, 90)], 20, 20),
        ([(50, 90), (0, 20), (20, 50), (50, 70)], 90, 0),
        ([(50, 90), (0, 20), (21, 60)], 90, 21),
        ([(50, 90), (0, 20), (21, 60)], 20, 0),
        ([(50, 90), (10, 100), (60, 90), (5, 10)], 60, 5),
        ([], 0, 0),
    ],
)
def test_ranges_continue_the_log_backwards(ranges: list[tuple[int, int]], position: int, begin: int) -> None:
    """Up to the first hole before the position."""
    assert beginning(merged(ranges), position) == begin


def test_a_saved_state_is_used_if_the_log_can_be_played_on_from_it() -> None:
    """The newest one that is not past the position."""
    assert newest_start([10, 30, 50], begin=20, at_most=49) == 30
    assert newest_start([10, 30, 50], begin=20, at_most=50) == 50
    assert newest_start([10, 30, 50], begin=31, at_most=49) is None
