"""Reads that skip damaged ranges: an audit reports them, and goes on behind them.

    wanted     [-----------------------------------------------)
    read       [--------- rows --)xxxxxxxx
    find          where it begins ^       ^ where it ends: by halves, as the extent of damage is unknown
    read                                  [------- rows -------)

The ends are found by reading: some forty reads for each damaged range. Such ranges are few, unless
everything is damaged. Positions between two of them that are closer to each other than the first
one is long may count as damaged, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import pyarrow as pa

from virtuallog.contract.errors import CorruptionError, MalformedError

Read: TypeAlias = Callable[[int, int], Iterator[pa.RecordBatch]]
"""Reads the rows of a range, which begin with `position`. Raises CorruptionError or MalformedError
where it is damaged."""
Damage: TypeAlias = Callable[[int, int, str], pa.RecordBatch]
"""Makes the row that stands for a damaged range, from its ends and the error."""

DAMAGES_MAX: Final = 50
"""Damaged ranges in one read. With more, the rest counts as one."""
_DAMAGED: Final = (CorruptionError, MalformedError)


def read_around(read: Read, start: int, stop: int, damage: Damage) -> Iterator[pa.RecordBatch]:
    """Rows of [start, stop), and one row for each range that cannot be read.

    Raises: other errors of `read`.
    """
    for _ in range(DAMAGES_MAX):
        reached = start
        try:
            for batch in read(start, stop):
                yield batch
                reached = batch["position"][-1].as_py() + 1
        except _DAMAGED as error:
            if reached >= stop:
                raise
            begin = _begin(read, reached, stop)
            start = _end(read, begin, stop)
            yield damage(begin, start, str(error))
        else:
            return
        if start == stop:
            return
    yield damage(start, stop, f"more than {DAMAGES_MAX} ranges of it are damaged")


def _begin(read: Read, reached: int, stop: int) -> int:
    """First position that cannot be read. The last row may have been a gap of unknown length."""
    low, high = reached, stop  # [reached, low) can be read, [reached, high) cannot
    step = 1
    while high - low > 1:
        middle = min(low + step, (low + high) // 2)  # most damage begins at once: look near first
        if _is_readable(read, reached, middle):
            low, step = middle, 2 * step
        else:
            high = middle
    return low


def _end(read: Read, begin: int, stop: int) -> int:
    """First position behind the damage that can be read again; `stop` if there is none."""
    low, step = begin, 1  # cannot be read
    while (high := low + step) < stop and not _is_readable(read, high, high + 1):
        low, step = high, 2 * step
    high = min(high, stop)
    while high - low > 1:
        middle = (low + high) // 2
        if _is_readable(read, middle, middle + 1):
            high = middle
        else:
            low = middle
    return high


def _is_readable(read: Read, start: int, stop: int) -> bool:
    try:
        for _ in read(start, stop):
            pass
    except _DAMAGED:
        return False
    return True
