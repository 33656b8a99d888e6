"""The quorum arithmetic against slow and obvious versions of itself."""

from __future__ import annotations

from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.placement import majority_of
from virtuallog_loglets.native.core.quorum import committed_tail, tail_to_cover

TAILS = st.integers(0, 6)


def slow_committed_tail(tails: list[int], servers: int) -> int:
    """The highest t such that some majority of all servers has a tail of at least t."""
    candidates = [
        min(tails[i] for i in majority)
        for majority in combinations(range(len(tails)), majority_of(servers))
    ]  # fmt: skip
    return max(candidates, default=0)


def slow_tail_to_cover(tails: list[int], servers: int) -> int:
    """The highest tail that may have been acknowledged: try every tail that the silent servers could have."""
    highest = 0
    for silent in product(range(8), repeat=servers - len(tails)):
        acknowledged = slow_committed_tail([*tails, *silent], servers)
        highest = max(highest, acknowledged)
    return highest


@given(servers=st.sampled_from((1, 2, 3, 4, 5, 7)), data=st.data())
def test_item_26_committed_tail_is_that_of_the_best_majority(servers: int, data: st.DataObject) -> None:
    """N = 3, 5, 7 and even numbers; any number of answers."""
    tails = data.draw(st.lists(TAILS, max_size=servers))

    assert committed_tail(tails, servers) == slow_committed_tail(tails, servers)


@given(servers=st.sampled_from((1, 2, 3, 5)), data=st.data())
def test_item_26_tail_to_cover_is_the_highest_that_may_have_been_acknowledged(
    servers: int, data: st.DataObject
) -> None:
    """Never lower, or an acknowledged entry would be lost; no higher than needed, or checks would wait in vain."""
    tails = data.draw(st.lists(TAILS, min_size=majority_of(servers), max_size=servers))

    assert tail_to_cover(tails, servers) == slow_tail_to_cover(tails, servers)


def test_with_a_bare_majority_the_tail_to_cover_is_the_maximum() -> None:
    """P1 4.2.1: X is the highest tail among the responding majority."""
    assert tail_to_cover([3, 9], 3) == 9
    assert tail_to_cover([3, 9, 1], 5) == 9
    assert tail_to_cover([3, 9, 3], 3) == 3
