"""Durable state of paxos replicas: violations that the ledger must find, and states that it must
accept."""

from __future__ import annotations

import pytest

from tests.simulation.checks.told_history import LOGLET, A, B, Story, batch
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.actions import LogletAppend
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.messages import NOWHERE, PaxosRecord, Status
from virtuallog_simulation.checks.state.paxos_ledger import ACKNOWLEDGED, LOOKED, RECOVERED, Ledger

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
X, Y = values.append(batch(A, 0).blob, 1), values.append(batch(B, 0).blob, 2)
NOW = 0


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(members={LOGLET: (ONE, TWO, THREE)}, quorums={LOGLET: 2})


def accept(ledger: Ledger, node: NodeId, proposal: int, value: bytes, *, position: int = 1, now: int = NOW) -> None:
    record = PaxosRecord(position=position, promised=proposal, performed=proposal, value=value)
    ledger.wrote(LOGLET, node, record, now)


def learn(ledger: Ledger, node: NodeId, proposal: int, value: bytes, *, position: int = 1) -> None:
    record = PaxosRecord(position=position, promised=proposal, performed=proposal, value=value, learned=True)
    ledger.wrote(LOGLET, node, record, NOW)


def vote(ledger: Ledger, node: NodeId, promised: int, begin: int = 0) -> None:
    ledger.kept(LOGLET, node, Status.VOTING, promised, begin)


def broken(ledger: Ledger) -> set[str]:
    return {violation.check for violation in ledger.found}


def test_replicas_without_fault(ledger: Ledger) -> None:
    """One accepts late, one learns what two have accepted, one is behind with another value that was never decided."""
    accept(ledger, THREE, 1, Y)
    accept(ledger, ONE, 2, X)
    accept(ledger, TWO, 2, X)
    learn(ledger, ONE, 2, X)
    accept(ledger, THREE, 3, X)
    ledger.learned(LOGLET, THREE, 0, 5, NOW)

    assert broken(ledger) == set()


def test_two_values_are_decided(ledger: Ledger) -> None:
    """Schedule 1 of our notes on Mesos: what two have accepted is overwritten, and learned otherwise."""
    accept(ledger, ONE, 2, X)
    accept(ledger, TWO, 2, X)
    learn(ledger, THREE, 4, Y)

    assert "one decision per position" in broken(ledger)


def test_a_learned_value_is_contradicted(ledger: Ledger) -> None:
    """The first who learns it is enough."""
    learn(ledger, ONE, 2, X)
    learn(ledger, TWO, 2, Y)

    assert broken(ledger) == {"one decision per position"}


def test_a_mark_makes_another_value_a_learned_one(ledger: Ledger) -> None:
    """Everything below a watermark counts as learned, as it was accepted here."""
    accept(ledger, ONE, 2, X)
    accept(ledger, TWO, 2, X)
    accept(ledger, THREE, 1, Y)
    ledger.learned(LOGLET, THREE, 0, 2, NOW)

    assert broken(ledger) == {"one decision per position"}


def test_two_proposers_own_a_number(ledger: Ledger) -> None:
    """Schedule 2: nothing is decided yet, but it could be, twice."""
    accept(ledger, ONE, 1, X)
    accept(ledger, TWO, 1, Y)

    assert broken(ledger) == {"one value per number"}


def test_a_decided_value_is_contradicted_with_a_higher_number(ledger: Ledger) -> None:
    """With a lower one it is an old message, which changes nothing."""
    accept(ledger, ONE, 2, X)
    accept(ledger, TWO, 2, X)
    accept(ledger, THREE, 1, Y)
    assert broken(ledger) == set()

    accept(ledger, THREE, 3, Y)
    assert broken(ledger) == {"decided is kept"}


def test_what_a_lost_store_had_accepted_does_not_count(ledger: Ledger) -> None:
    """One vote before the loss and one after it are no quorum."""
    accept(ledger, ONE, 2, X)
    ledger.lost(ONE)
    accept(ledger, TWO, 2, X)
    accept(ledger, THREE, 3, Y)

    assert broken(ledger) == set()


@pytest.mark.parametrize(("promised", "begin"), [(4, 3), (5, 2)])
def test_a_store_that_was_not_lost_goes_back(ledger: Ledger, promised: int, begin: int) -> None:
    """With its promise, or with what it has truncated."""
    vote(ledger, ONE, 5, 3)
    vote(ledger, ONE, promised, begin)

    assert broken(ledger) == {"replicas forget nothing"}


def test_a_voter_votes_no_more(ledger: Ledger) -> None:
    """Only who has lost something recovers."""
    vote(ledger, ONE, 5)
    ledger.kept(LOGLET, ONE, Status.RECOVERING, 5, 0)

    assert broken(ledger) == {"replicas forget nothing"}


def test_a_lost_store_begins_anew(ledger: Ledger) -> None:
    """It may have promised less; that it votes again is counted."""
    vote(ledger, ONE, 5, 3)
    accept(ledger, ONE, 5, X)
    ledger.lost(ONE)
    ledger.kept(LOGLET, ONE, Status.EMPTY, 0, 0)
    accept(ledger, ONE, 3, Y)
    vote(ledger, ONE, 4)

    assert broken(ledger) == set()
    assert ledger.looked[RECOVERED] == 1


@pytest.mark.parametrize(
    "after",
    [
        PaxosRecord(position=1, promised=1, performed=1, value=X),
        PaxosRecord(position=1, promised=2, performed=NOWHERE),
    ],
)
def test_a_position_goes_back(ledger: Ledger, after: PaxosRecord) -> None:
    """With its promise, or with what was accepted."""
    accept(ledger, ONE, 2, X)
    ledger.wrote(LOGLET, ONE, after, NOW)

    assert broken(ledger) == {"replicas forget nothing"}


def test_what_was_learned_is_open_again(ledger: Ledger) -> None:
    """Even with the same value: a proposer may overwrite it next."""
    learn(ledger, ONE, 2, X)
    accept(ledger, ONE, 3, X)

    assert broken(ledger) == {"replicas forget nothing"}


def test_a_tombstone_is_no_other_value(ledger: Ledger) -> None:
    """A replica that has truncated a position answers so; one that has it answers the value."""
    learn(ledger, ONE, 2, X)
    learn(ledger, TWO, 2, values.TOMBSTONE)
    ledger.dropped(LOGLET, ONE, 1)
    learn(ledger, ONE, 2, values.TOMBSTONE)

    assert broken(ledger) == set()


# -- what clients have heard ------------------------------------------------------------------------------------------


def judged(ledger: Ledger, story: Story) -> set[str]:
    return {violation.check for violation in ledger.judge(story.history)}


def acknowledged(story: Story, position: int = 1) -> None:
    first = (position - 1) << 16
    story.happened(LogletAppend(LOGLET, batch(A, 0)), range(first, first + 1))


def test_an_acknowledged_batch_is_on_a_quorum(ledger: Ledger, story: Story) -> None:
    """It was on a quorum, even if one replica of that quorum has lost its store since."""
    accept(ledger, ONE, 1, X)
    accept(ledger, TWO, 1, X)
    acknowledged(story)
    ledger.lost(ONE)

    assert judged(ledger, story) == set()
    assert ledger.looked[ACKNOWLEDGED] == 1


def test_one_had_it_too_late(ledger: Ledger, story: Story) -> None:
    """The coordinator that acknowledged it relied on a promise that had not been kept."""
    accept(ledger, ONE, 1, X)
    acknowledged(story)
    accept(ledger, TWO, 1, X, now=len(story.history.events) + 1)

    assert judged(ledger, story) == {"acknowledged is on a quorum"}


def test_another_value_is_where_it_was_acknowledged(ledger: Ledger, story: Story) -> None:
    """The other value may be a NOP or another client's batch."""
    accept(ledger, ONE, 1, Y)
    accept(ledger, TWO, 1, Y)
    acknowledged(story)

    assert judged(ledger, story) == {"acknowledged is on a quorum"}


def test_nothing_follows_a_seal(ledger: Ledger, story: Story) -> None:
    """Decided it may be, behind the SEAL, as a leftover of a former coordinator; acknowledged it is not."""
    for node in (ONE, TWO):
        accept(ledger, node, 1, values.seal(1), position=1)
        accept(ledger, node, 1, X, position=2)
    assert judged(ledger, story) == set()

    acknowledged(story, position=2)
    assert judged(ledger, story) == {"nothing is acknowledged behind a SEAL"}


def test_what_was_compared_is_counted(ledger: Ledger, story: Story) -> None:
    """A run in which none of this came about has shown nothing."""
    accept(ledger, ONE, 1, X)
    accept(ledger, TWO, 1, X)
    learn(ledger, THREE, 1, X)
    acknowledged(story)
    accept(ledger, ONE, 1, values.seal(1), position=2)
    accept(ledger, TWO, 1, values.seal(1), position=2)

    assert judged(ledger, story) == set()
    assert all(ledger.looked[name] for name in LOOKED)
