"""Spans of time in which a log is counted: round, and few enough for a picture.                                     Pure."""

from __future__ import annotations

from typing import Final

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
