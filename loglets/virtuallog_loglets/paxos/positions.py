"""Sets of positions, kept as intervals.                                                                              Pure.

A truncation or a catch-up concerns millions of positions at once, so nothing here takes time per position.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import attrs


@attrs.define
class Positions:
    """A set of integers: sorted intervals that neither overlap nor touch."""

    _starts: list[int] = attrs.field(factory=list)
    _stops: list[int] = attrs.field(factory=list)

    def __contains__(self, position: int) -> bool:
        return self.run_end(position) > position

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __iter__(self) -> Iterator[range]:
        """The intervals, ascending."""
        return map(range, self._starts, self._stops)

    def add(self, start: int, stop: int) -> None:
        """Put in everything from `start` up to and without `stop`."""
        if start >= stop:
            return
        low, high = bisect_left(self._stops, start), bisect_right(self._starts, stop)
        if low < high:  # it overlaps or touches these
            start, stop = min(start, self._starts[low]), max(stop, self._stops[high - 1])
        self._starts[low:high], self._stops[low:high] = [start], [stop]

    def drop_below(self, position: int) -> None:
        """Take out everything below `position`."""
        count = bisect_right(self._stops, position)
        del self._starts[:count], self._stops[:count]
        if self._starts and self._starts[0] < position:
            self._starts[0] = position

    def run_end(self, position: int) -> int:
        """First position from `position` on that is not in the set."""
        index = bisect_right(self._starts, position) - 1
        return max(position, self._stops[index]) if index >= 0 else position

    def gaps(self, start: int, stop: int) -> list[range]:
        """What of [start, stop) is not in the set, ascending."""
        found: list[range] = []
        while start < stop:
            start = self.run_end(start)
            index = bisect_right(self._starts, start)
            gap_stop = min(stop, self._starts[index]) if index < len(self._starts) else stop
            if start < gap_stop:
                found.append(range(start, gap_stop))
            start = max(start, gap_stop)
        return found
