"""One attempt to have a range of positions decided: answers in, exact effects out."""

from __future__ import annotations

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.fill_attempt import (
    PIECE_BYTES,
    FillAttempt,
    FillEffect,
    FillFinish,
    FillSend,
    FillTeach,
)
from virtuallog_loglets.paxos.core.rounds import Ignored, Rejected
from virtuallog_loglets.paxos.messages import Learn, PaxosRecord, PaxosWrite, PaxosWritten, Promise, Promised, Verdict

SEGMENT = SegmentId(1, 7)
A, B, C = NodeId(1), NodeId(2), NodeId(3)
X, Y, NOP = values.append(b"x", 1), values.append(b"y", 2), values.nop()


def attempt(first: int = 4, stop: int = 5) -> FillAttempt:
    started = FillAttempt(SEGMENT, A, Ensemble(members=(A, B, C), quorum=2), 7, first, stop)
    promise = Promise(segment=SEGMENT, proposal=7, coordinator=A, first=first, stop=stop)
    assert started.begin() == [FillSend(promise, 0)]
    return started


def promised(*records: PaxosRecord, verdict: Verdict = Verdict.ACCEPT, proposal: int = 7) -> Promised:
    return Promised(verdict=verdict, proposal=proposal, end=9, records=records, incarnation=1, incarnations=())


def written(*records: PaxosRecord, verdict: Verdict = Verdict.ACCEPT, proposal: int = 7) -> PaxosWritten:
    return PaxosWritten(verdict=verdict, proposal=proposal, end=9, records=records, incarnation=1, incarnations=())


def accepted(position: int, performed: int, value: bytes, *, learned: bool = False) -> PaxosRecord:
    return PaxosRecord(position=position, promised=performed, performed=performed, value=value, learned=learned)


def write(first: int, *blobs: bytes) -> PaxosWrite:
    return PaxosWrite(segment=SEGMENT, proposal=7, coordinator=A, first=first, values=blobs)


def teach(*records: PaxosRecord) -> list[FillEffect]:
    return [FillTeach(Learn(segment=SEGMENT, records=records)), FillFinish(None)]


def test_a_position_that_nobody_has_becomes_a_nop() -> None:
    """The fill asks for promises, writes NOP and has all replicas learn it."""
    fill = attempt()

    assert fill.answered(0, A, promised()) == []
    assert fill.answered(0, B, promised()) == [FillSend(write(4, NOP), 1)]
    assert fill.answered(1, B, written()) == []
    assert fill.answered(1, C, written()) == teach(accepted(4, 7, NOP, learned=True))


def test_the_value_with_the_highest_number_is_written_again() -> None:
    """The value with the highest number may be decided; one with a lower number cannot be."""
    fill = attempt()

    fill.answered(0, A, promised(accepted(4, 2, X)))
    assert fill.answered(0, C, promised(accepted(4, 5, Y))) == [FillSend(write(4, Y), 1)]


def test_a_promise_without_a_value_is_no_value() -> None:
    """A record may say that a position is promised, and nothing more."""
    fill = attempt()

    fill.answered(0, A, promised(PaxosRecord(position=4, promised=6)))
    assert fill.answered(0, C, promised(accepted(4, 1, X))) == [FillSend(write(4, X), 1)]


def test_what_is_decided_is_passed_on_as_it_is() -> None:
    """No write; and a tombstone is never written as a value (7)."""
    tombstone = accepted(4, 3, values.TOMBSTONE, learned=True)
    fill = attempt()

    fill.answered(0, A, promised(accepted(4, 6, X)))
    assert fill.answered(0, B, promised(tombstone)) == teach(tombstone)


def test_a_range_writes_only_what_is_open() -> None:
    """The open positions form two runs around a decided one; all replicas learn the whole range."""
    fill = attempt(4, 8)

    fill.answered(0, A, promised(accepted(5, 3, Y, learned=True)))
    effects = fill.answered(0, B, promised(accepted(6, 2, X)))

    assert effects == [FillSend(write(4, NOP), 1), FillSend(write(6, X, NOP), 2)]
    fill.answered(1, A, written())
    fill.answered(2, A, written())
    assert fill.answered(2, C, written()) == []
    assert fill.answered(1, C, written()) == teach(
        accepted(4, 7, NOP, learned=True),
        accepted(5, 3, Y, learned=True),
        accepted(6, 7, X, learned=True),
        accepted(7, 7, NOP, learned=True),
    )


def test_an_answer_to_a_write_may_hold_the_decision() -> None:
    """Another proposer decided it with a higher number, or the position is truncated: that decision
    wins over our value (5)."""
    fill = attempt()
    fill.answered(0, A, promised())
    fill.answered(0, B, promised())

    fill.answered(1, A, written())
    assert fill.answered(1, C, written(accepted(4, 9, Y, learned=True))) == teach(accepted(4, 9, Y, learned=True))


def test_a_refusal_and_a_quorum_that_does_not_vote_are_different_ends() -> None:
    """The next attempt takes a higher number, or the same one (4)."""
    refused, ignored = attempt(), attempt()

    assert refused.answered(0, C, promised(verdict=Verdict.REJECT, proposal=11)) == [FillFinish(Rejected(11))]
    ignored.answered(0, A, promised(verdict=Verdict.IGNORED))
    assert ignored.answered(0, B, promised(verdict=Verdict.IGNORED)) == [FillFinish(Ignored())]


def test_late_and_repeated_answers_do_nothing() -> None:
    """A third promise changes no value that is being written; behind the end nothing is done."""
    fill = attempt()
    fill.answered(0, A, promised())
    fill.answered(0, B, promised())

    assert fill.answered(0, C, promised(accepted(4, 6, X))) == []
    assert fill.answered(1, A, written()) == []
    assert fill.answered(1, A, written()) == []
    assert fill.answered(1, B, written()) != []
    assert fill.answered(1, C, written(verdict=Verdict.REJECT, proposal=99)) == []


def test_what_was_not_asked_for_is_no_answer() -> None:
    """A replica that tells of other positions is not believed to have done more than it was asked to."""
    fill = attempt()

    fill.answered(0, A, promised(accepted(9, 3, X)))
    assert fill.answered(0, B, promised()) == [FillSend(write(4, NOP), 1)]


def test_large_values_travel_in_pieces() -> None:
    """Several writes, several lessons, each about as large as a piece."""
    large = values.append(bytes(PIECE_BYTES // 2), 1)
    fill = attempt(4, 7)
    fill.answered(0, A, promised(*(accepted(position, 2, large) for position in (4, 5, 6))))

    effects = fill.answered(0, B, promised())

    assert [(effect.request.first, len(effect.request.values)) for effect in effects if isinstance(effect, FillSend)
            and isinstance(effect.request, PaxosWrite)] == [(4, 1), (5, 1), (6, 1)]  # fmt: skip
