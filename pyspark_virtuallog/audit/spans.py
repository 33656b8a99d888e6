"""How long the spans of time are in which a log is counted: round, and few enough for a picture.                     Pure."""

from __future__ import annotations

from typing import Final

SPANS_MAX: Final = 120
"""More bars than that nobody tells apart."""
_LADDER: Final = (1, 3, 6, 30, 60, 90, 180, 360, 720, 1440, 2160, 4320, 8640, 60480, 259200)
"""In buckets of ten seconds: 10 s, 30 s, 1, 5, 10, 15, 30 min, 1, 2, 4, 6, 12 h, a day, a week, 30 days."""


def span_of(low: int | None, high: int | None) -> int:
    """How many buckets make one span, so that there are at most `SPANS_MAX` between the first and the last bucket, if the log is not
    older than ten years."""
    if low is None or high is None:
        return _LADDER[0]
    return next((span for span in _LADDER if high // span - low // span < SPANS_MAX), _LADDER[-1])
