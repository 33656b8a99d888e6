"""Claims of the Raft paper on commitment (sections 5.3 and 5.4.2): what a majority has, and only if it is of the present term."""

from __future__ import annotations

from itertools import product

import pytest

from tests.loglets.raft.core.group import Group
from virtuallog_loglets.raft.core import replication
from virtuallog_loglets.raft.messages import AppendRecords, LeaderReply


def leading_group(voters: int = 3) -> Group:
    """Replicas of which the first leads, without an election."""
    group = Group.of_voters(voters, first_leader=1)
    group.settle()
    return group


def replicate(group: Group, *, acknowledging: set[int], own_disk: bool = True) -> None:
    """Deliver what the leader has sent, and the answers of these peers."""
    for message in list(group.messages):
        group.deliver(message)
    for node in group.nodes:
        if node != 1 or own_disk:
            group.sync(node)
    for message in list(group.messages):
        if message.sender in acknowledging:
            group.deliver(message)
        else:
            group.messages.remove(message)


@pytest.mark.parametrize("voters", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("own_disk", [True, False], ids=["synced at the leader", "not synced at the leader"])
def test_record_is_committed_once_a_majority_has_it(voters: int, own_disk: bool) -> None:
    """For every pattern of acknowledgements, the leader's own sync among them, in any order."""
    for pattern in product([False, True], repeat=voters - 1):
        group = leading_group(voters)
        acknowledging = {peer for peer, answers in enumerate(pattern, 2) if answers}
        ticket = group.append(1, "x")
        replicate(group, acknowledging=acknowledging, own_disk=own_disk)
        is_committed = own_disk + len(acknowledging) > voters // 2

        assert group[1].state.commit == int(is_committed), pattern
        assert group.outcome(1, ticket) == (LeaderReply(place=0) if is_committed else None)


@pytest.mark.parametrize("shape", ["1", "12", "122", "1223"])
def test_records_of_earlier_terms_are_committed_with_the_first_one_of_the_own_term(shape: str) -> None:
    """A new leader's first record commits all that is below it."""
    group = Group.of_voters(3)
    for node in (1, 2, 3):
        group.begin_with(node, shape, term=3)
    group.elect(1)

    assert group.shape(1) == shape + "4|"
    group.tick(times=4)
    assert group.shape(2) == group.shape(3) == shape + "4|"


def test_followers_hear_of_a_commit() -> None:
    """The leader's commit index travels with its next message, and followers apply what it covers, in order."""
    group = leading_group()
    group.append(1, "a")
    group.append(1, "b")
    group.settle()
    group.tick(times=3)

    assert group.entries(2) == group.entries(3) == ["a", "b"]


@pytest.fixture
def one_record_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message holds one record."""
    monkeypatch.setattr(replication, "MESSAGE_RECORDS", 1)


def figure_8() -> Group:
    """Situation (c) of figure 8, some steps before: S1 and S2 have a record of term 2 at index 2, S5 has one of term 3 there, and S1
    has been elected for term 4."""
    group = Group.of_voters(5)
    for node, shape in enumerate(["12", "12", "1", "1", "13"], 1):
        group.begin_with(node, shape, term=3)
    group.elect_with(1, voters=(2, 3, 4))
    assert group.shape(1) == "|124"
    return group


def exchange(group: Group, leader: int, peer: int, *, until: int) -> None:
    """Deliver what goes to and from a peer until the leader knows that it has the record at `until`."""
    leading = group[leader].leading
    assert leading is not None
    while next(each.match for node, each in leading.replicator.peers.items() if node == peer) < until:
        message = next(m for m in group.messages if {m.sender, m.receiver} == {leader, peer})
        group.deliver(message)
        group.sync(peer)


@pytest.mark.usefixtures("one_record_messages")
def test_record_of_an_earlier_term_is_not_committed_by_counting_replicas() -> None:
    """Figure 8 (d): a majority has the record of term 2, and it is not committed; so S5 may be elected, and replace it."""
    group = figure_8()
    group.sync(1)
    exchange(group, 1, 2, until=3)
    exchange(group, 1, 3, until=2)
    assert [group[node].state.log.term_at(2) for node in (1, 2, 3)] == [2, 2, 2]
    assert [group[node].state.log.term_at(3) for node in (1, 2, 3)] == [4, 4, None]

    assert group[1].state.commit == 0

    for message in list(group.messages):
        group.drop(message)
    group.crash(1)
    group.elect_with(5, voters=(3, 4))
    group.settle(without=[1])
    group.tick(2, 3, 4, 5, times=6, without=[1])
    assert [group.shape(node) for node in (2, 3, 4, 5)] == ["135|"] * 4


def test_record_of_an_earlier_term_is_committed_with_one_of_the_present_term() -> None:
    """Figure 8 (e): a majority has the record of term 4 as well. S5 cannot be elected any more."""
    group = figure_8()
    while group[1].state.commit == 0:
        group.do(1, lambda at: at.replica.tick(0))
        group.sync(1)
        for message in [m for m in group.messages if {m.sender, m.receiver} <= {1, 2, 3}]:
            group.deliver(message)
        group.sync(2)
        group.sync(3)
    assert group.shape(1) == "124|"

    for message in list(group.messages):
        group.drop(message)
    group.crash(1)
    for _ in range(3):
        group[5]._deadline = group[5].ticks
        group.do(5, lambda at: at.replica.tick(0))
        group.settle(without=[1])

    assert not group.leads(5)
    assert not [m for m in group.messages if isinstance(m.request, AppendRecords)]
