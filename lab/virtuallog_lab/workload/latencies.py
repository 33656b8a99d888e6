"""Pauses in acknowledgements, spreads of durations, and latencies in bins.

A client does not see the phases of a protocol; it sees that no acknowledgement arrives for a while.
So the cost of a swap or a crash is the longest stretch without any acknowledgement that touches the
time after it. A stretch of the same length before it, in which nothing was done, shows the pauses
that this machine makes by itself.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

import attrs

from virtuallog_lab.workload.appends import percentile
from virtuallog_lab.workload.writers import WriterAcknowledgements


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
    """Percentiles of some durations, in milliseconds."""

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
        """Cells of a table with the columns of `SPREAD_COLUMNS`."""
        return [f"{value:,.1f}" for value in (self.p50_ms, self.p90_ms, self.p99_ms, self.max_ms)]

    def plain(self) -> dict[str, Any]:
        return attrs.asdict(self)


SPREAD_COLUMNS = ("p50 ms", "p90 ms", "p99 ms", "max ms")


BIN_SECONDS: Final = 0.1


@attrs.frozen
class LatencyBins:
    """Latencies of a workload in bins of a tenth of a second, from the start to the last acknowledgement, for pictures."""

    latencies: Sequence[Sequence[float]]
    """Latencies in seconds of the appends that ended in each bin, sorted; a bin may be empty."""

    @classmethod
    def of(cls, told: Iterable[WriterAcknowledgements]) -> LatencyBins:
        samples = [sample for writer in told for sample in zip(writer.began, writer.ended, strict=True)]
        last = max((ended for _, ended in samples), default=0.0)
        bins: list[list[float]] = [[] for _ in range(int(last / BIN_SECONDS) + 1)]
        for began, ended in samples:
            bins[int(ended / BIN_SECONDS)].append(ended - began)
        for latencies in bins:
            latencies.sort()
        return cls(bins)

    @property
    def seconds(self) -> float:
        """End of the last bin, in seconds."""
        return len(self.latencies) * BIN_SECONDS

    def rates(self) -> list[tuple[float, float]]:
        """Begin of each bin, and appends per second in it."""
        return [(index * BIN_SECONDS, len(found) / BIN_SECONDS) for index, found in enumerate(self.latencies)]

    def milliseconds(self, share: float) -> list[tuple[float, float | None]]:
        """The middle of each bin, and a percentile of its latencies; None where nothing ended."""
        return [
            ((index + 0.5) * BIN_SECONDS, 1000 * percentile(found, share) if found else None)
            for index, found in enumerate(self.latencies)
        ]
