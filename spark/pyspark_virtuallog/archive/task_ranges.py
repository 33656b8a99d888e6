"""Which ranges of a segment the tasks get: about a file each, and enough of them for all who work.                    Pure.

Nobody knows where entries are large before they are read, and positions need not be dense: samples say what a position weighs on
average. A range that turns out to be heavy becomes several files, a light one a small file; both are right.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from typing import Final

from virtuallog_loglets.archive.creation.spans import ArchiveSpan

FILE_BYTES_MIN: Final = 8 << 20
"""Uncompressed. Smaller files than this are not made for the sake of more tasks: a task costs some tenths of a second."""
TASKS_MAX: Final = 20_000
"""Of one segment, so that the driver holds some MiB of results; ranges grow instead, and give several files each."""


def samples(start: int, stop: int, count: int) -> list[int]:
    """Positions from which somebody should look, evenly spread."""
    return sorted({start + (stop - start) * index // count for index in range(count)})


def cut(spans: Sequence[ArchiveSpan], position_bytes: float, file_bytes: int, workers: int) -> list[ArchiveSpan]:
    """The same spans, those that are to be made in pieces.

    Args:
        spans: adjacent, in order.
        position_bytes: what a position weighs, uncompressed.
        file_bytes: how large a file should be.
        workers: tasks that run at once.
    """
    holes = sum(span.stop - span.start for span in spans if span.found is None)
    weight = holes * position_bytes
    share = weight / (2 * workers)  # two each: whoever gets the light ones takes another
    count = min(TASKS_MAX, max(1, ceil(weight / min(file_bytes, max(share, FILE_BYTES_MIN)))))
    length = max(1, -(-holes // count))
    found = list[ArchiveSpan]()
    for span in spans:
        found += [span] if span.found is not None else _pieces(span, length)
    return found


def _pieces(span: ArchiveSpan, length: int) -> list[ArchiveSpan]:
    """Of equal lengths, of which none is longer than that."""
    size = span.stop - span.start
    count = -(-size // length)
    edges = [span.start + size * index // count for index in range(count + 1)]
    return [ArchiveSpan(low, high) for low, high in pairwise(edges)]
