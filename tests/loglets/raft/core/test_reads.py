"""Linearizable reads: a tail is answered once a majority has confirmed the leader, in a round that began behind the question."""

from __future__ import annotations

from tests.loglets.raft.core.group import Group
from virtuallog.contract.batch import SessionId
from virtuallog.contract.errors import OverloadedError, TailMismatchError, UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core.membership import MemberKind, RaftMember
from virtuallog_loglets.raft.core.read_index import WAITING_MAX
from virtuallog_loglets.raft.core.replica_state import ReplicaState
from virtuallog_loglets.raft.messages import NOWHERE, LeaderReply

OTHER = SessionId(bytes([1] * 16))


def leading_group(voters: int = 3) -> Group:
    """Replicas of which the first leads, without an election."""
    group = Group.of_voters(voters, first_leader=1)
    group.settle()
    return group


def test_read_held_for_the_first_record_is_answered_once_the_own_disk_commits_it() -> None:
    """The leader's own sync commits the NOOP: the reads that waited for it go on at once, and not with the next message."""
    group = Group.of_voters(1)
    while not group.leads(1):
        group.do(1, lambda at: at.replica.tick(0))
        group.sync(1, 1)
    ticket = group.tail(1)
    assert group.outcome(1, ticket) is None

    group.sync(1)

    assert group.outcome(1, ticket) == LeaderReply(place=0)


def test_refusal_that_rests_on_a_waiting_batch_waits_for_its_commit() -> None:
    """A batch that no record holds yet may never be placed. So a condition that fails because of it is not refused for good until
    it is committed."""
    group = leading_group()
    for _ in range(4):
        group.append(1, "in flight")
    group.append(1, "waits")
    conditional = group.offer(1, "conditional", session=OTHER, sequence=0, expected_tail=4)
    group.settle()

    assert group.entries(1) == ["in flight"] * 4
    assert group.outcome(1, conditional) is None

    group.turn(1)
    group.settle()

    assert group.entries(1) == ["in flight"] * 4 + ["waits"]
    refusal = group.outcome(1, conditional)
    assert isinstance(refusal, TailMismatchError)
    assert (refusal.expected, refusal.found) == (4, 5)


def test_new_leader_holds_reads_until_its_first_record_is_committed() -> None:
    """Before, it does not know what is committed: an earlier leader may have acknowledged more than it knows of."""
    group = leading_group()
    group.append(1, "acknowledged")
    group.settle()
    group.crash(1)
    group.elect_with(2, voters=[3])
    assert group[2].state.commit == 0
    ticket = group.tail(2)
    for message in list(group.messages):
        if not message.is_answer and message.receiver == 3:
            group.deliver(message)
    assert group.outcome(2, ticket) is None

    group.settle(without=[1])
    assert group.outcome(2, ticket) == LeaderReply(place=1)


def test_answer_to_a_message_before_the_read_does_not_confirm_it() -> None:
    """A read is confirmed by a round that began behind it. The answers to a message that left before say nothing about the time
    after: another replica may have been elected, and have committed more."""
    group = leading_group()
    group.tick(times=2)
    group.append(1, "x")
    before = [message for message in group.messages if message.receiver in (2, 3)]
    ticket = group.tail(1)
    after = [message for message in group.messages if message not in before and not message.is_answer]
    for message in before:
        group.deliver(message)
    group.sync(2)
    group.sync(3)
    for message in [message for message in group.messages if message.is_answer]:
        group.deliver(message)
    assert group.outcome(1, ticket) is None

    for message in after:
        group.deliver(message)
    for message in [message for message in group.messages if message.is_answer]:
        group.deliver(message)
    assert group.outcome(1, ticket) == LeaderReply(place=0)


def test_late_answer_to_a_first_question_does_not_confirm_a_second_one() -> None:
    """A client asks twice. The answers to the first round come late, when another leader has committed more: they confirm the first
    question only, whose answer was right when it was asked."""
    group = leading_group(5)
    group.tick(times=2)
    first = group.tail(1, "first")
    for message in list(group.messages):
        group.deliver(message)
    late = list(group.messages)
    assert {message.sender for message in late} == {2, 3, 4, 5}
    second = group.tail(1, "second")
    group.elect_with(4, voters=[2, 3, 5])
    for message in late:
        group.deliver(message)

    assert group.outcome(1, first) == LeaderReply(place=0)
    assert group.outcome(1, second) is None

    group.settle()
    assert isinstance(group.outcome(1, second), UnavailableError)


def test_one_round_confirms_all_reads_that_wait_for_it() -> None:
    """Reads that come while a round is on share the next one."""
    group = leading_group()
    group.tick(times=2)
    tickets = [group.tail(1, f"tail {number}") for number in range(10)]
    sent = [message for message in group.messages if message.sender == 1]
    assert len(sent) == 2
    group.settle()

    assert [group.outcome(1, ticket) for ticket in tickets] == [LeaderReply(place=0)] * 10
    leading = group[1].leading
    assert leading is not None and leading.replicator.round == 2


def test_deposed_leader_answers_no_read() -> None:
    """It cannot be confirmed by a majority, and tells its callers that it does not know."""
    group = leading_group()
    ticket = group.tail(1)
    group.tick(1, times=12, without=[2, 3])

    assert isinstance(group.outcome(1, ticket), UnavailableError)


def test_answers_of_a_learner_confirm_nothing() -> None:
    """Only voters can have elected another leader."""
    group = leading_group()
    group.add(NodeId(4), ReplicaState.begin(group[1].state.log.origin, NodeId(1)))
    members = {**group[1].state.log.configuration.members, NodeId(4): RaftMember(MemberKind.PRE_VOTER)}
    group.do(1, lambda at: at.requests.change_members(members, 0, "change"))
    group.settle()
    group.tick(times=4)
    ticket = group.tail(1)
    group.settle(without=[2, 3])
    assert group.outcome(1, ticket) is None

    group.tick(times=2)
    assert group.outcome(1, ticket) == LeaderReply(place=0)


def test_reads_of_a_follower_name_the_leader() -> None:
    """It answers nothing that a later commit could contradict."""
    group = leading_group()
    group.tick(times=2)
    ticket = group.tail(2)

    assert group.outcome(2, ticket) == LeaderReply(place=NOWHERE, leader=NodeId(1))


def test_too_many_reads_are_refused() -> None:
    """A majority is away: the leader holds some thousand reads, and no more."""
    group = leading_group()
    for number in range(WAITING_MAX):
        group.node(1).requests.check_tail(number)
    ticket = group.tail(1, "one more")

    assert isinstance(group.outcome(1, ticket), OverloadedError)
