"""Reach of the log into the past: the live log, and ranges of backups that continue it backwards.

saved ranges     |---|   |-----------------|--------|
live log                                        |------------------|
begin                  trim point         tail
"""

from __future__ import annotations

from collections.abc import Iterable


def beginning(trim_point: int, ranges: Iterable[tuple[int, int]]) -> int:
    """First position from which the log can be read without a hole.

    Args:
        trim_point: first position of the live log.
        ranges: saved ranges (start, stop), in any order; they may overlap.
    """
    begin = trim_point
    for start, stop in sorted(ranges, reverse=True, key=lambda each: each[1]):
        if stop < begin:
            break
        begin = min(begin, start)
    return begin


def newest_start(starts: Iterable[int], begin: int, at_most: int) -> int | None:
    """Newest of the saved states from which the log can be played on to a position. None if there is none."""
    return max((start for start in starts if begin <= start <= at_most), default=None)
