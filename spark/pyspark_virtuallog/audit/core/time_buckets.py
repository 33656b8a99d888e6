"""Counts of each segment by time bucket. If there are too many buckets, they become longer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

BUCKET_MS: Final = 10_000
"""Shortest time bucket; longer ones are multiples of it."""
SPANS_MAX: Final = 120
"""Most time buckets of a picture: more bars cannot be told apart."""
LADDER: Final = (1, 3, 6, 30, 90, 180, 360, 1080, 2160, 8640, 60480, 241920)
"""Lengths in shortest buckets: 10 s, 30 s, 1, 5, 15, 30 min, 1, 3, 6 h, a day, a week, four weeks.
Each fits into the next, so that counts can be merged into longer ones."""


def longer(span: int) -> int:
    """The next length of the ladder; the longest stays."""
    return next((step for step in LADDER if step > span), LADDER[-1])


def span_for(low: int, high: int, at_least: int = LADDER[0]) -> int:
    """The length at which the buckets from `low` to `high` are at most `SPANS_MAX`, or as few as
    possible."""
    fitting = (step for step in LADDER if step >= at_least and high // step - low // step < SPANS_MAX)
    return next(fitting, LADDER[-1])


Key = tuple[str, str, int | None]
"""Segment, loglet, and the first bucket of the span. The last is None for rows without a time."""
KEYS_MAX: Final = 1000
"""Keys of one task. A log has some hundred segments at most; a task meets one or two of them."""


@attrs.frozen
class Counts:
    """Counts for one key; positions are those of rows."""

    entries: int
    bytes: int
    fillers: int
    first: int
    last: int

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Counts:
        """Counts from numbers in the order of the fields."""
        entries, size, fillers, first, last = numbers
        return cls(entries, size, fillers, first, last)

    def plus(self, other: Counts) -> Counts:
        return Counts(
            self.entries + other.entries, self.bytes + other.bytes, self.fillers + other.fillers,
            min(self.first, other.first), max(self.last, other.last),
        )  # fmt: skip


@attrs.define
class TimeBuckets:
    """Sums by segment and time bucket."""

    keys_max: int = KEYS_MAX
    span: int = 1
    """Length in shortest buckets."""
    counts: dict[Key, Counts] = attrs.field(factory=dict)

    def add(self, segment: str, loglet: str, bucket: int | None, counts: Counts) -> None:
        """Add counts."""
        self._add(segment, loglet, bucket, counts)
        while len(self.counts) > self.keys_max and longer(self.span) > self.span:
            self.lengthen(longer(self.span))

    def lengthen(self, span: int) -> None:
        """Merge into longer time buckets, which consist of the present ones."""
        assert span % self.span == 0
        self.span, former, self.counts = span, self.counts, {}
        for (segment, loglet, bucket), counts in former.items():
            self._add(segment, loglet, bucket, counts)

    def rows(self) -> Iterable[Mapping[str, Any]]:
        """Rows of the observation `tally`."""
        for (segment, loglet, bucket), counts in self.counts.items():
            yield {"segment": segment, "loglet": loglet, "span": self.span, "bucket": bucket, **attrs.asdict(counts)}

    def _add(self, segment: str, loglet: str, bucket: int | None, counts: Counts) -> None:
        key = segment, loglet, None if bucket is None else bucket // self.span * self.span
        known = self.counts.get(key)
        self.counts[key] = counts if known is None else known.plus(counts)
