"""Counting the answers of one broadcast."""

from __future__ import annotations

import itertools

from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.core.rounds import Accepted, CrashVector, Ignored, Rejected, Round
from virtuallog_loglets.paxos.messages import Incarnation, Incarnations, PaxosWritten, Verdict

A, B, C = NodeId(1), NodeId(2), NodeId(3)


def answer(verdict: Verdict, proposal: int = 5, incarnation: int = 1, told: Incarnations = ()) -> PaxosWritten:
    return PaxosWritten(
        verdict=verdict, proposal=proposal, end=0, records=(), incarnation=incarnation, incarnations=told, coordinator=B
    )


ACCEPT, IGNORED = answer(Verdict.ACCEPT), answer(Verdict.IGNORED)


def test_a_quorum_accepts() -> None:
    """Not before; and the outcome has the answers of those who did."""
    votes = Round(2, CrashVector())

    assert votes.count(A, ACCEPT) is None
    assert votes.count(C, ACCEPT) == Accepted((ACCEPT, ACCEPT))


def test_an_answer_that_comes_twice_counts_once() -> None:
    """Two copies of one vote are no quorum."""
    votes = Round(2, CrashVector())

    assert votes.count(A, ACCEPT) is None
    assert votes.count(A, ACCEPT) is None
    assert votes.has_accepted(A)
    assert not votes.has_accepted(B)


def test_one_refusal_ends_it() -> None:
    """The rejection has the higher number and its owner."""
    votes = Round(2, CrashVector())
    votes.count(A, ACCEPT)

    assert votes.count(B, answer(Verdict.REJECT, 9)) == Rejected(9, B)


def test_ignored_is_neither() -> None:
    """A quorum that does not vote is an outcome of its own; a minority is nothing, and the others may still accept."""
    votes = Round(2, CrashVector())

    assert votes.count(A, IGNORED) is None
    assert votes.count(B, ACCEPT) is None
    assert votes.count(C, IGNORED) == Ignored()


def test_who_votes_after_all_counts() -> None:
    """A replica that recovers answers the same request again."""
    votes = Round(2, CrashVector())
    votes.count(A, IGNORED)
    votes.count(B, ACCEPT)

    assert votes.count(A, ACCEPT) == Accepted((ACCEPT, ACCEPT))


def test_the_vote_of_a_lost_store_is_dropped() -> None:
    """A's store was lost after it had accepted, and C reports it. The votes of A and C are no
    quorum, in any order of arrival."""
    told = (Incarnation(node=A, incarnation=2),)
    for answers in itertools.permutations(((A, ACCEPT), (C, answer(Verdict.ACCEPT, told=told)))):
        votes = Round(2, CrashVector())
        assert [votes.count(node, each) for node, each in answers] == [None, None]
        assert not votes.has_accepted(A)


def test_the_new_store_may_vote() -> None:
    """Its own answer makes good for the one that was dropped, and an old one that arrives later changes nothing."""
    votes = Round(2, CrashVector())
    votes.count(A, ACCEPT)
    votes.count(C, answer(Verdict.ACCEPT, told=(Incarnation(node=A, incarnation=2),)))

    assert isinstance(votes.count(A, answer(Verdict.ACCEPT, incarnation=2)), Accepted)
    assert isinstance(votes.count(A, ACCEPT), Accepted)
    assert votes.has_accepted(A)


def test_a_refusal_of_a_lost_store_says_nothing() -> None:
    """Its promise is forgotten; other replicas know it if it matters."""
    crash_vector = CrashVector()
    crash_vector.hear(A, 2, ())

    assert Round(2, crash_vector).count(A, answer(Verdict.REJECT, 9)) is None


def test_what_is_told_in_one_round_counts_in_all() -> None:
    """A proposer's rounds share what it has heard: a vote that was counted elsewhere goes, too."""
    crash_vector = CrashVector()
    first, second = Round(2, crash_vector), Round(2, crash_vector)
    first.count(A, ACCEPT)

    second.count(B, answer(Verdict.ACCEPT, told=(Incarnation(node=A, incarnation=2),)))

    assert first.count(B, ACCEPT) is None


def test_against_a_slow_obvious_version() -> None:
    """All orders of all answers of three replicas: an outcome comes with the first set of answers that allows one."""
    for verdicts in itertools.product((Verdict.ACCEPT, Verdict.IGNORED), repeat=3):
        for order in itertools.permutations(range(3)):
            votes, heard = Round(2, CrashVector()), list[Verdict]()
            for index in order:
                heard.append(verdicts[index])
                outcome = votes.count(NodeId(index), answer(verdicts[index]))
                accepted, ignored = heard.count(Verdict.ACCEPT) >= 2, heard.count(Verdict.IGNORED) >= 2
                assert isinstance(outcome, Accepted) == accepted
                assert (outcome == Ignored()) == ignored
