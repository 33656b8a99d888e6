"""The walk through all pairs."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, product

import pytest

from virtuallog_lab.bench.reconfigure import circuit, tour


@pytest.mark.parametrize("count", range(1, 8))
@pytest.mark.parametrize("rounds", [1, 3])
def test_a_tour_takes_each_ordered_pair_once_a_round(count: int, rounds: int) -> None:
    """Each round has every ordered pair once, also a place with itself; the tour ends where it began."""
    places = "abcdefgh"[:count]
    walk = list(tour(places, rounds))

    assert Counter(pairwise(walk)) == dict.fromkeys(product(places, repeat=2), rounds)
    assert walk[0] == walk[-1]


def test_a_circuit_of_three_is_what_the_dictionary_says() -> None:
    """0, 01, 02, 1, 12, 2."""
    assert list(circuit("012")) == list("001021122"[:9])
