"""Elections beyond the paper: candidates that crash, come late, or stand against a leader that works."""

from __future__ import annotations

import pytest

from tests.loglets.raft.core.group import SEGMENT, Group, Message
from virtuallog.contract.errors import OverloadedError, UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core.election import ELECTION_TICKS
from virtuallog_loglets.raft.core.membership import Configuration
from virtuallog_loglets.raft.core.replica_state import ReplicaState
from virtuallog_loglets.raft.core.transitions import RaftRole
from virtuallog_loglets.raft.messages import AppendRecords, RecordsAppended, RequestVote, StandNow, VoteAnswer


def leading_group(voters: int = 3) -> Group:
    """Replicas of which the first leads, without an election."""
    group = Group.of_voters(voters, first_leader=1)
    group.settle()
    return group


def elect_without_own_disk(group: Group, node: int, *, voters: tuple[int, ...]) -> None:
    """Have a replica stand, and these voters vote for it, while its own disk stands still."""
    group[node]._deadline = group[node].ticks
    group.do(node, lambda at: at.replica.tick(0))
    for _ in range(4):
        for message in list(group.messages):
            if isinstance(message.request, RequestVote):
                (group.deliver if {message.sender, message.receiver} <= {node, *voters} else group.drop)(message)
        for voter in voters:
            group.sync(voter)


def test_candidate_leads_once_its_own_vote_is_durable() -> None:
    """A candidate that led before, and crashed, would not know its term, and could lead it a second time: with another record at
    an index that a peer has from the first time."""
    group = Group.of_voters(3)
    elect_without_own_disk(group, 1, voters=(2, 3))

    assert not group.leads(1)

    group.sync(1)
    assert group.leads(1)


def test_each_replica_can_lead_in_turn() -> None:
    """Leaders of one term after another, each elected by the others; all logs are equal at the end."""
    group = Group.of_voters(3)
    for node in (1, 2, 3, 1):
        group.elect_with(node, voters={1, 2, 3} - {node})
        group.settle()
        assert [other for other in (1, 2, 3) if group.leads(other)] == [node]
        group.append(node, f"{node}")
    group.settle()
    group.tick(times=4)

    assert group[1].state.term >= 4
    assert len({tuple(group.entries(node)) for node in (1, 2, 3)}) == 1


@pytest.mark.parametrize("voters", [1, 2])
def test_log_with_few_voters_is_elected_and_commits(voters: int) -> None:
    """A single voter needs only its own disk; two need each other."""
    group = Group.of_voters(voters)
    group.tick(times=40)
    leader = next(node for node in group.nodes if group.leads(node))
    group.append(leader, "x")
    group.settle()

    assert group.entries(leader) == ["x"]


def test_of_two_candidates_one_wins_and_the_other_follows() -> None:
    """Both ask the third at once. It votes for one; the other hears from the leader, and follows."""
    group = Group.of_voters(3)
    group.do(1, lambda at: at.replica.stand())
    group.do(2, lambda at: at.replica.stand())
    group.settle()
    group.tick(times=40)

    leaders = [node for node in group.nodes if group.leads(node)]
    assert len(leaders) == 1
    assert {group[node].leader for node in group.nodes} == set(leaders)


def test_candidate_with_a_shorter_log_makes_way() -> None:
    """A replica that was cut off stands at once when it is back, and cannot win: its term has not grown meanwhile, so the leader goes
    on to lead, and it follows."""
    group = leading_group()
    group.settle()
    group.tick(times=50, without=[3])
    group.append(1, "missed")
    group.settle(without=[3])
    term = group[3].state.term

    group.tick(times=30)

    assert term == 1
    assert group.leads(1) and group[1].state.term == 1
    assert group.entries(3) == ["missed"]


def test_promise_that_comes_late_is_not_a_vote() -> None:
    """The answer to a pre-vote arrives when its candidate asks for real votes: it does not count among these."""
    group = Group.of_voters(5)
    group.do(1, lambda at: at.replica.stand())
    promises = [message for message in list(group.messages) if isinstance(message.request, RequestVote)]
    for message in promises:
        group.deliver(message)
    answers = [message for message in group.messages if message.is_answer]
    for answer in answers[:2]:
        group.deliver(answer)
    assert group[1].campaign is not None and not group[1].campaign.pre
    group.sync(1)
    for answer in answers[2:]:
        group.deliver(answer)

    assert group[1].campaign.granted == {1}
    assert not group.leads(1)


def test_vote_of_an_earlier_campaign_does_not_count() -> None:
    """A candidate stands again before the first votes have come: these are for an earlier term."""
    group = Group.of_voters(5)
    group.do(1, lambda at: at.replica.stand_now(StandNow(segment=SEGMENT, term=0, leader=NodeId(2)), "one"))
    first = group[1].campaign
    group.do(1, lambda at: at.replica.stand_now(StandNow(segment=SEGMENT, term=1, leader=NodeId(2)), "two"))
    group.sync(1)
    assert first is not None
    for voter in (2, 3, 4):
        group.hear(1, voter, VoteAnswer(granted=True, term=1), number=first.number)

    assert group[1].state.term == 2
    assert not group.leads(1)


def test_candidate_that_is_refused_in_a_later_term_is_free_to_vote_in_it() -> None:
    """It takes in the term of the refusal, and no vote: the replica that stands in that term gets it."""
    group = Group.of_voters(3)
    group.do(1, lambda at: at.replica.stand())
    group.hear(1, 2, VoteAnswer(granted=False, term=7))

    question = RequestVote(segment=SEGMENT, term=7, candidate=NodeId(3), last_index=0, last_term=0)

    assert group.ask(1, question) == VoteAnswer(granted=True, term=7)


def test_voter_that_hears_from_a_leader_refuses_others() -> None:
    """Within an election timeout of the leader's last message, no candidate gets a vote or a promise, and the term stays."""
    group = leading_group()
    group.tick(times=2)
    for pre in (True, False):
        question = RequestVote(segment=SEGMENT, term=7, candidate=NodeId(3), last_index=9, last_term=9, pre=pre)
        assert group.ask(2, question) == VoteAnswer(granted=False, term=1)
        assert group.ask(1, question) == VoteAnswer(granted=False, term=1)

    for _ in range(ELECTION_TICKS):
        group[2]._deadline = 1000
        group.do(2, lambda at: at.replica.tick(0))
    question = RequestVote(segment=SEGMENT, term=7, candidate=NodeId(3), last_index=9, last_term=9, pre=True)
    assert group.ask(2, question) == VoteAnswer(granted=True, term=7)
    assert group[2].state.term == 1


def test_candidate_of_a_later_term_is_brought_back_by_the_leader() -> None:
    """A replica has stored a later term, and the others refuse it as they hear from their leader. Its answer to the leader tells the
    term; one election later all agree."""
    group = leading_group()
    group.begin_with(3, "", term=6)
    group.tick(times=60)

    assert group[1].state.term > 6
    assert sum(group.leads(node) for node in group.nodes) == 1
    assert {group[node].state.term for node in group.nodes} == {group[1].state.term}


def test_leader_that_hears_from_no_majority_steps_down() -> None:
    """After an election timeout; its callers hear that the outcome is unknown."""
    group = leading_group()
    ticket = group.append(1, "x")
    group.tick(1, times=ELECTION_TICKS + 2, without=[2, 3])

    assert not group.leads(1)
    assert isinstance(group.outcome(1, ticket), UnavailableError)


def test_replica_between_two_that_cannot_reach_each_other_lets_one_lead() -> None:
    """The fifth of five is down. The leader reaches one peer; that one, a bridge, reaches two others, and they need its
    vote. The leader steps down, as it has no majority, so the bridge votes for another one."""
    group = leading_group(5)

    def is_cut(message: Message) -> bool:
        return {message.sender, message.receiver} in ({1, 3}, {1, 4}) or 5 in (message.sender, message.receiver)

    for _ in range(60):
        for node in (1, 2, 3, 4):
            group.do(node, lambda at: at.replica.tick(0))
        while group.messages:
            message = group.messages[0]
            (group.drop if is_cut(message) else group.deliver)(message)
            for node in group.nodes:
                group.sync(node)

    leaders = [node for node in group.nodes if group.leads(node)]
    assert len(leaders) == 1
    assert leaders[0] != 1
    group.append(leaders[0], "x")
    for _ in range(20):
        for message in list(group.messages):
            (group.drop if is_cut(message) else group.deliver)(message)
        for node in group.nodes:
            group.sync(node)
    assert group.entries(leaders[0]) == ["x"]


def test_leader_that_can_send_and_not_hear_makes_way() -> None:
    """Its heartbeats arrive, the answers are lost: it has no majority, steps down, and another one is elected."""
    group = leading_group()
    for _ in range(60):
        for node in group.nodes:
            group.do(node, lambda at: at.replica.tick(0))
        while group.messages:
            message = group.messages[0]
            (group.drop if message.receiver == 1 else group.deliver)(message)
            for node in group.nodes:
                group.sync(node)

    assert not group.leads(1)
    assert sum(group.leads(node) for node in (2, 3)) == 1


def test_copy_of_a_sealed_log_does_not_vote() -> None:
    """It was made by an administrator, and not elected for anything."""
    group = leading_group()
    group.append(1, "x")
    group.settle()
    copied = ReplicaState.begin_copy(Configuration.of_voters((NodeId(4),)), group.records(1)[0], 0)
    group.add(NodeId(4), copied)
    question = RequestVote(segment=SEGMENT, term=7, candidate=NodeId(3), last_index=9, last_term=9, forced=True)

    assert group.ask(4, question).granted is False
    assert group[4].stand() == []


def test_replica_of_a_later_term_tells_it_to_a_candidate_of_an_earlier_one() -> None:
    """Its refusal has its own term; the candidate adopts it, and does not ask in vain for ever."""
    group = Group.of_voters(3)
    group.begin_with(2, "1", term=5)
    group.begin_with(1, "1")
    group.do(1, lambda at: at.replica.stand())
    group.settle(without=[3])

    assert group[1].state.term == 5
    assert group[1].role is RaftRole.FOLLOWER


@pytest.mark.parametrize("message", ["records", "vote", "records answered", "vote answered"])
def test_term_that_is_absurdly_high_is_not_adopted(message: str) -> None:
    """A message was made by a wrong program, or damaged. After the highest term that can be stored none could be elected any more."""
    group, absurd = leading_group(), (1 << 64) - 1
    node = 1 if "answered" in message else 2
    match message:
        case "records":
            sent = AppendRecords(
                segment=SEGMENT, term=absurd, leader=NodeId(3), previous_index=0, previous_term=0, commit=0
            )  # fmt: skip
            assert isinstance(group.ask(node, sent), OverloadedError)
        case "vote":
            question = RequestVote(
                segment=SEGMENT, term=absurd, candidate=NodeId(3), last_index=9, last_term=9, forced=True
            )  # fmt: skip
            assert isinstance(group.ask(node, question), OverloadedError)
        case "records answered":
            group.append(1, "x")
            number = next(each.number for each in group.messages if each.receiver == 2)
            group.hear(1, 2, RecordsAppended(term=absurd, accepted=False, index=0), number=number, term=1)
        case "vote answered":
            group.hear(1, 2, VoteAnswer(granted=False, term=absurd))

    assert group[node].state.term == 1
    group.settle()
    assert group.leads(1)
