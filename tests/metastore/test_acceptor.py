"""The acceptor, one test per claim: messages in, exact effects out. Sections are those of Paxos Made Simple."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import attrs
import pytest

from tests.metastore.messages import GENESIS, accept, ask, ballot, decision, prepare, proposal, vote
from tests.metastore.world import ids
from virtuallog.contract.errors import (
    CorruptionError,
    MalformedError,
    RetryableError,
    TooLargeError,
    WrongRecipientError,
)
from virtuallog.contract.types import POSITION_MAX, NodeId
from virtuallog_metastore.core.acceptor import LEAP_MAX, Acceptor, Message, PersistBallots, PersistDecision, Reply
from virtuallog_metastore.core.validation import check_untrusted
from virtuallog_metastore.messages import (
    BALLOT_ZERO,
    EARLIER_MAX,
    MEMBERS_MAX,
    VALUE_BYTES_MAX,
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
    genesis,
)


def at_genesis(*messages: Message) -> Acceptor:
    """Make a first member that has processed these messages."""
    acceptor = Acceptor(GENESIS)
    for message in messages:
        acceptor.step(message)
    return acceptor


def standing(known: int = 0, promised: Ballot = BALLOT_ZERO, accepted: object = None, **other: object) -> Reply:
    return Reply(Standing(known=known, promised=promised, accepted=accepted, **{"decision": None, **other}))  # type: ignore[arg-type]


def receipt(promised: Ballot = BALLOT_ZERO, known: int = 0) -> Reply:
    return Reply(Receipt(known=known, decision=None, promised=promised))


def test_promise_is_durable_before_it_is_sent() -> None:
    """2.5: an acceptor records its intended response in stable storage before sending it."""
    acceptor = at_genesis()

    effects = acceptor.step(prepare(1, 5))

    assert effects == [PersistBallots(slot=1, promised=ballot(5), accepted=None), standing(promised=ballot(5))]
    assert acceptor == Acceptor(GENESIS, promised=ballot(5))


def test_vote_is_durable_before_it_is_sent() -> None:
    """2.5: an acceptor records its vote in stable storage before sending it."""
    acceptor = at_genesis(prepare(1, 5))

    effects = acceptor.step(accept(1, 5, b"v"))

    assert effects == [PersistBallots(slot=1, promised=ballot(5), accepted=vote(5, b"v")), receipt(ballot(5))]
    assert acceptor == Acceptor(GENESIS, promised=ballot(5), accepted=vote(5, b"v"))


def test_first_proposal_is_accepted() -> None:
    """2.2, P1: an acceptor must accept the first proposal that it receives, also without a promise
    before."""
    assert at_genesis().step(accept(1, 1, b"v"))[-1] == receipt(ballot(1))


def test_promise_tells_the_highest_accepted_proposal() -> None:
    """2.2, phase 1 (b): the promise comes with the highest-numbered proposal that it has accepted."""
    acceptor = at_genesis(accept(1, 1, b"old"), accept(1, 2, b"new"))

    assert acceptor.step(prepare(1, 3))[-1] == standing(promised=ballot(3), accepted=vote(2, b"new"))


@pytest.mark.parametrize("late", [prepare(1, 4), prepare(1, 5, node=0)], ids=["lower round", "lower node"])
def test_lower_prepare_is_refused(late: Prepare) -> None:
    """2.2, phase 1 (b): nothing is promised below an earlier promise; the answer names that promise.

    2.3: a proposer should be informed so that it can abandon.
    """
    acceptor = at_genesis(prepare(1, 5))

    assert acceptor.step(late) == [standing(promised=ballot(5))]
    assert acceptor == Acceptor(GENESIS, promised=ballot(5))


def test_lower_accept_is_refused() -> None:
    """2.2, P1a: it can accept a proposal numbered n iff it has not responded to a prepare greater than n."""
    acceptor = at_genesis(prepare(1, 5))

    assert acceptor.step(accept(1, 4, b"v")) == [receipt(ballot(5))]
    assert acceptor.accepted is None


@pytest.mark.parametrize("leap", [prepare, partial(accept, value=b"v")], ids=["prepare", "accept"])
def test_a_ballot_that_nobody_could_outbid_is_refused(leap: Callable[[int, int], Message]) -> None:
    """A ballot of the last round is refused: after its promise the register would stand still for ever.

    Rounds grow by one whenever proposers meet.
    """
    acceptor = at_genesis(prepare(1, 5))

    for round_ in (POSITION_MAX, 5 + LEAP_MAX + 1):
        (reply,) = acceptor.step(leap(1, round_))
        assert isinstance(reply, Reply)
        assert isinstance(reply.outcome, MalformedError)
        assert not isinstance(reply.outcome, RetryableError)
    assert acceptor == Acceptor(GENESIS, promised=ballot(5))
    assert acceptor.step(leap(1, 5 + LEAP_MAX))[-1].outcome.promised == ballot(5 + LEAP_MAX)  # type: ignore[union-attr]


def test_a_ballot_for_a_closed_slot_is_shown_the_way_whatever_its_round() -> None:
    """A ballot of any round for a closed slot gets the decision; nothing is promised there any more."""
    assert at_genesis(Learn(decision(3))).step(prepare(1, POSITION_MAX)) == [standing(known=3, decision=decision(3))]


def test_accept_raises_the_promise() -> None:
    """An acceptor that has accepted n accepts nothing below n: the vote counted for n would be
    replaced by an older one."""
    acceptor = at_genesis(accept(1, 5, b"v"))

    assert acceptor.step(accept(1, 4, b"w")) == [receipt(ballot(5))]
    assert acceptor.accepted == vote(5, b"v")


@pytest.mark.parametrize("again", [prepare(1, 5), accept(1, 5, b"v")])
def test_duplicates_are_answered_without_a_write(again: Message) -> None:
    """A request that the network delivers twice gets the same answer; the disk is not touched."""
    acceptor = at_genesis(prepare(1, 5))
    first = acceptor.step(again)[-1]

    assert acceptor.step(again) == [first]


def test_prepare_that_comes_after_its_own_accept_changes_nothing() -> None:
    """A duplicate of phase 1 behind phase 2 of the same ballot leaves the vote as it is."""
    acceptor = at_genesis(prepare(1, 5), accept(1, 5, b"v"))

    assert acceptor.step(prepare(1, 5)) == [standing(promised=ballot(5), accepted=vote(5, b"v"))]
    assert acceptor.accepted == vote(5, b"v")


def test_ask_promises_nothing() -> None:
    """A survey sees everything and changes nothing, so that polling cannot preempt a writer."""
    acceptor = at_genesis(prepare(1, 5), accept(1, 5, b"v"))

    assert acceptor.step(ask(1)) == [standing(promised=ballot(5), accepted=vote(5, b"v"))]
    assert acceptor == at_genesis(prepare(1, 5), accept(1, 5, b"v"))


def test_decision_closes_its_slot_and_opens_the_next() -> None:
    """Slots are independent: promises and votes of the closed slot say nothing about the next one."""
    acceptor = at_genesis(prepare(1, 5), accept(1, 5, b"v"))

    assert acceptor.step(Learn(decision(1))) == [PersistDecision(decision(1)), Reply(Learned(known=1))]
    assert acceptor == Acceptor(decision(1))
    assert acceptor.step(prepare(2, 1))[-1] == standing(known=1, promised=ballot(1))


@pytest.mark.parametrize("late", [ask(1), ask(0), prepare(1, 9), ask(3)])
def test_closed_slot_points_forward(late: Message) -> None:
    """A client that is behind gets the newest decision, for any request about a closed slot."""
    acceptor = at_genesis(Learn(decision(3)))

    assert acceptor.step(late) == [standing(known=3, decision=decision(3))]


def test_accept_for_a_closed_slot_points_forward() -> None:
    """A proposal for a decided slot is not accepted, at any ballot."""
    acceptor = at_genesis(Learn(decision(3)))

    assert acceptor.step(accept(2, 99, b"v")) == [Reply(Receipt(known=3, decision=decision(3), promised=BALLOT_ZERO))]
    assert acceptor == Acceptor(decision(3))


@pytest.mark.parametrize("early", [ask(3), prepare(3, 1)])
def test_acceptor_says_nothing_about_a_slot_it_has_not_reached(early: Message) -> None:
    """An acceptor that does not know the decision of slot 2 may not be a member for slot 3: it
    reports how far it is."""
    acceptor = at_genesis(Learn(decision(1)), prepare(2, 7), accept(2, 7, b"v"))

    assert acceptor.step(early) == [standing(known=1)]


def test_accept_for_a_slot_it_has_not_reached_is_not_a_vote() -> None:
    """The receipt carries no promise, so no proposer can count it."""
    acceptor = at_genesis()

    assert acceptor.step(accept(2, 1, b"v")) == [receipt()]
    assert acceptor == Acceptor(GENESIS)


def test_node_that_was_told_nothing_votes_for_nothing() -> None:
    """A node outside of the first members does not even vote in slot 1."""
    stranger = Acceptor()

    assert stranger.step(prepare(1, 1)) == [standing(known=-1)]
    assert stranger.step(accept(1, 1, b"v")) == [receipt(known=-1)]
    assert stranger == Acceptor()


@pytest.mark.parametrize("foreign", [Ask(slot=2, after=99), attrs.evolve(prepare(2, 1), after=99)])
def test_client_with_another_history_is_refused(foreign: Message) -> None:
    """A client that builds slot 2 on another version 1 gets no vote: disks were lost, or
    configurations differ."""
    acceptor = at_genesis(Learn(decision(1)))

    (reply,) = acceptor.step(foreign)

    assert isinstance(reply, Reply)
    assert isinstance(reply.outcome, WrongRecipientError)
    assert acceptor == Acceptor(decision(1))


def test_first_members_that_were_configured_differently_do_not_vote_together() -> None:
    """Version 0 is known by its members: a client that got it from a node with another list is
    refused in slot 1."""
    other = genesis(ids(1, 2, 4))

    (reply,) = at_genesis().step(Prepare(slot=1, after=other.proposal.attempt, ballot=ballot(1)))

    assert isinstance(reply, Reply)
    assert isinstance(reply.outcome, WrongRecipientError)


@pytest.mark.parametrize("old", [decision(2), decision(1), GENESIS])
def test_old_lessons_change_nothing(old: Decision) -> None:
    """Decisions that arrive late and repeatedly change nothing."""
    acceptor = at_genesis(Learn(decision(2)), accept(3, 1, b"v"))

    assert acceptor.step(Learn(old)) == [Reply(Learned(known=2))]
    assert acceptor.accepted == vote(1, b"v")


def test_two_values_for_a_version_are_reported() -> None:
    """Two values for one version are reported, and the first one is kept: an acceptor has forgotten
    its vote."""
    acceptor = at_genesis(Learn(decision(1, b"one")))

    (reply,) = acceptor.step(Learn(decision(1, b"other")))

    assert isinstance(reply, Reply)
    assert isinstance(reply.outcome, CorruptionError)
    assert acceptor.decision == decision(1, b"one")


@pytest.mark.parametrize(
    "message",
    [
        Prepare(slot=0, after=1, ballot=ballot(1)),
        Prepare(slot=1, after=1, ballot=BALLOT_ZERO),
        Prepare(slot=1 << 63, after=1, ballot=ballot(1)),
        Prepare(slot=1, after=1, ballot=ballot(1 << 63)),
        Accept(slot=0, after=1, ballot=ballot(1), proposal=proposal(b"v")),
        Accept(slot=1, after=1, ballot=BALLOT_ZERO, proposal=proposal(b"v")),
        accept(1, 1, b"v" * (VALUE_BYTES_MAX + 1)),
        Learn(decision(1, b"v" * (VALUE_BYTES_MAX + 1))),
        Learn(decision(1, members=())),
        Learn(decision(1, members=ids(2, 1))),
        Learn(decision(1, members=ids(1, 1))),
        Learn(decision(1, members=tuple(NodeId(number) for number in range(MEMBERS_MAX + 1)))),
        Learn(decision(-1)),
        ask(-1),
        Accept(
            slot=1,
            after=1,
            ballot=ballot(1),
            proposal=Proposal(value=b"", members=ids(1), attempt=1, earlier=(1,) * (EARLIER_MAX + 1)),
        ),
        Accept(
            slot=1, after=1, ballot=ballot(1), proposal=Proposal(value=b"", members=ids(1), attempt=1 << 63, earlier=())
        ),
    ],
)
def test_nonsense_is_refused_before_it_reaches_the_acceptor(message: Message) -> None:
    """An oversize value, or one without members, is refused at once: once accepted it could never
    be repaired."""
    with pytest.raises((MalformedError, TooLargeError)):
        check_untrusted(message)


@pytest.mark.parametrize(
    "message", [ask(0), prepare(1, 1), accept(1, 1, b"v" * VALUE_BYTES_MAX), Learn(GENESIS), Learn(decision(1))]
)
def test_sense_is_let_through(message: Message) -> None:
    """Valid messages are let through, the largest value included."""
    check_untrusted(message)


NAMED = b"a register that names this store"


def seated() -> Acceptor:
    """Make an acceptor of a store that some values of the register name."""
    return Acceptor(GENESIS, seat=lambda version, value: value == NAMED)


@pytest.mark.parametrize(
    "message", [ask(2), prepare(2, 5), accept(2, 5, b"v")], ids=lambda message: type(message).__name__
)
def test_a_store_votes_only_where_the_register_names_it(message: Message) -> None:
    """A store does not vote in the slot after a version that names another store, and reports
    nothing about it."""
    acceptor = seated()
    acceptor.step(Learn(decision(1)))

    (refused,) = acceptor.step(message)
    assert isinstance(refused, Reply)
    assert isinstance(refused.outcome, WrongRecipientError)
    assert acceptor == Acceptor(decision(1))

    acceptor.step(Learn(decision(2, NAMED)))
    assert acceptor.step(prepare(3, 5))[-1] == standing(2, ballot(5))


def test_a_store_without_a_seat_still_shows_the_way() -> None:
    """A store without a seat still shows decisions: retired members and lost disks send clients on
    alike."""
    acceptor = seated()
    acceptor.step(Learn(decision(4)))

    assert acceptor.step(ask(3)) == [standing(4, decision=decision(4))]
    assert acceptor.step(ask(7)) == [standing(4)]


def test_a_store_that_knows_nothing_says_so() -> None:
    """A store without any decision reports that, so that clients go on to others."""
    stranger = Acceptor(seat=lambda version, value: False)

    assert stranger.step(Ask(slot=0, after=0)) == [standing(-1)]


def test_the_register_of_another_cluster_is_not_learned() -> None:
    """A register of another cluster is not learned, after an import or by a wrong address:
    histories never mix on one disk."""

    error = WrongRecipientError("cluster", "ours", "theirs")

    def refuse(version: int, value: bytes) -> bool:
        raise error

    acceptor = Acceptor(seat=refuse)

    assert acceptor.step(Learn(decision(1))) == [Reply(error)]
    assert acceptor == Acceptor()
