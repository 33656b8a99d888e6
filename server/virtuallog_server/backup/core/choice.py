"""Choice of the ranges to save, and of the backup to restore.

    already there       |----100-250----|   |--300-380--|
    [100, 400)          |----100-250----|------250-400------|

A range that a killed run with the same number has left, whole or not, is taken if it begins where one is needed: the
archive's writer goes on in it. What is needed besides is cut into ranges of a bounded length.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from virtuallog_server.backup.core.manifest import BackupManifest, SavedRange

RANGE_POSITIONS_MAX: Final = 1 << 22
"""Most positions of one range: some minutes of a busy log. Bounds the manifest of its archive, and the work that a
change of the log between two attempts makes void."""


def planned(
    present: Iterable[tuple[int, int]], start: int, stop: int, most: int = RANGE_POSITIONS_MAX
) -> list[tuple[int, int]]:
    """[start, stop) as adjacent ranges (start, stop), in order.

    Args:
        present: ranges at the place, begun or whole, in any order; they may overlap.
        start: first position.
        stop: one past the last; ranges that reach beyond it are not used.
        most: most positions of a new range.
    """
    longest: dict[int, int] = {}
    for low, high in present:
        if start <= low < high <= stop:
            longest[low] = max(high, longest.get(low, 0))
    ranges, at = list[tuple[int, int]](), start
    while at < stop:
        end = longest.get(at) or min(at + most, stop)
        ranges.append((at, end))
        at = end
    return ranges


def covers(manifest: BackupManifest, position: int | None, time_ms: int | None) -> bool:
    """True if this backup can be restored to a position, or to a time of day in milliseconds, or to its end if both
    are None. A time must lie behind the start and not behind the moment up to which all is saved."""
    if position is not None:
        return manifest.start <= position <= manifest.stop and position > 0
    if time_ms is None:
        return manifest.stop > 0
    begins_ms = manifest.state.time_ms if manifest.state is not None else 0
    return begins_ms < time_ms <= manifest.covered_ms


def covered_until(wall_ms: int, newest_ms: int, former_ms: int) -> int:
    """Wall-clock time in milliseconds up to which all is saved.

    Args:
        wall_ms: time of this machine before the end of the log was asked for.
        newest_ms: time of the newest entry, by the clock that orders what comes behind it, if it was appended just
            before; otherwise 0. A clock of this machine that is fast would cover what is not there.
        former_ms: what the former backup covers, which this one has, too; 0 if there is none.
    """
    return max(former_ms, min(wall_ms, newest_ms or wall_ms))


def range_at_time(manifest: BackupManifest, time_ms: int) -> SavedRange | None:
    """The first range with entries of this time or later, by its index of times. None if all are earlier."""
    return next((each for each in manifest.ranges if each.last_ms >= time_ms), None)
