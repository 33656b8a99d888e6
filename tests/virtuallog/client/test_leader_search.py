"""The leader search of a client. Nodes 1, 2 and 3 are the replicas; times are in seconds."""

from __future__ import annotations

import pytest

from virtuallog.client.leader_search import SILENT_SECONDS, LeaderCache, LeaderTarget
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.messages import NO_NODE

ONE, TWO, THREE, FOUR = (NodeId(n) for n in (1, 2, 3, 4))


@pytest.fixture
def leadership() -> LeaderCache:
    return LeaderCache((ONE, TWO, THREE), ONE)


def test_the_first_append_of_all_makes_a_coordinator(leadership: LeaderCache) -> None:
    """The node named in the config is asked first, knows no leader, and is asked to stand for election."""
    search = leadership.search()

    assert search.begin() == LeaderTarget(ONE)
    assert search.elsewhere(ONE, NO_NODE, 0.0) == LeaderTarget(ONE, insist=True)
    search.taken(ONE)
    assert leadership.search().begin() == LeaderTarget(ONE)


def test_a_hint_is_followed_and_remembered(leadership: LeaderCache) -> None:
    """One hop, once: the next request goes there at once."""
    search = leadership.search()

    assert search.elsewhere(ONE, THREE, 0.0) == LeaderTarget(THREE)
    search.taken(THREE)
    assert leadership.search().begin() == LeaderTarget(THREE)


def test_nobody_is_turned_out_because_one_node_is_silent(leadership: LeaderCache) -> None:
    """The next replica knows that another one leads by now: the client goes there and insists nowhere."""
    search = leadership.search()

    assert search.failed(ONE, 1.0) == LeaderTarget(TWO)
    assert search.elsewhere(TWO, THREE, 1.0) == LeaderTarget(THREE)


def test_a_leader_that_does_not_answer_is_replaced_by_its_neighbour(leadership: LeaderCache) -> None:
    """The neighbour still names the one that is gone. All clients insist at the same node."""
    search = leadership.search()
    search.failed(ONE, 1.0)

    assert search.elsewhere(TWO, ONE, 1.0) == LeaderTarget(TWO, insist=True)


def test_a_hint_loop_ends_with_an_election(leadership: LeaderCache) -> None:
    """One names Two, Two names One: neither leads, so the second is asked to."""
    search = leadership.search()

    assert search.elsewhere(ONE, TWO, 0.0) == LeaderTarget(TWO)
    assert search.elsewhere(TWO, ONE, 0.0) == LeaderTarget(TWO, insist=True)


def test_a_longer_hint_loop_ends_as_well(leadership: LeaderCache) -> None:
    """Each node is asked at most once before one has to stand."""
    search = leadership.search()

    assert search.elsewhere(ONE, TWO, 0.0) == LeaderTarget(TWO)
    assert search.elsewhere(TWO, THREE, 0.0) == LeaderTarget(THREE)
    assert search.elsewhere(THREE, ONE, 0.0) == LeaderTarget(THREE, insist=True)


def test_a_hint_to_a_stranger_or_to_itself_leads_nowhere(leadership: LeaderCache) -> None:
    """A node of another configuration is never asked."""
    assert leadership.search().elsewhere(ONE, FOUR, 0.0) == LeaderTarget(ONE, insist=True)
    assert leadership.search().elsewhere(ONE, ONE, 0.0) == LeaderTarget(ONE, insist=True)


def test_requests_that_fail_together_go_to_one_place(leadership: LeaderCache) -> None:
    """Several batches are in flight when the leader dies. Requests that notice later follow those
    that noticed first."""
    first, second = leadership.search(), leadership.search()
    first.failed(ONE, 1.0)
    first.elsewhere(TWO, THREE, 1.0)

    assert second.failed(ONE, 1.1) == LeaderTarget(THREE)


def test_silence_is_forgotten(leadership: LeaderCache) -> None:
    """After a while, or as soon as the node answers, hints to it are followed again."""
    search = leadership.search()
    search.failed(ONE, 1.0)
    assert search.elsewhere(TWO, ONE, 1.0 + SILENT_SECONDS) == LeaderTarget(ONE)

    leadership.search().failed(ONE, 10.0)
    leadership.answered(ONE)
    assert leadership.search().elsewhere(TWO, ONE, 10.0) == LeaderTarget(ONE)


def test_when_all_are_silent_they_are_asked_in_turn(leadership: LeaderCache) -> None:
    """No replica is excluded for good."""
    search = leadership.search()

    assert [search.failed(node, 1.0).node for node in (ONE, TWO, THREE, ONE)] == [TWO, THREE, ONE, TWO]


def test_a_log_of_one_replica(leadership: LeaderCache) -> None:
    """The only replica is asked always."""
    search = LeaderCache((ONE,), ONE).search()

    assert search.failed(ONE, 1.0) == LeaderTarget(ONE)
    assert search.elsewhere(ONE, ONE, 1.0) == LeaderTarget(ONE, insist=True)


def test_a_node_that_knows_no_leader_is_passed_where_replicas_elect_one_by_themselves(leadership: LeaderCache) -> None:
    """It may be cut off from the others, for as long as the client lives. So may the next one; no node is asked to stand."""
    search = leadership.search(insists=False)

    assert search.elsewhere(ONE, NO_NODE, 0.0) == LeaderTarget(TWO)
    assert search.elsewhere(TWO, NO_NODE, 0.0) == LeaderTarget(THREE)
    assert search.elsewhere(THREE, NO_NODE, 0.0) == LeaderTarget(ONE)
    assert leadership.search(insists=False).begin() == LeaderTarget(ONE)


def test_a_node_that_names_a_silent_leader_is_passed_there_too(leadership: LeaderCache) -> None:
    """Its leader is gone, and it has not noticed."""
    search = leadership.search(insists=False)
    search.failed(ONE, 1.0)

    assert search.elsewhere(TWO, ONE, 1.0) == LeaderTarget(THREE)
