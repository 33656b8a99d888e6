"""The core of the coordinator: conditional appends."""

from __future__ import annotations

import pytest

from tests.loglets.paxos.core.coordinator_bench import (
    ALL,
    OTHER,
    SEGMENT,
    A,
    B,
    Bench,
    C,
    batch_of,
    standing,
    written,
)
from virtuallog.contract.errors import OutOfOrderError, OverloadedError, TailMismatchError, UnavailableError, encode
from virtuallog.exactly_once.slot_offsets import SLOT
from virtuallog_loglets.paxos.core import read_index, values
from virtuallog_loglets.paxos.core.coordinator import CoordinatorState
from virtuallog_loglets.paxos.core.effects import Announce, LearnLocally, PaxosResolve, PaxosSend
from virtuallog_loglets.paxos.core.leader_term import AHEAD_MAX
from virtuallog_loglets.paxos.core.replication import RETRY_MS
from virtuallog_loglets.paxos.core.values import ValueKind
from virtuallog_loglets.paxos.messages import NOWHERE, GetStanding, Status, Verdict
from virtuallog_loglets.paxos.offsets import offset_of


def test_a_conditional_append_heads_its_position() -> None:
    """It does so although other batches wait in a position with room. A second append with the same
    expected tail comes too late."""
    bench = Bench.leading()
    bench.offer("first", batch_of(0), expected=0)
    write = bench.round
    bench.offer("second", batch_of(0, session=OTHER), expected=SLOT, turns=False)
    bench.offer("third", batch_of(0, session=b"c" * 16), expected=SLOT)
    bench.confirm()
    bench.round = write
    bench.commit()
    assert "third" not in bench.outcomes, "what it lost to is not decided yet"
    bench.commit()

    assert bench.told == {"first": 0, "second": SLOT, "third": encode(TailMismatchError(SLOT, 2 * SLOT))}


def test_who_expects_a_later_tail_is_refused_by_who_surely_leads() -> None:
    """One that was outbid knows an old tail. A quorum is asked; another question is asked for who comes meanwhile."""
    bench = Bench.leading()
    bench.offer("ahead", batch_of(), expected=SLOT)
    question = bench.round
    assert bench.log == [PaxosSend(ALL, GetStanding(segment=SEGMENT), question)]

    bench.run(bench.core.confirmed(A, question, standing()))
    bench.offer("meanwhile", batch_of(0, session=OTHER), expected=5 * SLOT)
    assert bench.outcomes == {}
    bench.run(bench.core.confirmed(C, question, standing()))

    assert bench.told == {"ahead": encode(TailMismatchError(SLOT, 0))}
    assert bench.round > question
    for node in (B, C):
        bench.run(bench.core.confirmed(node, bench.round, standing()))
    assert bench.told["meanwhile"] == encode(TailMismatchError(5 * SLOT, 0))


def test_an_offer_that_looks_wrong_is_judged_when_the_lead_is_confirmed() -> None:
    """The expected tail, or the predecessor of the batch, may arrive meanwhile. Then the offer is
    placed, and so is its copy."""
    bench = Bench.leading()
    bench.offer("ahead", batch_of(session=OTHER), expected=SLOT)
    question = bench.round
    bench.offer("copy", batch_of(session=OTHER), expected=SLOT)
    bench.offer("gap", batch_of(1), opens=False)
    bench.offer("predecessor", batch_of(0))
    write, bench.round = bench.round, question
    bench.confirm()
    second, bench.round = bench.round, write
    bench.commit()
    bench.accept()
    bench.round = second
    bench.confirm()
    bench.turn()
    bench.accept()

    assert bench.told == {"predecessor": 0, "ahead": SLOT, "copy": SLOT, "gap": 2 * SLOT}


@pytest.mark.parametrize("asks", ["a later tail", "a successor"])
def test_what_a_replica_has_behind_the_end_is_settled_before_a_refusal(asks: str) -> None:
    """A quorum confirms the lead, and one of them has a position that this coordinator does not know: a promise for it alone, as who fills
    it makes, is no higher promise. Others may have decided it, and then nothing is refused; if not it becomes a NOP, and the tail is
    behind it."""
    filled, empty = Bench.leading(), Bench.leading()
    for bench in (filled, empty):
        if asks == "a later tail":
            bench.offer("x", batch_of(), expected=2 * SLOT)
        else:
            bench.offer("x", batch_of(1), opens=False)
        number = bench.round
        bench.run(bench.core.confirmed(A, number, standing(end=1)))
        bench.run(bench.core.confirmed(C, number, standing()))
        assert bench.outcomes == {}
        bench.turn()
    filled.run(filled.core.written(B, filled.round, written(Verdict.REJECT, proposal=2)))
    empty.accept()

    refusal = TailMismatchError(2 * SLOT, SLOT) if asks == "a later tail" else OutOfOrderError(0)
    assert isinstance(filled.outcomes["x"], UnavailableError)
    assert empty.told == {"x": encode(refusal)}


def test_held_offers_are_bounded_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Held offers are bounded by their bytes, and have room again once they are judged."""
    monkeypatch.setattr(read_index, "HELD_BYTES_MAX", 1000)
    bench = Bench.leading()
    bench.offer("held", batch_of(text=bytes(600)), expected=SLOT)
    question = bench.round
    bench.offer("too much", batch_of(session=OTHER, text=bytes(600)), expected=SLOT)
    bench.round = question
    bench.confirm()
    bench.offer("again", batch_of(session=OTHER, text=bytes(600)), expected=SLOT)
    bench.confirm()

    refused = encode(TailMismatchError(SLOT, 0))
    assert isinstance(bench.outcomes.pop("too much"), OverloadedError)
    assert bench.told == {"held": refused, "again": refused}


def test_who_was_outbid_learns_it_when_it_asks() -> None:
    """A replica reports a higher promise, so any answer of this coordinator may be outdated."""
    bench = Bench.leading()
    bench.run(bench.core.settle(NOWHERE, "tail"))

    bench.run(bench.core.confirmed(B, bench.round, standing(promise=4)))

    assert (bench.core.state, bench.core.known_leader) == (CoordinatorState.INITIAL, C)
    assert isinstance(bench.outcomes["tail"], UnavailableError)


def test_replicas_that_do_not_vote_confirm_nothing() -> None:
    """They have forgotten what they had promised."""
    bench = Bench.leading()
    bench.run(bench.core.settle(NOWHERE, "tail"))
    number = bench.round
    bench.run(bench.core.confirmed(A, number, standing()))
    bench.run(bench.core.confirmed(B, number, standing(status=Status.EMPTY)))
    assert bench.outcomes == {}

    assert bench.core.tick(5) == []
    (send,) = bench.core.tick(5 + RETRY_MS)
    assert isinstance(send, PaxosSend)
    assert send.nodes == (B, C)
    bench.run(bench.core.confirmed(C, number, standing()))
    assert bench.outcomes == {"tail": 0}


def test_to_settle_writes_over_what_earlier_coordinators_left() -> None:
    """A replica has something at position 2 that the electing quorum did not know. It is decided
    before the tail is answered, and all replicas learn it."""
    bench = Bench.leading(end=1)
    bench.run(bench.core.settle(NOWHERE, "tail"))
    bench.run(bench.core.confirmed(A, bench.round, standing(end=1)))
    bench.run(bench.core.confirmed(C, bench.round, standing(end=2)))
    bench.turn()
    assert values.kind_of(bench.writes[0].values[0]) is ValueKind.NOP
    bench.log.clear()

    bench.accept()

    assert bench.outcomes == {"tail": offset_of(3)}
    assert [type(effect) for effect in bench.log] == [LearnLocally, Announce, PaxosResolve]


def test_to_settle_goes_as_far_as_replicas_have_seen_within_reason() -> None:
    """No replica can have a position far behind the end: that is not believed."""
    bench = Bench.leading()
    bench.run(bench.core.settle(NOWHERE, "tail"))
    for node in (A, B):
        bench.run(bench.core.confirmed(node, bench.round, standing(end=1 << 40)))
    for _ in range(AHEAD_MAX + 1):
        bench.turn()
        bench.accept()

    assert bench.outcomes == {"tail": offset_of(AHEAD_MAX + 2)}
    assert not bench.core.has_work


def test_an_asker_is_believed_one_position() -> None:
    """A replica that was not asked may have the position behind the end, and no further one. So a client that claims more costs one
    NOP for a question, and none while that very position is being written."""
    bench = Bench.leading()
    bench.run(bench.core.settle(1 << 40, "idle"))
    for node in (A, B):
        bench.run(bench.core.confirmed(node, bench.round, standing()))
    bench.turn()
    in_flight = bench.round
    bench.run(bench.core.settle(1 << 40, "busy"))
    for node in (A, B):
        bench.run(bench.core.confirmed(node, bench.round, standing(end=1)))
    bench.round = in_flight
    bench.accept()

    assert bench.outcomes == {"idle": offset_of(2), "busy": offset_of(2)}
    assert not bench.core.has_work


def test_too_many_who_wait_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their number is bounded."""
    monkeypatch.setattr(read_index, "PENDING_MAX", 2)
    bench = Bench.leading()
    for n in range(4):
        bench.run(bench.core.settle(NOWHERE, n))

    assert set(bench.outcomes) == {3}, "one is asked for, two wait for the next question"
    assert isinstance(bench.outcomes[3], OverloadedError)
