"""Changes of the members: one voter at a time, in force from the log on, taken back by a truncation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.loglets.raft.core.group import SEGMENT, Group
from virtuallog.contract.errors import InvalidSettingError, OverloadedError, UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core import leader_term
from virtuallog_loglets.raft.core.election import ELECTION_TICKS, HEARTBEAT_TICKS
from virtuallog_loglets.raft.core.membership import MemberKind, RaftMember
from virtuallog_loglets.raft.core.replica_state import ReplicaState
from virtuallog_loglets.raft.messages import LeaderReply, RequestVote, VoteAnswer


def leading_group(voters: int = 3) -> Group:
    """Replicas of which the first leads, without an election."""
    group = Group.of_voters(voters, first_leader=1)
    group.settle()
    return group


def change(group: Group, node: int, **kinds: MemberKind | None) -> Any:
    """Ask a replica to change members, named n1, n2 and so on; None removes one. Returns the ticket."""
    present = group[node].state.log.configuration
    members = dict(present.members)
    for name, kind in kinds.items():
        members.pop(NodeId(int(name[1:])), None)
        if kind is not None:
            members[NodeId(int(name[1:]))] = RaftMember(kind)
    ticket = object()
    group.do(node, lambda at: at.requests.change_members(members, present.index, ticket))
    return ticket


def voters(group: Group, node: int) -> set[int]:
    """Voters as a replica has them in its log."""
    return {*group[node].state.log.configuration.voters}


def role(group: Group, node: int) -> str:
    """Role of a replica."""
    return group[node].role.name


@pytest.mark.parametrize("kind", [MemberKind.OBSERVER, MemberKind.PRE_VOTER])
def test_demoted_voter_stands_while_its_demotion_is_not_committed(kind: MemberKind) -> None:
    """The leader of two voters demotes the other one, and fails before its own disk has the record. The other one has it, so it
    cannot vote for a log without it: it must lead once more, to commit its own demotion."""
    group = leading_group(2)
    change(group, 1, n2=kind)
    for message in list(group.messages):
        group.deliver(message)
    group.sync(2)
    group.crash(1)
    assert (group.shape(1), group.shape(2)) == ("|", "|1")

    group.tick(times=60)

    assert sum(group.leads(node) for node in (1, 2)) == 1
    assert voters(group, 1) == (
        {1} if kind is MemberKind.OBSERVER else {1, 2}
    )  # a PRE_VOTER that has caught up votes again


def with_new_replica(group: Group, node: int) -> None:
    """Add a replica that is no member yet."""
    group.add(NodeId(node), ReplicaState.begin(group[1].state.log.origin, NodeId(1)))


def test_new_leader_changes_no_members_before_its_first_record_is_committed() -> None:
    """Otherwise its change and one of an earlier leader, which may still come to be committed, could change two voters at once."""
    group = Group.of_voters(3)
    group.elect_with(1, voters=[2])
    ticket = change(group, 1, n4=MemberKind.PRE_VOTER)
    assert isinstance(group.outcome(1, ticket), UnavailableError)

    group.settle()
    ticket = change(group, 1, n4=MemberKind.PRE_VOTER)
    group.settle()

    assert group.outcome(1, ticket) == LeaderReply(place=0)


def test_changes_of_two_leaders_leave_one_majority() -> None:
    """Of four voters, the first adds a fifth, and only that one hears of it. The second is elected and removes the first:
    with the third it would be a majority of three. The first could still be elected by the fourth and the fifth."""
    group = leading_group(4)
    with_new_replica(group, 5)
    change(group, 1, n5=MemberKind.VOTER)
    group.tick(1, times=HEARTBEAT_TICKS, without=[2, 3, 4])
    assert (voters(group, 1), voters(group, 5)) == ({1, 2, 3, 4, 5}, {1, 2, 3, 4, 5})
    group.elect_with(2, voters=[3, 4])
    change(group, 2, n1=None)
    group.settle(without=[1, 4, 5])
    group.tick(1, times=ELECTION_TICKS + 1, without=[2, 3, 4, 5])

    group.elect_with(1, voters=[4, 5])
    group.settle()
    group.tick(times=4)

    assert {*map(group.shape, group.nodes)} == {group.shape(1)}
    assert voters(group, 2) == {1, 2, 3, 4, 5}


def test_second_change_waits_for_the_first_to_be_committed() -> None:
    """Two that are not committed could change two voters at once."""
    group = leading_group()
    change(group, 1, n3=None)
    second = change(group, 1, n2=None)

    assert isinstance(group.outcome(1, second), UnavailableError)


def test_change_that_names_an_older_configuration_is_refused() -> None:
    """Of two operators that change the same members, the second has not seen the change of the first."""
    group = leading_group()
    present = dict(group[1].state.log.configuration.members)
    change(group, 1, n4=MemberKind.OBSERVER)
    group.settle()
    ticket = object()
    group.do(1, lambda at: at.requests.change_members(present, 0, ticket))

    assert isinstance(group.outcome(1, ticket), InvalidSettingError)


def test_members_are_added_and_removed_one_after_the_other() -> None:
    """A replica is added, catches up, becomes a voter, and takes the place of another one, which hears no more."""
    group = leading_group()
    with_new_replica(group, 4)
    group.append(1, "before")
    for step in ({"n4": MemberKind.PRE_VOTER}, {"n3": None}):
        ticket = change(group, 1, **step)
        group.settle()
        group.tick(times=3)
        assert isinstance(group.outcome(1, ticket), LeaderReply)
    group.append(1, "after")
    group.settle(without=[3])
    group.tick(1, times=3, without=[3])

    assert voters(group, 1) == {1, 2, 4}
    assert group.entries(4) == ["before", "after"]
    assert role(group, 4) == "FOLLOWER"


def test_change_of_an_unacknowledged_leader_is_taken_back_by_the_next_one() -> None:
    """A replica takes the members from its log, and so those before a change that is truncated."""
    group = leading_group()
    change(group, 1, n3=MemberKind.OBSERVER)
    group.sync(1)
    group.messages.clear()
    assert voters(group, 1) == {1, 2}
    group.elect_with(2, voters=[3])
    group.settle()
    group.tick(times=4)

    assert voters(group, 1) == {1, 2, 3}
    assert role(group, 1) == "FOLLOWER"
    group.crash(1)
    assert voters(group, 1) == {1, 2, 3}


def test_learner_receives_records_and_counts_for_nothing() -> None:
    """It is not needed for a majority, and its answers do not make one."""
    group = leading_group()
    with_new_replica(group, 4)
    change(group, 1, n4=MemberKind.OBSERVER)
    group.tick(times=3)
    ticket = group.append(1, "x")
    group.settle(without=[2, 3])
    assert group.outcome(1, ticket) is None
    assert group[4].state.log.last_index == group[1].state.log.last_index
    assert role(group, 4) == "LEARNER"

    group.tick(times=3)
    assert group.outcome(1, ticket) == LeaderReply(place=0)


def test_learner_stands_for_nothing_and_still_votes() -> None:
    """It may have been made a voter without knowing, so its answer counts if the candidate knows."""
    group = leading_group()
    with_new_replica(group, 4)
    change(group, 1, n4=MemberKind.OBSERVER)
    group.tick(times=3)
    group.tick(4, times=40)
    assert role(group, 4) == "LEARNER" and group[4].state.term == 1
    group.do(4, lambda at: at.replica.stand())
    assert not group.messages

    question = RequestVote(segment=SEGMENT, term=9, candidate=NodeId(2), last_index=9, last_term=1, forced=True)
    assert group.ask(4, question) == VoteAnswer(granted=True, term=9)


def test_voter_that_does_not_know_its_promotion_helps_to_elect() -> None:
    """The record that makes it a voter is at the candidate only, which needs its vote."""
    group = Group.of_voters(1, first_leader=1)
    group.settle()
    with_new_replica(group, 2)
    change(group, 1, n2=MemberKind.OBSERVER)
    group.tick(times=3)
    change(group, 1, n2=MemberKind.VOTER)
    group.sync(1)
    group.messages.clear()
    group.crash(1)
    assert role(group, 2) == "LEARNER"

    group.tick(times=60)

    assert group.leads(1)
    assert role(group, 2) == "FOLLOWER"
    assert voters(group, 1) == {1, 2}


def test_leader_is_not_removed_before_it_has_handed_over() -> None:
    """Nor is a log left without a voter, or without a change."""
    group = leading_group()
    refused = [
        change(group, 1, n1=None),
        change(group, 1, n2=None, n3=None),
        change(group, 1),
        change(group, 1, n1=MemberKind.OBSERVER),
    ]

    assert all(isinstance(group.outcome(1, ticket), InvalidSettingError) for ticket in refused)


def test_removed_voter_does_not_disturb_the_others() -> None:
    """It does not know that it was removed, and asks for votes; the others hear from their leader, and stay in their term."""
    group = leading_group()
    change(group, 1, n3=None)
    group.settle()
    group.tick(1, 2, times=3)
    group.tick(times=60)

    assert group.leads(1) and group[1].state.term == 1


def test_change_is_not_made_if_its_caller_cannot_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many callers wait already, so it is refused: such a refusal says that nothing has been done."""
    monkeypatch.setattr(leader_term, "WAITING_MAX", 0)
    group = leading_group()
    ticket = change(group, 1, n3=None)

    assert isinstance(group.outcome(1, ticket), OverloadedError)
    assert voters(group, 1) == {1, 2, 3}
