"""Sums of the small observations of all tasks, made on the driver."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from pyspark_virtuallog.audit.core.anomalies import EXAMPLES_MAX
from pyspark_virtuallog.audit.core.evidence import Fault, GapSum, ObservedRange, Rate, SegmentSum
from pyspark_virtuallog.audit.core.time_buckets import BUCKET_MS, Counts, TimeBuckets, span_for

Row = Mapping[str, Any]
_TALLIES_MAX: Final = 100_000
"""Segments times time buckets: the register holds some hundred segments, and a picture some hundred
buckets."""


@attrs.define
class ObservationSums:
    """All small observations, by sort."""

    rows: defaultdict[str, list[Row]] = attrs.field(factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, rows: Iterable[Row]) -> ObservationSums:
        """Collect rows, each of which has one sort that is not None."""
        folded = cls()
        for row in rows:
            for kind, found in row.items():
                if found is not None:
                    folded.rows[kind].append(found)
        return folded

    @property
    def pieces(self) -> list[ObservedRange]:
        """Pieces in the order of their positions."""
        pieces = [ObservedRange(**row) for row in self.rows["piece"]]
        return sorted(pieces, key=lambda piece: (piece.first, piece.last))

    @property
    def gaps(self) -> list[GapSum]:
        return [
            GapSum(kind=kind, count=count, examples=[(row["start"], row["stop"]) for row in first])
            for kind, count, first in _sums(self.rows["gap"], "kind", "start")
        ]

    @property
    def remarks(self) -> list[Fault]:
        return [
            Fault(check=check, count=count, examples=[row["text"] for row in first])
            for check, count, first in _sums(self.rows["remark"], "check", "position")
        ]

    def tallies(self) -> TimeBuckets:
        """Sums over all tasks, in time buckets of a length that suits a picture."""
        buckets = [row["bucket"] for row in self.rows["tally"] if row["bucket"] is not None]
        longest = max((row["span"] for row in self.rows["tally"]), default=1)
        span = span_for(min(buckets), max(buckets), longest) if buckets else longest
        tallies = TimeBuckets(keys_max=_TALLIES_MAX, span=span)
        for row in self.rows["tally"]:
            if row["segment"] is None:
                continue  # trimmed, and no longer part of a segment
            counts = Counts(*(row[field.name] for field in attrs.fields(Counts)))
            tallies.add(row["segment"], row["loglet"], row["bucket"], counts)
        return tallies

    @property
    def kept_from(self) -> int:
        """First position behind everything that has been trimmed, perhaps during the read."""
        return max((piece.kept_from for piece in self.pieces if piece.kept_from is not None), default=0)


def segments_of(tallies: TimeBuckets) -> list[SegmentSum]:
    """Content of each segment, in the order of positions."""
    found: dict[tuple[str, str], Counts] = {}
    spans: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for (segment, loglet, bucket), counts in tallies.counts.items():
        known = found.get((segment, loglet))
        found[segment, loglet] = counts if known is None else known.plus(counts)
        if bucket is not None:
            spans[segment, loglet].append(bucket)
    sums = [
        SegmentSum(
            segment=segment, loglet=loglet, **attrs.asdict(counts),
            first_ms=min(spans[segment, loglet], default=0) * BUCKET_MS or None,
            last_ms=max(spans[segment, loglet], default=0) * BUCKET_MS or None,
        )
        for (segment, loglet), counts in found.items()
    ]  # fmt: skip
    return sorted(sums, key=lambda segment: segment.first)


def rates_of(tallies: TimeBuckets) -> list[Rate]:
    """Entries ordered over time by each kind of loglet."""
    found: defaultdict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
    for (_, loglet, bucket), counts in tallies.counts.items():
        if bucket is not None:
            sums = found[bucket, loglet]
            sums[0] += counts.entries
            sums[1] += counts.bytes
    return [
        Rate(at_ms=bucket * BUCKET_MS, loglet=loglet, entries=entries, bytes=size)
        for (bucket, loglet), (entries, size) in sorted(found.items())
    ]


def _sums(rows: Iterable[Row], by: str, order: str) -> Iterable[tuple[str, int, list[Row]]]:
    """For each sort its name, the number of rows, and the first ones."""
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row[by]].append(row)
    for name, each in sorted(found.items()):
        yield name, sum(row["count"] for row in each), sorted(each, key=lambda row: row[order])[:EXAMPLES_MAX]
