"""Ranges of a segment for the tasks: about a file each, and enough of them for all workers.

Entry sizes are unknown before they are read, and positions need not be dense: samples estimate the
bytes of a position. A range that is larger than estimated becomes several files, a smaller one a
small file; both are right.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from typing import Final

from virtuallog_loglets.archive.creation.spans import ArchiveSpan

FILE_BYTES_MIN: Final = 8 << 20
"""Uncompressed bytes. No smaller files are made for the sake of more tasks: a task costs some
tenths of a second."""
TASKS_MAX: Final = 20_000
"""Most tasks of one segment, so that the driver holds some MiB of results. With more data the
ranges grow, and give several files each."""


def samples(start: int, stop: int, count: int) -> list[int]:
    """Positions to sample, evenly spread."""
    return sorted({start + (stop - start) * index // count for index in range(count)})


def cut(spans: Sequence[ArchiveSpan], position_bytes: float, file_bytes: int, workers: int) -> list[ArchiveSpan]:
    """The same spans, those that are to be made cut into pieces.

    Args:
        spans: adjacent, in order.
        position_bytes: average uncompressed bytes of a position.
        file_bytes: wanted size of a file.
        workers: tasks that run at once.
    """
    holes = sum(span.stop - span.start for span in spans if span.found is None)
    weight = holes * position_bytes
    share = weight / (2 * workers)  # two each: a worker with light ones takes another
    count = min(TASKS_MAX, max(1, ceil(weight / min(file_bytes, max(share, FILE_BYTES_MIN)))))
    length = max(1, -(-holes // count))
    found = list[ArchiveSpan]()
    for span in spans:
        found += [span] if span.found is not None else _pieces(span, length)
    return found


def _pieces(span: ArchiveSpan, length: int) -> list[ArchiveSpan]:
    """Pieces of equal lengths, at most `length` each."""
    size = span.stop - span.start
    count = -(-size // length)
    edges = [span.start + size * index // count for index in range(count + 1)]
    return [ArchiveSpan(low, high) for low, high in pairwise(edges)]
