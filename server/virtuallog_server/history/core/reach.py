"""Reach of the log into the past: the live log, and ranges that backups have saved.

saved ranges     |---|   |-----------------|--------|
live log                                        |------------------|
spans            |---|   |-----------------------------------------|
trim point         tail
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]
"""A range of positions, [start, stop)."""


def merged(ranges: Iterable[Span]) -> list[Span]:
    """Ranges in any order, which may overlap, as the longest spans without holes, in order."""
    spans = list[Span]()
    for start, stop in sorted(ranges):
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(stop, spans[-1][1]))
        else:
            spans.append((start, stop))
    return spans


def beginning(spans: Sequence[Span], position: int) -> int:
    """First position from which the log can be read up to `position`, which is returned if nothing before it can be."""
    return next((start for start, stop in spans if start <= position <= stop), position)


def newest_start(starts: Iterable[int], begin: int, at_most: int) -> int | None:
    """Newest of the saved states from which the log can be played on to a position. None if there is none."""
    return max((start for start in starts if begin <= start <= at_most), default=None)
