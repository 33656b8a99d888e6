"""Tallies, compared with an exhaustive count."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tests.metastore.messages import vote
from tests.metastore.world import ids
from virtuallog.contract.types import NodeId
from virtuallog_metastore.core.quorum import Tally
from virtuallog_metastore.messages import Vote

# In order of their ballots.
VOTES = (None, vote(1, b"a"), vote(2, b"b"), vote(2, b"c", node=2))

voices = st.lists(st.tuples(st.integers(1, 9), st.sampled_from(VOTES)), max_size=12)
members = st.sets(st.integers(1, 7), max_size=7)


def obvious(members: tuple[NodeId, ...], said: dict[NodeId, Vote | None]) -> tuple[bool, Vote | None, Vote | None]:
    """Count by trying every majority."""
    size = len(members) // 2 + 1
    majorities = list(itertools.combinations(members, size)) if members else []
    complete = any(all(node in said for node in majority) for majority in majorities)
    heard = [said[node] for node in members if node in said]
    highest = next((one for one in reversed(VOTES) if one in heard), None)
    chosen = None
    for one in VOTES[1:]:
        if any(all(said.get(node) == one for node in majority) for majority in majorities) and one == highest:
            chosen = one
    return complete, highest, chosen


@given(members, voices)
def test_tally_agrees_with_the_obvious_version(members: set[int], voices: list[tuple[int, Vote | None]]) -> None:
    """The tally agrees with the exhaustive count for up to 7 members, with repeated answers and
    answers of strangers."""
    names = ids(*sorted(members))
    tally, said = Tally(names), dict[NodeId, Vote | None]()
    for node, one in voices:
        tally.count(NodeId(node), one)
        said[NodeId(node)] = one

    assert (tally.complete, tally.highest, tally.chosen) == obvious(names, said)


def test_two_majorities_always_meet() -> None:
    """Any two majorities share a member, for every size that can be checked quickly."""
    for count in range(1, 8):
        names = ids(*range(count))
        complete = [set(some) for some in subsets(names) if filled(names, some).complete]
        assert complete
        assert all(one & other for one in complete for other in complete)


def subsets(names: tuple[NodeId, ...]) -> list[tuple[NodeId, ...]]:
    return [some for size in range(len(names) + 1) for some in itertools.combinations(names, size)]


def filled(names: tuple[NodeId, ...], some: tuple[NodeId, ...]) -> Tally:
    tally = Tally(names)
    for node in some:
        tally.count(node)
    return tally
