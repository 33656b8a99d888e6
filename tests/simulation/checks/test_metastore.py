"""Disks of acceptors: violations that the check must find, and states that it must accept."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.checks.told_history import Story
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.actions import RegisterPut
from virtuallog_metastore.core.acceptor import Acceptor
from virtuallog_metastore.messages import BALLOT_ZERO, Ballot, Decision, Proposal, Vote, genesis
from virtuallog_simulation.checks.state.acceptors import CHOSEN, DECIDED, UNDECIDED, Seen, acceptors_agree

NODES = ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def proposal(attempt: int) -> Proposal:
    return Proposal(value=b"%d" % attempt, members=NODES, attempt=attempt, earlier=())


def ballot(number: int) -> Ballot:
    return Ballot(round=number, node=1, boot=1, nonce=number)


def founded(accepted: int | None = None, round_number: int = 1) -> Acceptor:
    """Knows version 0, and may have accepted something for version 1."""
    acceptor = Acceptor(genesis(NODES))
    if accepted is not None:
        acceptor.promised = ballot(round_number)
        acceptor.accepted = Vote(ballot=ballot(round_number), proposal=proposal(accepted))
    return acceptor


def knows(attempt: int, version: int = 1) -> Acceptor:
    return Acceptor(Decision(version=version, proposal=proposal(attempt)), BALLOT_ZERO)


def broken(story: Story, *acceptors: Acceptor | None) -> set[str]:
    found = acceptors_agree(dict(zip(NODES, acceptors, strict=True)), story.history)
    return {violation.check for violation in found}


def test_acceptors_without_fault(story: Story) -> None:
    """One has learned the decision, one has accepted it, one lies behind and has accepted what lost in a lower ballot."""
    story.happened(RegisterPut(1, b"7", 7), 1)

    assert broken(story, knows(7), founded(7, 2), founded(8, 1)) == set()


def test_two_decisions_of_one_version(story: Story) -> None:
    """The register is split in two."""
    assert "acceptors agree" in broken(story, knows(7), knows(8), founded())


def test_a_decision_that_is_not_what_a_client_knows(story: Story) -> None:
    """A reader now sees another value than the one that was acknowledged."""
    story.happened(RegisterPut(1, b"7", 7), 1)

    assert "acceptors agree" in broken(story, knows(8), knows(8), knows(8))


def test_two_proposals_of_one_ballot(story: Story) -> None:
    """A ballot was used twice: a majority of votes for it does not identify a value."""
    assert broken(story, founded(7, 1), founded(8, 1), founded()) == {"acceptors agree"}


def test_another_decision_than_the_one_chosen(story: Story) -> None:
    """Two of three accepted 7 in one ballot: no other value can be decided, even if no proposer has noticed."""
    acceptors = {ONE: founded(7), TWO: founded(7), THREE: founded(), NodeId(4): knows(8)}
    found = {violation.check for violation in acceptors_agree(acceptors, story.history)}

    assert found == {"chosen is decided"}


def test_votes_of_different_ballots_choose_nothing(story: Story) -> None:
    """Each voted for 7, but never a majority at once; 8 may win in a later ballot."""
    acceptors = {ONE: founded(7, 1), TWO: founded(7, 2), THREE: founded(), NodeId(4): knows(8)}

    assert {violation.check for violation in acceptors_agree(acceptors, story.history)} == set()


def test_a_decision_that_a_majority_does_not_have(story: Story) -> None:
    """The client was answered before the votes were on disk: one more crash and the version may be decided anew."""
    story.happened(RegisterPut(1, b"7", 7), 1)

    assert broken(story, knows(7), founded(), founded(8)) == {"decided is durable"}


@pytest.mark.parametrize("third", [None, founded(7), knows(9, version=2)])
def test_a_decision_that_a_majority_has_or_may_have(story: Story, third: Acceptor | None) -> None:
    """A disk that is lost may have had it; a vote will do; and so does a later decision."""
    story.happened(RegisterPut(1, b"7", 7), 1)

    assert broken(story, knows(7), founded(), third) == set()


# -- several looks ------------------------------------------------------------------------------------------------


def looks(story: Story, *acceptors: tuple[Acceptor | None, ...]) -> tuple[set[str], Counter[str]]:
    """Findings of one look after the other, and the number of comparisons."""
    seen = Seen(Counter())
    found = [
        violation.check
        for look in acceptors
        for violation in seen.look(dict(zip(NODES, look, strict=True)), story.history)
    ]
    return set(found), seen.looked


def test_what_was_chosen_is_remembered(story: Story) -> None:
    """A majority had accepted 7 in one ballot; later all have decided 8, and no disk says any more that this is wrong."""
    found, looked = looks(story, (founded(7), founded(7), founded()), (knows(8), knows(8), knows(8)))

    assert found == {"chosen is decided"}
    assert looked[UNDECIDED] == 2
    assert looked[CHOSEN] == 1


def test_what_was_chosen_and_then_decided(story: Story) -> None:
    """As it should be, and two looks have seen it."""
    found, looked = looks(story, (founded(7), founded(7), founded()), (knows(7), knows(7), knows(7)))

    assert found == set()
    assert looked[CHOSEN] == 1
    assert looked[DECIDED] == 4  # of version 0, which the first has stored: the two others; of version 1 as many


def test_two_choices_for_one_version(story: Story) -> None:
    """A majority voted for 7, later one for 8, in a higher ballot: a client may know the first one."""
    found, _ = looks(story, (founded(7), founded(7), founded()), (founded(), founded(8, 2), founded(8, 2)))

    assert found == {"chosen is decided"}


def test_a_decision_that_has_changed_meanwhile(story: Story) -> None:
    """All disks agree at each moment, but not with themselves."""
    found, _ = looks(story, (knows(7), knows(7), knows(7)), (knows(8), knows(8), knows(8)))

    assert found == {"acceptors agree"}


def test_an_empty_look_compares_nothing(story: Story) -> None:
    """And says so: what a set of seeds must have compared is demanded of it."""
    found, looked = looks(story, (None, None, None))

    assert not found
    assert not any(looked.values())
