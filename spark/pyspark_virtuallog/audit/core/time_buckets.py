"""Counts what each segment holds of each span of time; spans become longer rather than too many.                   Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

# FOLDED from pyspark_virtuallog.audit.spans: Spans of time in which a log is counted: round, and few enough for a picture.                                     Pure.

BUCKET_MS: Final = 10_000
"""The shortest span; longer ones are told in buckets of this."""
SPANS_MAX: Final = 120
"""More bars than that nobody tells apart."""
LADDER: Final = (1, 3, 6, 30, 90, 180, 360, 1080, 2160, 8640, 60480, 241920)
"""In buckets: 10 s, 30 s, 1, 5, 15, 30 min, 1, 3, 6 h, a day, a week, four weeks. Each fits into the next, so that what was counted
in one can be counted in a longer one."""


def longer(span: int) -> int:
    """The next one of the ladder; the longest stays."""
    return next((step for step in LADDER if step > span), LADDER[-1])


def span_for(low: int, high: int, at_least: int = LADDER[0]) -> int:
    """How many buckets make one span, so that the buckets from `low` to `high` are in at most `SPANS_MAX`, or in as few as can be."""
    fitting = (step for step in LADDER if step >= at_least and high // step - low // step < SPANS_MAX)
    return next(fitting, LADDER[-1])


Key = tuple[str, str, int | None]
"""Segment, loglet, and the first bucket of the span; None: what has no time."""
KEYS_MAX: Final = 1000
"""Of one task. A log has some hundred segments at most; of these a task meets one or two."""


@attrs.frozen
class Counts:
    """What is somewhere; positions are those of rows."""

    entries: int
    bytes: int
    fillers: int
    first: int
    last: int

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Counts:
        """In the order of the fields."""
        entries, size, fillers, first, last = numbers
        return cls(entries, size, fillers, first, last)

    def plus(self, other: Counts) -> Counts:
        return Counts(
            self.entries + other.entries, self.bytes + other.bytes, self.fillers + other.fillers,
            min(self.first, other.first), max(self.last, other.last),
        )  # fmt: skip


@attrs.define
class TimeBuckets:
    """Sums by segment and span of time."""

    keys_max: int = KEYS_MAX
    span: int = 1
    """In buckets."""
    counts: dict[Key, Counts] = attrs.field(factory=dict)

    def add(self, segment: str, loglet: str, bucket: int | None, counts: Counts) -> None:
        """Count it in."""
        self._add(segment, loglet, bucket, counts)
        while len(self.counts) > self.keys_max and longer(self.span) > self.span:
            self.lengthen(longer(self.span))

    def lengthen(self, span: int) -> None:
        """Count in spans of this length, of which the present ones are parts."""
        assert span % self.span == 0
        self.span, former, self.counts = span, self.counts, {}
        for (segment, loglet, bucket), counts in former.items():
            self._add(segment, loglet, bucket, counts)

    def rows(self) -> Iterable[Mapping[str, Any]]:
        """As the observation `tally`."""
        for (segment, loglet, bucket), counts in self.counts.items():
            yield {"segment": segment, "loglet": loglet, "span": self.span, "bucket": bucket, **attrs.asdict(counts)}

    def _add(self, segment: str, loglet: str, bucket: int | None, counts: Counts) -> None:
        key = segment, loglet, None if bucket is None else bucket // self.span * self.span
        known = self.counts.get(key)
        self.counts[key] = counts if known is None else known.plus(counts)
