"""Spans of time in which processes led, from questions to each of them again and again.

A span is what is certain: from the first answer "yes" to the last question that was answered so, by one incarnation of a process.
Two spans of two processes that overlap are a split brain.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import attrs


@attrs.define
class Span:
    """A time in which a process led."""

    name: str
    incarnation: str
    """Mark of one process: another one that is started later under the same name has another mark."""
    since: float
    until: float


@attrs.define(eq=False)
class SpanRecord:
    """The spans of one process."""

    name: str
    spans: list[Span] = attrs.field(factory=list)
    _open: bool = False
    """True while the last answer was "yes"."""

    def observe(self, asked: float, answered: float, leads: bool, incarnation: str) -> None:
        """Record one answer."""
        if not leads:
            self._open = False
        elif self._open and self.spans[-1].incarnation == incarnation:
            self.spans[-1].until = asked
        else:
            self.spans.append(Span(self.name, incarnation, answered, answered))
            self._open = True


def in_order(records: Sequence[SpanRecord]) -> list[Span]:
    """The spans of all, by their begin."""
    return sorted((span for record in records for span in record.spans), key=lambda span: span.since)


def overlaps(spans: Sequence[Span]) -> list[tuple[Span, Span]]:
    """Pairs of spans of two processes that have a time in common."""
    return [
        (one, other)
        for one, other in combinations(spans, 2)
        if one.name != other.name and one.since <= other.until and other.since <= one.until
    ]
