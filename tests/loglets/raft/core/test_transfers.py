"""Transfers of the leadership: the target has everything, stands at once, and until then or until time is up no requests are taken."""

from __future__ import annotations

import pytest

from tests.loglets.raft.core.group import SEGMENT, Group
from virtuallog.contract.errors import InvalidSettingError, UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core.election import ELECTION_TICKS
from virtuallog_loglets.raft.core.membership import Configuration, MemberKind, RaftMember
from virtuallog_loglets.raft.messages import NOWHERE, LeaderReply, RequestVote, StandNow


def leading_group(voters: int = 3) -> Group:
    """Replicas of which the first leads, without an election."""
    group = Group.of_voters(voters, first_leader=1)
    group.settle()
    return group


def transfer(group: Group, node: int, target: int, ticket: str = "transfer") -> str:
    """Ask a leader to hand over; returns the ticket."""
    group.do(node, lambda at: at.requests.transfer(NodeId(target), ticket))
    return ticket


def test_target_that_has_everything_leads_at_once() -> None:
    """No election timeout passes, and the others vote although they hear from the leader."""
    group = leading_group()
    group.tick(times=2)
    ticket = transfer(group, 1, 2)
    group.settle()

    assert group.leads(2) and not group.leads(1)
    assert group.outcome(1, ticket) == LeaderReply(place=NOWHERE, leader=NodeId(2))


def test_slow_target_is_brought_up_to_date_first() -> None:
    """It is asked to stand once it has the leader's last record."""
    group = leading_group()
    group.append(1, "missed")
    group.settle(without=[2])
    ticket = transfer(group, 1, 2)
    assert not [message for message in group.messages if isinstance(message.request, StandNow)]
    group.tick(times=4)

    assert group.leads(2)
    assert group.outcome(1, ticket) == LeaderReply(place=NOWHERE, leader=NodeId(2))
    assert group.entries(2) == ["missed"]


def test_target_behind_the_base_gets_the_base_first() -> None:
    """The records that it lacks have been trimmed."""
    group = leading_group()
    group.append(1, "trimmed")
    group.settle(without=[2])
    for node in (1, 3):
        group.do(node, lambda at: at.requests.trim(1, "trim"))
        group.sync(node)
    assert group[1].state.log.base.index == 1
    transfer(group, 1, 2)
    group.tick(times=6)

    assert group.leads(2)
    assert group[2].state.log.base.index >= 1


@pytest.mark.parametrize("target", [1, 4, 9], ids=["itself", "observer", "unknown"])
def test_transfer_to_no_other_voter_is_refused(target: int) -> None:
    """Only another voter may lead."""
    group = leading_group()
    members = {**group[1].state.log.configuration.members, NodeId(4): RaftMember(MemberKind.OBSERVER)}
    group.do(1, lambda at: at.requests.change_members(members, 0, "change"))
    group.settle()
    ticket = transfer(group, 1, target)

    assert isinstance(group.outcome(1, ticket), InvalidSettingError)
    assert group[1].leading is not None and group[1].leading.transfer is None


def test_transfer_ends_after_an_election_timeout() -> None:
    """The target is cut off: the leader takes requests again, and its caller hears of it."""
    group = leading_group()
    ticket = transfer(group, 1, 2)
    group.tick(1, 3, times=ELECTION_TICKS + 1, without=[2])

    assert group.leads(1)
    assert isinstance(group.outcome(1, ticket), UnavailableError)
    late = group.append(1, "x")
    group.settle(without=[2])
    assert group.outcome(1, late) == LeaderReply(place=0)


def test_no_requests_are_taken_meanwhile() -> None:
    """Neither batches nor reads: a batch could keep the target behind, and a read could be older than what the target commits."""
    group = leading_group()
    group.append(1, "x")
    group.settle(without=[2])
    transfer(group, 1, 2)
    batch = group.append(1, "y")
    read = group.tail(1)

    assert isinstance(group.outcome(1, batch), UnavailableError)
    assert isinstance(group.outcome(1, read), UnavailableError)


def test_former_leader_answers_no_read_while_it_hands_over() -> None:
    """The target is elected at once, within the election timeout in which a majority has answered the former leader. That
    one does not know, and lacks what the target commits."""
    group = leading_group()
    transfer(group, 1, 2)
    group.deliver(next(message for message in group.messages if isinstance(message.request, StandNow)))
    group.settle(without=[1])
    group.append(2, "x")
    group.settle(without=[1])
    assert (group.leads(1), group.leads(2), group.entries(2)) == (True, True, ["x"])

    read = group.tail(1)

    assert isinstance(group.outcome(1, read), UnavailableError)


def test_batches_that_waited_are_ordered_after_a_transfer_that_failed() -> None:
    """What was offered before keeps its place."""
    group = leading_group()
    for _ in range(4):
        group.append(1, "in flight")
    waiting = group.append(1, "waits")
    transfer(group, 1, 2)
    group.settle(without=[2])
    group.turn(1)
    assert group.outcome(1, waiting) is None
    group.tick(1, 3, times=ELECTION_TICKS + 1, without=[2])
    group.turn(1)
    group.settle(without=[2])

    assert group.outcome(1, waiting) == LeaderReply(place=4)


def test_second_transfer_takes_the_place_of_the_first() -> None:
    """The first caller gets an answer; a second one to the same target begins anew as well."""
    group = leading_group()
    group.append(1, "x")
    group.settle(without=[2])
    first = transfer(group, 1, 2, "first")
    second = transfer(group, 1, 3, "second")
    group.settle(without=[2])

    assert isinstance(group.outcome(1, first), UnavailableError)
    assert group.leads(3)
    assert group.outcome(1, second) == LeaderReply(place=NOWHERE, leader=NodeId(3))


def test_leadership_can_be_handed_back() -> None:
    """There and back again."""
    group = leading_group()
    transfer(group, 1, 2)
    group.settle()
    transfer(group, 2, 1)
    group.settle()

    assert group.leads(1) and not group.leads(2)


def test_transfer_ends_when_the_target_is_no_voter_any_more() -> None:
    """The members were changed meanwhile."""
    group = leading_group()
    ticket = transfer(group, 1, 3)
    group.messages.clear()
    members = Configuration.of_voters((NodeId(1), NodeId(2))).members
    group.do(1, lambda at: at.requests.change_members(members, 0, "change"))
    group.settle()

    assert isinstance(group.outcome(1, ticket), UnavailableError)
    assert group.leads(1)


def test_transfer_ends_with_the_term() -> None:
    """Another replica was elected: the caller is not left without an answer."""
    group = leading_group()
    group.append(1, "x")
    group.settle(without=[2])
    ticket = transfer(group, 1, 2)
    question = RequestVote(segment=SEGMENT, term=9, candidate=NodeId(3), last_index=9, last_term=9, forced=True)
    group.ask(1, question)

    assert not group.leads(1)
    assert isinstance(group.outcome(1, ticket), UnavailableError)


def test_replica_that_does_not_lead_names_the_leader() -> None:
    """It starts nothing."""
    group = leading_group()
    group.tick(times=2)
    ticket = transfer(group, 2, 3)

    assert group.outcome(2, ticket) == LeaderReply(place=NOWHERE, leader=NodeId(1))


def test_message_to_stand_of_an_earlier_term_is_passed_over() -> None:
    """It was late: another leader has been elected since."""
    group = leading_group()
    group.begin_with(2, "", term=5)
    group.do(2, lambda at: at.replica.stand_now(StandNow(segment=SEGMENT, term=1, leader=NodeId(1)), "stand"))

    assert group[2].campaign is None
    assert group[2].state.term == 5
