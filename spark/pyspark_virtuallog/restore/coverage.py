"""Choice of sources for a range of the log: archives overlap, and the live log begins somewhere.

sources   |---- archive ----|     |-------- live log --------->
                      |--- archive ----|
cover     |-----------------|----------|---------------------->
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Generic, TypeVar

import attrs

from virtuallog.contract.errors import InvalidSettingError

WhatT = TypeVar("WhatT")


@attrs.frozen
class Span(Generic[WhatT]):
    """Range [start, stop) of the log that a source has; in a cover, the part to read from it."""

    start: int
    stop: int
    what: WhatT


def cover(spans: Sequence[Span[WhatT]], start: int, stop: int) -> Sequence[Span[WhatT]]:
    """Parts of the spans that make up [start, stop): adjacent, in order, as few as possible. Of
    spans that reach equally far the first one is taken.

    Raises:
        InvalidSettingError: a part of it is not covered; says which, and from where on all is
            covered.
    """
    parts, at = list[Span[WhatT]](), start
    while at < stop:
        if not (best := preferred(spans, at)):
            raise _uncovered(spans, at, stop)
        span = spans[best[0]]
        parts.append(Span(at, min(span.stop, stop), span.what))
        at = span.stop
    return parts


def preferred(spans: Sequence[Span[WhatT]], at: int, last: Collection[int] = ()) -> Sequence[int]:
    """Numbers of the spans that have a position, the one that reaches furthest first; those of
    `last` in the end."""
    having = [number for number, span in enumerate(spans) if span.start <= at < span.stop]
    return sorted(having, key=lambda number: (number in last, -spans[number].stop))


def reach(spans: Sequence[Span[WhatT]]) -> tuple[int, int]:
    """First position that any of the spans has, and one past the last; (0, 0) without spans."""
    return min((span.start for span in spans), default=0), max((span.stop for span in spans), default=0)


def whole_from(spans: Sequence[Span[WhatT]], stop: int) -> int:
    """The lowest position from which on everything up to `stop` is covered."""
    first = stop
    while (lower := min((s.start for s in spans if s.start < first <= s.stop), default=first)) < first:
        first = lower
    return first


def _uncovered(spans: Sequence[Span[WhatT]], at: int, stop: int) -> InvalidSettingError:
    end = min((span.start for span in spans if span.start > at), default=stop)
    first = at if end >= stop else whole_from(spans, stop)
    hint = f"; from {first} on all is there" if at < first < stop else ""
    return InvalidSettingError("from", f"nothing that was named has positions {at} to {min(end, stop) - 1}{hint}")
