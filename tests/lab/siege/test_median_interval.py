"""The interval of a median: values of the sample whose ranks a fair coin would seldom give."""

from __future__ import annotations

import random
from math import inf
from statistics import median

import pytest

from virtuallog_lab.harness.median_interval import median_interval


@pytest.mark.parametrize(
    ("count", "low", "high"),
    [(0, -inf, inf), (5, -inf, inf), (6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (20, 6, 15), (50, 18, 33)],
)
def test_ranks_are_those_of_the_tables(count: int, low: float, high: float) -> None:
    """As in printed tables of the sign test at 95 %: below six values there is no interval."""
    assert median_interval([*range(count, 0, -1)]) == (low, high)


def test_the_true_median_is_within_as_often_as_stated() -> None:
    """Also of a skewed distribution: in 95 % of 1000 samples of 25 at least, less three standard deviations of that count."""
    chance, within = random.Random(1), 0
    true = median(chance.expovariate(1) for _ in range(100_001))
    for _ in range(1000):
        low, high = median_interval([chance.expovariate(1) for _ in range(25)])
        within += low <= true <= high
    assert within >= 929
