"""Counts what each segment holds of each span of time; spans become longer rather than too many.                   Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from pyspark_virtuallog.audit.spans import longer

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
class Tallies:
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
