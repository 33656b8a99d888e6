"""Tombstones: a removed replica keeps term, vote and last record, votes by them, and does nothing else ever again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.loglets.raft.core.group import SEGMENT, Group
from virtuallog.contract.errors import InvalidSettingError, MalformedError, UnsupportedError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core import wal_records
from virtuallog_loglets.raft.core.effects import StateSaved
from virtuallog_loglets.raft.core.membership import Configuration, MemberKind, RaftMember
from virtuallog_loglets.raft.core.replica_state import ReplicaState
from virtuallog_loglets.raft.core.transitions import RaftRole
from virtuallog_loglets.raft.messages import AppendRecords, RaftStanding, RequestVote, StandNow, VoteAnswer
from virtuallog_loglets.wal.core.record import WalRecord

GONE = 3


def ask(group: Group, node: int, request: Any) -> Any:
    """Answer of a replica to a request, once it is durable there."""
    replica = group[node]
    steps: dict[type[Any], Any] = {
        RequestVote: replica.vote_requested, AppendRecords: replica.records_requested, StandNow: replica.stand_now,
    }  # fmt: skip
    ticket = object()
    group.do(node, lambda _: steps[type(request)](request, ticket))
    group.sync(node)
    return group.outcome(node, ticket)


def vote(
    group: Group, *, term: int, last_index: int, last_term: int, candidate: int = 2, forced: bool = True
) -> VoteAnswer:
    """Answer of the removed replica to a candidate."""
    request = RequestVote(
        segment=SEGMENT,
        term=term,
        candidate=NodeId(candidate),
        last_index=last_index,
        last_term=last_term,
        forced=forced,
    )
    answer = ask(group, GONE, request)
    assert isinstance(answer, VoteAnswer)
    return answer


def removed() -> Group:
    """Voters 1 to 3 with two records; then 3 is removed, and told so."""
    group = Group.of_voters(3)
    group.elect(1)
    group.append(1, "a")
    group.tick(1, times=2)
    present = group[1].state.log.configuration
    rest = {node: member for node, member in present.members.items() if node != GONE}
    group.do(1, lambda at: at.requests.change_members(rest, present.index, "remove"))
    group.settle()
    index = group[1].state.log.configuration.index
    group.do(GONE, lambda at: at.replica.retire(index, "retire"))
    group.sync(GONE)
    return group


def test_a_removed_replica_votes_by_its_term_and_its_last_record() -> None:
    """Kudu's TombstonedVoting: yes to a log that is as long as its own, no to a shorter one, and once in a term."""
    group = removed()
    state = group[GONE].state
    assert isinstance(group.outcome(GONE, "retire"), RaftStanding)
    assert (state.is_removed, group[GONE].role, state.log.last_index, state.term) == (
        True,
        RaftRole.NON_PARTICIPANT,
        2,
        1,
    )

    assert not vote(group, term=2, last_index=1, last_term=1).granted
    assert vote(group, term=3, last_index=2, last_term=1).granted
    assert not vote(group, term=3, last_index=9, last_term=2, candidate=1).granted
    assert not vote(group, term=2, last_index=9, last_term=2).granted


def test_a_removed_replica_is_one_after_a_restart_with_the_same_vote() -> None:
    """The removal, the term and the vote are on its disk."""
    group = removed()
    assert vote(group, term=3, last_index=2, last_term=1).granted
    group.crash(GONE)

    state = group[GONE].state
    assert (state.is_removed, state.term, state.vote, state.log.last_index) == (True, 3, 2, 2)
    assert not vote(group, term=3, last_index=9, last_term=2, candidate=1).granted
    assert vote(group, term=3, last_index=9, last_term=2).granted


def test_a_removed_replica_takes_no_records_and_never_stands() -> None:
    """Its place in the log is taken by no leader and no transfer; its id is never used again."""
    group = removed()
    sent = AppendRecords(segment=SEGMENT, term=5, leader=NodeId(1), previous_index=2, previous_term=1, commit=2)
    assert isinstance(ask(group, GONE, sent), UnsupportedError)
    ask(group, GONE, StandNow(segment=SEGMENT, term=1, leader=NodeId(1)))
    group.tick(GONE, times=60)

    assert (group[GONE].state.term, group[GONE].role, group.messages) == (1, RaftRole.NON_PARTICIPANT, [])


def test_the_log_goes_on_without_a_removed_replica() -> None:
    """The two that are left are a majority of two."""
    group = removed()
    group.append(1, "b")
    group.settle(without=[GONE])
    group.tick(1, times=2, without=[GONE])

    assert group.entries(2) == ["a", "b"]
    assert group.entries(GONE) == ["a"]


def removed_while_away() -> Group:
    """Voters 1 to 3; 3 is removed while it is cut off. Nothing but an answer to its question for votes tells it."""
    group = Group.of_voters(3)
    group.elect(1)
    group.tick(1, times=2)
    present = group[1].state.log.configuration
    rest = {node: member for node, member in present.members.items() if node != GONE}
    group.do(1, lambda at: at.requests.change_members(rest, present.index, "remove"))
    group.settle(without=[GONE])
    group.tick(1, 2, times=4, without=[GONE])
    return group


def test_a_removed_replica_that_was_away_learns_of_it_when_it_asks_for_votes() -> None:
    """A pre-vote: no member changes its term, and it stands no more. It knows so after a restart."""
    group = removed_while_away()
    group.do(GONE, lambda at: at.replica.stand())
    group.settle()

    assert [group[node].state.term for node in (1, 2, GONE)] == [1, 1, 1]
    assert (group.leads(1), group[GONE].role) == (True, RaftRole.NON_PARTICIPANT)
    group.crash(GONE)
    assert group[GONE].state.is_removed


def test_a_removed_replica_that_comes_back_while_no_member_leads_learns_of_it() -> None:
    """All begin anew at once. It is elected by none of them, and told once they know again what is committed."""
    group = removed_while_away()
    for node in (1, 2, GONE):
        group.crash(node)
    group.tick(times=80)

    assert (group[GONE].state.is_removed, group[GONE].role) == (True, RaftRole.NON_PARTICIPANT)
    assert group.leads(1) or group.leads(2)


def test_a_candidate_with_later_members_than_a_voter_is_not_retired() -> None:
    """The voter lacks the records by which the candidate became a voter, and says so; the candidate has them."""
    group = Group.of_voters(3)
    group.elect(1)
    for node, without in ((5, []), (4, [3])):
        group.add(NodeId(node), ReplicaState.begin(Configuration.unknown()))
        present = group[1].state.log.configuration
        members = {**present.members, NodeId(node): RaftMember(MemberKind.PRE_VOTER, "")}
        group.do(1, lambda at, of=members, seen=present.index: at.requests.change_members(of, seen, "add"))  # type: ignore[misc]
        group.tick(1, times=8, without=without)
    assert group[4].state.log.configuration.is_voter(NodeId(4))
    assert NodeId(4) not in group[3].state.log.configuration.members
    question = RequestVote(segment=SEGMENT, term=2, candidate=NodeId(4), last_index=9, last_term=1, pre=True)
    answer = group.ask(3, question)
    assert 0 < answer.retired < group[4].state.log.configuration.index
    group.hear(4, 3, answer)

    assert (group[4].state.is_removed, group[4].role) == (False, RaftRole.FOLLOWER)


def test_a_member_is_not_retired_by_a_change_that_is_older_than_what_it_knows() -> None:
    """A message that was late: the replica is a member by a later record."""
    group = Group.of_voters(3)
    group.elect(1)
    group.do(2, lambda at: at.replica.retire(0, "retire"))

    assert isinstance(group.outcome(2, "retire"), InvalidSettingError)
    assert not group[2].state.is_removed


def test_a_replica_with_flags_of_a_later_version_is_refused() -> None:
    """A program that does not know them might vote where it must not."""
    saved = StateSaved(1, NodeId(1), False, b"", True)
    record = wal_records.encode(SEGMENT, saved)
    assert wal_records.decode_untrusted(record) == (SEGMENT, saved)
    payload = bytearray(record.payload)
    payload[32] |= 4

    with pytest.raises(MalformedError, match="does not know"):
        wal_records.decode_untrusted(WalRecord(record.kind, bytes(payload)))
