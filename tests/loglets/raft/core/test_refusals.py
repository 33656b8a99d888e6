"""Refusals of a leader: true, and for good."""

from __future__ import annotations

import pytest

from tests.loglets.raft.core.group import Group
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import OverloadedError, SealedError, TailMismatchError
from virtuallog.exactly_once import rejected_conditions


def bid(group: Group, ticket: str, expected_tail: int) -> None:
    """Offer a batch of a new session to replica 1, for exactly this tail."""
    batch = Batch.build(SessionId(ticket.encode().ljust(16)), 0, [b"bid"])
    group.do(1, lambda at: at.requests.append(batch, ticket, 0, opens=True, expected_tail=expected_tail))


def test_a_refusal_waits_for_the_batches_that_it_counts() -> None:
    """They wait for a record while enough records are in flight. Were the leader gone before they are committed, the tail would fit."""
    group = Group.of_voters(3, first_leader=1)
    group.settle()
    for sequence in range(4):
        group.append(1, str(sequence))
    batch = Batch.build(SessionId(bytes(16)), 4, [b"4"])
    group.do(1, lambda at: at.requests.append(batch, "queued", 0, opens=False, expected_tail=-1))

    bid(group, "bid", expected_tail=3)
    group.settle()
    refused_early = group.outcome(1, "bid")
    group.do(1, lambda at: at.requests.turn(0))
    group.settle()

    assert refused_early is None
    refusal = group.outcome(1, "bid")
    assert isinstance(refusal, TailMismatchError) and refusal.found == 5


def test_a_refusal_that_counts_a_batch_which_is_sealed_out_is_none() -> None:
    """The batch gets no record any more. Both callers hear that the log is sealed, once that is committed, and not that nothing
    of theirs is in it."""
    group = Group.of_voters(3, first_leader=1)
    for sequence in range(5):
        group.append(1, str(sequence))
    batch = Batch.build(SessionId(bytes(16)), 5, [b"5"])
    group.do(1, lambda at: at.requests.append(batch, "queued", 0, opens=False, expected_tail=-1))
    bid(group, "bid", expected_tail=3)

    group.do(1, lambda at: at.requests.seal("seal", stand=False))
    group.settle()

    for ticket in ("queued", "bid"):
        answer = group.outcome(1, ticket)
        assert isinstance(answer, SealedError) and not answer.refused


def test_a_refusal_that_cannot_be_remembered_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the call might be taken later, so the leader says only that it has no room."""
    monkeypatch.setattr(rejected_conditions, "REJECTED_MAX", 1)
    group = Group.of_voters(1, first_leader=1)

    bid(group, "first", expected_tail=7)
    bid(group, "second", expected_tail=8)
    group.settle()

    assert isinstance(group.outcome(1, "first"), TailMismatchError)
    assert isinstance(group.outcome(1, "second"), OverloadedError)
