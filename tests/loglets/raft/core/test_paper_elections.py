"""Claims of the Raft paper on elections (sections 5.2 and 5.4.1): candidates, votes, timeouts, and logs that are up to date."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from tests.loglets.raft.core.group import SEGMENT, Group
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core.election import ELECTION_TICKS
from virtuallog_loglets.raft.core.transitions import RaftRole
from virtuallog_loglets.raft.messages import RequestVote, VoteAnswer


def candidate(voters: int, shape: str = "") -> Group:
    """Replicas of which the first is a candidate: it has been promised the votes, and has its own."""
    group = Group.of_voters(voters)
    group.begin_with(1, shape)
    group.do(1, lambda at: at.replica.stand())
    for peer in range(2, voters + 1):
        campaign = group[1].campaign
        if campaign is not None and campaign.pre:
            group.hear(1, peer, VoteAnswer(granted=True, term=campaign.term))
    return group


def requests(group: Group, *, pre: bool) -> list[RequestVote]:
    """Questions for votes on their way."""
    return [m.request for m in group.messages if isinstance(m.request, RequestVote) and m.request.pre is pre]


@pytest.mark.parametrize("start", ["follower", "candidate"])
def test_election_begins_when_no_leader_is_heard_for_a_timeout(start: str) -> None:
    """The replica asks all others in the next term. It stores that term and its vote once a majority would vote for it."""
    group = Group.of_voters(3)
    group.begin_with(1, "", term=1)
    if start == "candidate":  # of an election without an answer
        group.do(1, lambda at: at.replica.stand())
        group.messages.clear()
    ticks = 0
    while not group.messages:
        ticks += 1
        group.do(1, lambda at: at.replica.tick(0))

    assert ELECTION_TICKS <= ticks < 2 * ELECTION_TICKS
    assert [request.term for request in requests(group, pre=True)] == [2, 2]
    assert group[1].state.term == 1

    group.deliver(group.messages[0])
    group.deliver(group.messages[-1])

    assert [request.term for request in requests(group, pre=False)] == [2, 2]
    assert (group[1].role, group[1].state.term, group[1].state.vote) == (RaftRole.CANDIDATE, 2, 1)


@pytest.mark.parametrize("voters", [1, 2, 3, 5, 7])
def test_candidate_wins_with_a_majority_and_falls_back_once_it_cannot(voters: int) -> None:
    """For every pattern of votes: a majority makes a leader, a majority of refusals a follower, and anything else leaves a candidate
    that waits."""
    for pattern in product([True, False, None], repeat=voters - 1) if voters < 7 else product([True, False], repeat=6):
        group = candidate(voters)
        group.sync(1)
        for peer, granted in enumerate(pattern, 2):
            campaign = group[1].campaign
            if granted is not None and campaign is not None:
                group.hear(1, peer, VoteAnswer(granted=granted, term=1), number=campaign.number)
        majority = voters // 2 + 1
        if 1 + pattern.count(True) >= majority:
            expected = RaftRole.LEADER
        elif voters - pattern.count(False) < majority:
            expected = RaftRole.FOLLOWER
        else:
            expected = RaftRole.CANDIDATE
        assert group[1].role is expected, pattern


def test_candidate_counts_a_voter_once() -> None:
    """Two copies of one vote are one vote, and what a voter says later does not change it."""
    group = candidate(5)
    group.sync(1)
    campaign = group[1].campaign
    assert campaign is not None
    for granted in (True, True, False):
        group.hear(1, 2, VoteAnswer(granted=granted, term=1), number=campaign.number)

    assert not group.leads(1)
    assert (campaign.granted, campaign.refused) == ({1, 2}, set())


@pytest.mark.parametrize(
    ("vote", "asking", "granted"), [(0, 2, True), (0, 3, True), (2, 2, True), (2, 3, False), (3, 2, False)]
)
def test_server_votes_for_one_candidate_in_a_term(vote: int, asking: int, granted: bool) -> None:
    """First come, first served; the same candidate is answered the same again, also by a process that begun anew."""
    group = Group.of_voters(3)
    if vote:
        assert group.ask(1, question(vote, 1)) == VoteAnswer(granted=True, term=1)
    else:
        group.begin_with(1, "", term=1)

    assert group.ask(1, question(asking, 1)) == VoteAnswer(granted=granted, term=1)
    group.crash(1)
    assert group.ask(1, question(asking, 1)) == VoteAnswer(granted=granted, term=1)
    assert group[1].state.vote == (asking if granted else vote)


def question(node: int, term: int, last_index: int = 0, last_term: int = 0) -> RequestVote:
    """A candidate's question for a vote."""
    return RequestVote(segment=SEGMENT, term=term, candidate=NodeId(node), last_index=last_index, last_term=last_term)


def first_timeouts(voters: int, seed: int) -> list[int]:
    """Tick at which each replica of a group stands."""
    group = Group.of_voters(voters, seed=seed)
    return [group[node]._deadline for node in group.nodes]


def test_election_timeouts_cover_their_whole_range() -> None:
    """Each number of ticks from one election timeout to twice that is drawn, and no other."""
    drawn = Counter(timeout for seed in range(200) for timeout in first_timeouts(3, seed))

    assert set(drawn) == set(range(ELECTION_TICKS, 2 * ELECTION_TICKS))


@pytest.mark.parametrize("voters", [3, 5])
def test_election_timeouts_mostly_do_not_collide(voters: int) -> None:
    """In most elections one replica stands before all others, so that votes are seldom split."""
    collided = 0
    for seed in range(500):
        earliest, second, *_ = sorted(first_timeouts(voters, seed))
        collided += earliest == second

    assert collided < 500 * 0.3


def test_question_for_a_vote_names_the_end_of_the_candidates_log() -> None:
    """Each peer is asked in the candidate's term, with the last index and term of its log."""
    group = candidate(3, "1123")
    asked = [m for m in group.messages if isinstance(m.request, RequestVote) and not m.request.pre]

    assert sorted(message.receiver for message in asked) == [2, 3]
    for message in asked:
        assert message.request == question(1, 4, 4, 3)
        assert message.request.forced is False


@pytest.mark.parametrize(
    ("own", "last_term", "last_index", "granted"),
    [
        ("1", 1, 1, True), ("1", 1, 2, True), ("11", 1, 1, False),
        ("1", 2, 1, True), ("1", 2, 2, True), ("11", 2, 1, True),
        ("2", 1, 1, False), ("2", 1, 2, False), ("12", 1, 1, False), ("12", 1, 9, False),
        ("", 0, 0, True), ("1", 0, 0, False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("pre", [False, True])
def test_voter_refuses_a_candidate_whose_log_is_behind_its_own(
    own: str, last_term: int, last_index: int, granted: bool, pre: bool
) -> None:
    """The log with the later last term is more up to date; with equal ones the longer log is."""
    group = Group.of_voters(2)
    group.begin_with(1, own)
    request = RequestVote(
        segment=SEGMENT, term=5, candidate=NodeId(2), last_index=last_index, last_term=last_term, pre=pre
    )  # fmt: skip
    answer = group.ask(1, request)

    assert answer.granted is granted
    assert group[1].state.vote == (2 if granted and not pre else 0)
    assert group[1].state.term == (5 if not pre else max(map(int, own), default=0))
