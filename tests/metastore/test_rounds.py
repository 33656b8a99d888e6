"""Proposer, survey and dissemination, each on its own: answers in, exact effects out."""

from __future__ import annotations

from tests.metastore.messages import ballot, decision, proposal, vote
from tests.metastore.world import THREE, A, B, C, D, E, ids
from virtuallog_metastore.core.dissemination import Dissemination
from virtuallog_metastore.core.proposer import Proposer
from virtuallog_metastore.core.rounds import (
    Chosen,
    Finish,
    Found,
    HalfAccepted,
    Known,
    Preempted,
    Send,
    Unreachable,
    Vacant,
)
from virtuallog_metastore.core.survey import Survey
from virtuallog_metastore.messages import (
    BALLOT_ZERO,
    EARLIER_MAX,
    Accept,
    Ask,
    Ballot,
    Decision,
    Learn,
    Learned,
    Prepare,
    Proposal,
    Receipt,
    Standing,
    Vote,
    genesis,
)

BASIS = decision(6)
SLOT = 7
OWN = proposal(b"own", attempt=77)
AFTER = BASIS.proposal.attempt
ASK = Ask(slot=SLOT, after=AFTER)
PREPARE = Prepare(slot=SLOT, after=AFTER, ballot=ballot(5))


def proposer(own: Proposal | None = OWN) -> Proposer:
    return Proposer(BASIS, ballot(5), own)


def standing(accepted: Vote | None = None, promised: Ballot | None = None, known: int = 6) -> Standing:
    return Standing(known=known, decision=None, promised=ballot(5) if promised is None else promised, accepted=accepted)


def receipt(promised: Ballot | None = None, known: int = 6) -> Receipt:
    return Receipt(known=known, decision=None, promised=ballot(5) if promised is None else promised)


def accept(what: Proposal) -> Accept:
    return Accept(slot=SLOT, after=AFTER, ballot=ballot(5), proposal=what)


def test_free_slot_takes_the_proposers_own_value() -> None:
    """Paxos Made Simple 2.2: with no accepted proposal in a majority of promises, any value may be proposed."""
    machine = proposer()

    assert machine.start() == [Send(THREE, PREPARE)]
    assert machine.step(A, standing()) == []
    assert machine.step(C, standing()) == [Send(THREE, accept(OWN))]
    assert machine.step(B, standing()) == []
    assert machine.step(B, receipt()) == []
    assert machine.step(A, receipt()) == [Finish(Chosen(Decision(version=SLOT, proposal=OWN)))]


def test_accepted_value_with_the_highest_ballot_is_proposed() -> None:
    """2.2, P2c: among the promises of a majority the highest-numbered accepted proposal decides the value."""
    machine = proposer()
    machine.step(A, standing(vote(3, b"newer")))

    assert machine.step(B, standing(vote(2, b"older"))) == [Send(THREE, accept(proposal(b"newer")))]


def test_reader_without_a_value_finishes_what_was_accepted() -> None:
    """A read completes a vote of a proposer that died between its phases."""
    machine = proposer(own=None)
    machine.step(A, standing())

    assert machine.step(B, standing(vote(1, b"half"))) == [Send(THREE, accept(proposal(b"half")))]


def test_reader_without_a_value_leaves_a_free_slot_alone() -> None:
    """A reader without a value leaves a free slot alone: nothing was chosen before the promises of
    this majority."""
    machine = proposer(own=None)
    machine.step(A, standing())

    assert machine.step(B, standing()) == [Finish(Vacant())]


def test_one_answer_repeated_is_one_voice() -> None:
    """Duplicates of one member's answers make no majority, in neither phase."""
    machine = proposer()
    assert machine.step(A, standing()) == machine.step(A, standing()) == []
    machine.step(B, standing())

    assert machine.step(A, receipt()) == machine.step(A, receipt()) == []


def test_strangers_do_not_vote() -> None:
    """An answer from outside of the slot's members counts for nothing."""
    machine = proposer()
    machine.step(A, standing())

    assert machine.step(D, standing()) == []


def test_refusal_ends_the_attempt() -> None:
    """2.4: a higher promise, in either phase, ends the attempt; the next one has a higher ballot,
    after a pause."""
    assert proposer().step(A, standing(promised=ballot(9, 2))) == [Finish(Preempted(ballot(9, 2)))]
    second = proposer()
    second.step(A, standing())
    second.step(B, standing())
    assert second.step(A, receipt(promised=ballot(9, 2))) == [Finish(Preempted(ballot(9, 2)))]


def test_decision_met_on_the_way_ends_the_attempt() -> None:
    """A decision met on the way ends the attempt: the slot is closed and needs no vote."""
    answer = Standing(known=9, decision=decision(9), promised=BALLOT_ZERO, accepted=None)

    assert proposer().step(A, answer) == [Finish(Found(decision(9)))]
    assert proposer(None).step(A, answer) == [Finish(Found(decision(9)))]


def test_decision_from_before_is_no_news() -> None:
    """A decision from before does not end the attempt, and does not send the client round in circles."""
    answer = Standing(known=3, decision=decision(3), promised=BALLOT_ZERO, accepted=None)

    assert proposer().step(A, answer) == []
    assert Survey(BASIS, THREE).step(A, answer) == []


def test_member_that_is_behind_is_taught_once_and_asked_again() -> None:
    """A new member does not know that it is one until it learns the decision that names it."""
    machine = proposer()

    assert machine.step(C, standing(known=-1, promised=BALLOT_ZERO)) == [Send((C,), Learn(BASIS))]
    assert machine.step(C, Learned(known=6)) == [Send((C,), PREPARE)]
    assert machine.step(C, standing(known=-1, promised=BALLOT_ZERO)) == []


def test_member_taught_in_phase_1_is_asked_for_its_vote_in_phase_2() -> None:
    """A member taught in phase 1 is asked for its vote in phase 2, as the lesson took longer than
    phase 1."""
    machine = proposer()
    machine.step(C, standing(known=2, promised=BALLOT_ZERO))
    machine.step(A, standing())
    machine.step(B, standing())

    assert machine.step(C, Learned(known=6)) == [Send((C,), accept(OWN))]


def test_silence_is_no_answer() -> None:
    """A round with failed requests only concludes nothing."""
    assert proposer().exhausted() == Survey(BASIS, THREE).exhausted() == Unreachable()


def test_survey_of_a_free_slot() -> None:
    """A slot is free if a majority accepted nothing: no put for this slot has returned."""
    machine = Survey(BASIS, THREE)

    assert machine.start() == [Send(THREE, ASK)]
    assert machine.step(A, standing(promised=BALLOT_ZERO)) == []
    assert machine.step(B, standing(promised=ballot(3))) == [Finish(Vacant())]


def test_survey_counts_votes() -> None:
    """A value that a majority accepted at one ballot is chosen; seeing that takes no ballot."""
    machine = Survey(BASIS, THREE)
    machine.step(A, standing(vote(3, b"v")))

    assert machine.step(C, standing(vote(3, b"v"))) == [Finish(Chosen(Decision(version=SLOT, proposal=proposal(b"v"))))]


def test_survey_meets_a_half_accepted_slot() -> None:
    """One vote, or votes at different ballots, decide nothing: a client must run Paxos."""
    one = Survey(BASIS, THREE)
    one.step(A, standing(vote(3, b"v"), promised=ballot(4)))
    assert one.step(B, standing(promised=ballot(6, 2))) == [Finish(HalfAccepted(ballot(6, 2)))]

    split = Survey(BASIS, THREE)
    split.step(A, standing(vote(3, b"v")))
    assert split.step(B, standing(vote(2, b"w"))) == [Finish(HalfAccepted(ballot(5)))]


def test_survey_does_not_count_who_is_behind() -> None:
    """A survey does not count "nothing accepted" from a member that has not reached the slot."""
    machine = Survey(BASIS, THREE)
    machine.step(A, standing())

    assert machine.step(B, standing(known=5)) == [Send((B,), Learn(BASIS))]
    assert machine.step(B, Learned(known=6)) == [Send((B,), ASK)]
    assert machine.step(B, standing()) == [Finish(Vacant())]


def test_first_survey_takes_any_decision() -> None:
    """A client without knowledge asks about slot 0; even version 0 is news to it."""
    machine = Survey(None, THREE)

    assert machine.start() == [Send(THREE, Ask(slot=0, after=0))]
    assert machine.step(A, standing(known=-1)) == []
    answer = Standing(known=0, decision=decision(0), promised=BALLOT_ZERO, accepted=None)
    assert machine.step(B, answer) == [Finish(Found(decision(0)))]


def test_spread_waits_for_old_and_new_members() -> None:
    """Dissemination waits for the new members, which decide next, and for the old ones, which point
    forward."""
    machine = Dissemination(decision(7, members=ids(3, 4, 5)), former=THREE)

    assert machine.start() == [Send((A, B, C, D, E), Learn(decision(7, members=ids(3, 4, 5))))]
    assert machine.step(D, Learned(known=7)) == []
    assert machine.step(E, Learned(known=8)) == []
    assert machine.step(A, Learned(known=6)) == []
    assert machine.step(A, Learned(known=7)) == []
    assert machine.step(C, Learned(known=7)) == [Finish(Known())]


def test_spread_does_without_the_old_members_if_they_are_gone() -> None:
    """Dissemination ends without the old members if they are gone; it does not end without the new
    ones."""
    machine = Dissemination(decision(7, members=ids(4, 5)), former=THREE)
    machine.step(A, Learned(known=7))
    machine.step(B, Learned(known=7))
    machine.step(D, Learned(known=7))
    assert machine.exhausted() == Unreachable()

    machine.step(E, Learned(known=7))
    assert Dissemination(decision(7), former=()).step(A, Learned(known=7)) == []
    assert machine.exhausted() == Known()


def test_decision_remembers_who_won_before() -> None:
    """The attempts of the last versions travel with each decision, newest last, in bounded number."""
    known = genesis(THREE)
    for version in range(1, EARLIER_MAX + 10):
        known = Decision(version=version, proposal=known.next(b"", None, attempt=1000 + version))

    newest = EARLIER_MAX + 9
    assert known.winner(newest) == 1000 + newest
    assert known.winner(newest - EARLIER_MAX) == 1000 + newest - EARLIER_MAX
    assert known.winner(newest - EARLIER_MAX - 1) is None
    assert known.winner(newest + 1) is None
    assert genesis(THREE).winner(0) is None
