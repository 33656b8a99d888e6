"""Confidence interval of a median, without an assumption about the distribution."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, inf
from typing import Final

CONFIDENCE: Final = 0.95
"""Least probability that the interval has the true median within."""


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Interval that the sign test does not reject: two of the values. From minus infinity to infinity if they are too few.

    The count of values below the true median is that of heads of so many coins. So the ends are the values of a rank such that less than
    half of `1 - confidence` lies beyond each.
    """
    ordered, beyond, rank = sorted(values), 0.0, 0
    while (beyond := beyond + comb(len(ordered), rank) / 2 ** len(ordered)) <= (1 - confidence) / 2:
        rank += 1
    return (ordered[rank - 1], ordered[-rank]) if rank else (-inf, inf)
