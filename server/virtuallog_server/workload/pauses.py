"""How long nothing was acknowledged: pauses in a series of times.                                          Pure.

A client does not see phases of a protocol, it sees that nothing comes back for a while. So what a swap or a crash costs
is the longest stretch without any acknowledgement that touches the time after it; a stretch of the same length before it,
in which nothing was done, says how long a pause is that this machine makes by itself.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import attrs

from virtuallog_server.bench.appends import percentile


@attrs.frozen
class Pause:
    """Nothing was acknowledged between these two times, in seconds."""

    start: float
    stop: float

    @property
    def seconds(self) -> float:
        return self.stop - self.start


def longest_pause(times: Sequence[float], begin: float, end: float, *, cut: bool = False) -> Pause:
    """The longest stretch between two neighbours in the ascending `times` that overlaps [begin, end].

    A stretch that has no neighbour on one side ends with the window; with `cut`, the last one does so anyway, since what
    comes behind the window has a cause of its own.
    """
    first, last = bisect_right(times, begin), bisect_left(times, end)
    inside = times[first:last]
    before = times[first - 1] if first else begin
    after = times[last] if last < len(times) and not cut else end
    edges = [before, *inside, after]
    return max((Pause(*pair) for pair in pairwise(edges)), key=lambda pause: pause.seconds)


@attrs.frozen
class Spread:
    """Of some durations, in milliseconds."""

    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread:
        """All 0 of none."""
        ordered = sorted(seconds)
        return cls(*(round(1000 * percentile(ordered, share), 2) for share in (0.5, 0.9, 0.99, 1.0)))

    def cells(self) -> list[str]:
        """For a table, with the columns of `SPREAD_COLUMNS`."""
        return [f"{value:,.1f}" for value in (self.p50_ms, self.p90_ms, self.p99_ms, self.max_ms)]

    def plain(self) -> dict[str, Any]:
        return attrs.asdict(self)


SPREAD_COLUMNS = ("p50 ms", "p90 ms", "p99 ms", "max ms")
