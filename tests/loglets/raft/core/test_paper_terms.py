"""Claims of the Raft paper on terms and roles (sections 5.1 and 5.2): a term in any message, what is out of date, heartbeats."""

from __future__ import annotations

import pytest

from tests.loglets.raft.core.group import SEGMENT, Group
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core.effects import RaftSend
from virtuallog_loglets.raft.core.election import HEARTBEAT_TICKS
from virtuallog_loglets.raft.core.transitions import RaftRole
from virtuallog_loglets.raft.messages import AppendRecords, RecordsAppended, RequestVote, VoteAnswer

ROLES = [RaftRole.FOLLOWER, RaftRole.CANDIDATE, RaftRole.LEADER]
MESSAGES = ["records", "vote", "records answered", "vote answered"]


def group_with(role: RaftRole) -> Group:
    """Three replicas, of which the first has this role, in term 2."""
    group = Group.of_voters(3)
    for node in (1, 2, 3):
        group.begin_with(node, "1")
    group.do(1, lambda at: at.replica.stand())
    if role is RaftRole.LEADER:
        group.settle()
        assert group[1].state.term == 2
    elif role is RaftRole.CANDIDATE:
        while group[1].state.term < 2:
            group.deliver(group.messages[0])
        group.sync(1)
    else:
        group.begin_with(1, "", term=2)
    assert group[1].role is role
    return group


def heartbeat(term: int, leader: int = 2) -> AppendRecords:
    """A message of a leader without records, behind record 1."""
    return AppendRecords(
        segment=SEGMENT, term=term, leader=NodeId(leader), previous_index=1, previous_term=1, commit=0
    )  # fmt: skip


def vote(term: int, last_index: int = 9, last_term: int = 9) -> RequestVote:
    """A question of a candidate with a long log; forced, as a leader may be near."""
    return RequestVote(
        segment=SEGMENT, term=term, candidate=NodeId(2), last_index=last_index, last_term=last_term, forced=True
    )  # fmt: skip


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize("role", ROLES)
def test_higher_term_in_any_message_makes_a_follower(role: RaftRole, message: str) -> None:
    """A server whose term is out of date adopts the later one; a candidate or leader becomes a follower at once."""
    group = group_with(role)
    replica = group[1]
    match message:
        case "records":
            group.ask(1, heartbeat(5))
        case "vote":
            group.ask(1, vote(5))
        case "records answered":
            group.hear(1, 2, RecordsAppended(term=5, accepted=False, index=0), term=2)
        case "vote answered":
            group.hear(1, 2, VoteAnswer(granted=False, term=5))

    assert replica.state.term == 5
    assert replica.role is RaftRole.FOLLOWER
    assert replica.leader == (2 if message == "records" else 0)


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize("role", ROLES)
def test_message_of_an_earlier_term_changes_nothing(role: RaftRole, message: str) -> None:
    """A request with a stale term is refused with the present one; an answer with one is passed over."""
    group = group_with(role)
    replica = group[1]
    before = (replica.state.term, replica.state.vote, replica.role, replica.leader, replica.state.log.end)
    match message:
        case "records":
            answer = group.ask(1, heartbeat(1))
            assert answer == RecordsAppended(term=2, accepted=False, index=0)
        case "vote":
            assert group.ask(1, vote(1)) == VoteAnswer(granted=False, term=2)
        case "records answered":
            group.hear(1, 2, RecordsAppended(term=1, accepted=True, index=1), term=1)
        case "vote answered":
            for number in range(5):
                group.hear(1, 2, VoteAnswer(granted=True, term=1), number=number)

    assert (replica.state.term, replica.state.vote, replica.role, replica.leader, replica.state.log.end) == before


def test_server_starts_as_a_follower() -> None:
    """Also one that led before it began anew."""
    group = group_with(RaftRole.LEADER)
    group.crash(1)

    assert group[1].role is RaftRole.FOLLOWER
    assert group[1].state.term == 2


def test_leader_sends_heartbeats_to_all_peers() -> None:
    """Without anything to send, each peer gets an empty message in each heartbeat interval."""
    group = group_with(RaftRole.LEADER)
    sent: list[RaftSend] = []
    for _ in range(HEARTBEAT_TICKS):
        sent += [effect for effect in group[1].tick(0) if isinstance(effect, RaftSend)]

    assert sorted(send.peer for send in sent) == [2, 3]
    for send in sent:
        assert isinstance(send.request, AppendRecords)
        assert (send.request.term, send.request.records, send.request.previous_index) == (2, (), 2)


@pytest.mark.parametrize("term", [2, 3])
def test_candidate_returns_to_follower_when_a_leader_of_its_term_or_a_later_one_speaks(term: int) -> None:
    """A candidate recognises a leader whose term is at least as large as its own."""
    group = group_with(RaftRole.CANDIDATE)
    answer = group.ask(1, heartbeat(term))

    assert answer == RecordsAppended(term=term, accepted=True, index=1)
    assert group[1].role is RaftRole.FOLLOWER
    assert (group[1].state.term, group[1].leader) == (term, 2)
