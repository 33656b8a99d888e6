"""Spans of an unfinished archive: files that may exist already, and the holes between them.

    names there:   0-100-9f..   250-300-a1..   0-70-77..
    [0, 400):      [0, 100) 9f..   [100, 250) to be made   [250, 300) a1..   [300, 400) to be made

A file is known by its name: its range, and the beginning of its checksum. Names are no proof;
`executor.py: reuse_file` checks the files.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

import attrs

from virtuallog_loglets.archive.creation.data_files import DIGITS_OF_CHECKSUM, SUFFIX

_NAME: Final = re.compile(rf"(\d{{20}})-(\d{{20}})-[0-9a-f]{{{DIGITS_OF_CHECKSUM}}}{re.escape(SUFFIX)}", re.ASCII)


@attrs.frozen
class ArchiveSpan:
    """A part of an archive."""

    start: int
    stop: int
    found: str | None = None
    """Name of the file that may be just this part; None if it must be made."""


def spans_untrusted(names: Iterable[str], start: int, stop: int) -> list[ArchiveSpan]:
    """[start, stop) as adjacent spans, in order.

    At each position this is the longest file that begins there, else a hole up to where the next
    one begins.
    """
    longest: dict[int, ArchiveSpan] = {}
    for span in _named(names):
        if start <= span.start < span.stop <= stop and (
            span.start not in longest or span.stop > longest[span.start].stop
        ):
            longest[span.start] = span
    found, at, starts = list[ArchiveSpan](), start, sorted(longest)
    while at < stop:
        following = bisect_right(starts, at)
        found.append(longest.get(at) or ArchiveSpan(at, starts[following] if following < len(starts) else stop))
        at = found[-1].stop
    return found


def _named(names: Iterable[str]) -> Iterable[ArchiveSpan]:
    for name in sorted(names):
        if match := _NAME.fullmatch(name):
            yield ArchiveSpan(int(match[1]), int(match[2]), name)
