"""The coordinator core: election, writes, the end of a term, waiting and refused requests."""

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
    promised,
    standing,
    written,
)
from virtuallog.contract.errors import (
    OutOfOrderError,
    OverloadedError,
    ReconfigurationNeededError,
    UnavailableError,
)
from virtuallog.exactly_once import bundle
from virtuallog.exactly_once.slot_offsets import SLOT
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.core import proposal_queue, values
from virtuallog_loglets.paxos.core.coordinator import Coordinator, CoordinatorState
from virtuallog_loglets.paxos.core.effects import (
    Announce,
    CatchUp,
    PaxosSend,
)
from virtuallog_loglets.paxos.core.leader_term import TICKETS_MAX
from virtuallog_loglets.paxos.core.position_digest import PositionDigest
from virtuallog_loglets.paxos.core.replication import PATIENCE_MS
from virtuallog_loglets.paxos.messages import (
    NOWHERE,
    Decided,
    Learn,
    PaxosRecord,
    Promise,
    Verdict,
)

# -- election -----------------------------------------------------------------------------------------------------


def test_an_election_catches_up_with_all_that_a_quorum_knows() -> None:
    """The number is above every one that is known here; what is missing is filled with the one above it."""
    core = Coordinator(SEGMENT, A, Ensemble(members=ALL, quorum=2))

    (send,) = core.elect(promised=4)
    assert isinstance(send, PaxosSend)
    assert send.request == Promise(segment=SEGMENT, proposal=5, coordinator=A)
    assert core.promised(A, send.round, promised(end=2)) == []
    assert core.promised(C, send.round, promised(end=7)) == [CatchUp(stop=8, proposal=6)]
    assert core.promised(B, send.round, promised(end=9)) == []
    (announce,) = core.caught_up(PositionDigest(8), 0)
    assert core.state is CoordinatorState.LEADING
    assert announce == Announce(
        ALL, Learn(segment=SEGMENT, decided=Decided(proposal=5, first=8, stop=8), coordinator=A)
    )


def test_a_refused_election_tells_who_was_in_the_way_and_the_next_one_goes_higher() -> None:
    """A coordinator that lost an election does not retry by itself."""
    bench = Bench()
    bench.run(bench.core.elect(0))

    bench.run(bench.core.promised(B, bench.round, promised(verdict=Verdict.REJECT, proposal=8, known_leader=C)))

    assert (bench.core.state, bench.core.known_leader) == (CoordinatorState.INITIAL, C)
    assert bench.core.promised(A, bench.round, promised()) == [], "it is over"
    (send,) = bench.run(bench.core.elect(0))
    assert isinstance(send, PaxosSend)
    assert send.request == Promise(segment=SEGMENT, proposal=9, coordinator=A)


def test_an_election_that_cannot_be_won_is_given_up() -> None:
    """A quorum that does not vote; or does not answer."""
    ignored, silent = Bench(), Bench()
    for bench in (ignored, silent):
        bench.run(bench.core.elect(0))
    for node in (B, C):
        ignored.run(ignored.core.promised(node, ignored.round, promised(verdict=Verdict.IGNORED)))
        silent.run(silent.core.unanswered(node, silent.round))

    assert ignored.core.state is silent.core.state is CoordinatorState.INITIAL


# -- writing ------------------------------------------------------------------------------------------------------


# -- the end of a term ----------------------------------------------------------------------------------------------


def test_any_refusal_ends_the_reign_and_all_that_is_pending_is_a_maybe() -> None:
    """All requests in flight, waiting or held become maybe, in their order; none continues with
    another's number (3)."""
    bench = Bench.leading()
    bench.offer("flight", batch_of(0))
    bench.offer("queue", batch_of(1))
    number = bench.round
    bench.run(bench.core.settle(NOWHERE, "tail"))

    bench.run(bench.core.written(B, number, written(Verdict.REJECT, proposal=6)))

    assert (bench.core.state, bench.core.known_leader, bench.core.proposal) == (CoordinatorState.INITIAL, B, 6)
    assert list(bench.outcomes) == ["flight", "queue", "tail"]
    assert all(isinstance(outcome, UnavailableError) for outcome in bench.outcomes.values())
    assert bench.core.written(A, number, written()) == [], "late"
    assert bench.core.turn(9, 9) == []


def test_a_refusal_of_what_is_decided_ends_it_as_well() -> None:
    """The third replica reports that another node was elected since: the next write would fail."""
    bench = Bench.leading()
    bench.offer("x", batch_of())
    number = bench.round
    bench.accept()

    bench.run(bench.core.written(B, number, written(Verdict.REJECT, proposal=6)))

    assert bench.core.state is CoordinatorState.INITIAL
    assert bench.outcomes == {"x": 0}


def test_a_refusal_from_an_earlier_reign_concerns_nobody() -> None:
    """An answer to a write of an earlier term may arrive long after the next election."""
    bench = Bench.leading()
    bench.offer("x", batch_of())
    number = bench.round
    bench.run(bench.core.resign("a test"))
    bench.run(bench.core.elect(9))
    for node in (A, B):
        bench.run(bench.core.promised(node, bench.round, promised()))
    bench.run(bench.core.caught_up(PositionDigest(1), 0))

    bench.run(bench.core.written(C, number, written(Verdict.REJECT, proposal=7)))

    assert bench.core.state is CoordinatorState.LEADING


def test_another_decision_ends_the_reign() -> None:
    """A replica accepts and reports another decision of the position, made by a fill."""
    bench = Bench.leading()
    bench.offer("x", batch_of())
    other = PaxosRecord(position=1, promised=5, performed=5, value=values.nop(), learned=True)

    bench.run(bench.core.written(B, bench.round, written(records=(other,))))

    assert bench.core.state is CoordinatorState.INITIAL
    assert isinstance(bench.outcomes["x"], UnavailableError)


def test_what_no_quorum_accepts_is_given_up() -> None:
    """After some seconds: its clients have to look elsewhere."""
    bench = Bench.leading()
    bench.offer("x", batch_of())

    bench.run(bench.core.tick(PATIENCE_MS))

    assert bench.core.state is CoordinatorState.INITIAL
    assert isinstance(bench.outcomes["x"], UnavailableError)


def test_a_broken_order_of_positions_is_a_broken_invariant() -> None:
    """A write at any position but the next one fails an assertion."""
    bench = Bench.leading()
    assert bench.core.term is not None
    bench.core.term.replicator.committed += 1

    with pytest.raises(AssertionError, match="consecutive"):
        bench.offer("x", batch_of())


# -- batches that were offered before -------------------------------------------------------------------------------


def test_a_batch_that_is_offered_again_has_its_place() -> None:
    """In flight, the caller waits with the others and the earliest give up; decided, the caller is
    answered at once."""
    bench = Bench.leading()
    batch = batch_of()
    for ticket in range(TICKETS_MAX + 1):
        bench.offer(ticket, batch)
    assert isinstance(bench.outcomes.pop(0), UnavailableError)
    assert len(bench.writes) == 1
    bench.accept()
    bench.offer("late", batch)
    assert bench.outcomes == {1: 0, 2: 0, 3: 0, 4: 0, "late": 0}


def test_after_a_failover_a_batch_has_the_place_it_had() -> None:
    """Found in the digest of what the log holds; what is not there is placed once; what may be forgotten is refused."""
    digest = PositionDigest()
    digest.take(0, values.nop())
    digest.take(1, values.append(bundle.join([batch_of(0), batch_of(1)]), 0))
    bench = Bench.leading(end=1, digest=digest)

    bench.offer("first", batch_of(0))
    bench.offer("second", batch_of(1), opens=False)
    bench.offer("gap", batch_of(3), opens=False)
    bench.confirm()
    bench.offer("third", batch_of(2), opens=False)
    bench.accept()

    assert bench.outcomes["first"] == 0
    assert bench.outcomes["second"] == 1
    assert bench.outcomes["third"] == SLOT
    assert isinstance(bench.outcomes["gap"], OutOfOrderError)


def test_what_is_forgotten_is_said_not_guessed() -> None:
    """A session that has been idle is known by where it goes on; another one may be among those that were forgotten."""
    digest = PositionDigest(stop=2, has_forgotten=True)
    bench = Bench.leading(end=1, digest=digest)

    bench.offer("old", batch_of(4), opens=False)
    bench.confirm()

    assert isinstance(bench.outcomes["old"], ReconfigurationNeededError)


@pytest.mark.parametrize("has_forgotten", [False, True])
def test_a_batch_is_missing_or_forgotten_only_if_this_one_surely_leads(has_forgotten: bool) -> None:
    """A coordinator elected since may have decided the batch: then this one resigns and the client
    asks elsewhere. The cause of a refusal is decided before the refusal is sent."""
    told, outbid = (Bench.leading(digest=PositionDigest(stop=1, has_forgotten=has_forgotten)) for _ in range(2))
    for bench in (told, outbid):
        bench.offer("flight", batch_of(0, session=OTHER))
        write = bench.round
        bench.offer("gap", batch_of(1), opens=False)
        assert "gap" not in bench.outcomes
        if bench is told:
            bench.confirm()
            assert "gap" not in bench.outcomes
            bench.round = write
            bench.accept()
    outbid.run(outbid.core.confirmed(B, outbid.round, standing(promise=4)))

    assert isinstance(told.outcomes["gap"], ReconfigurationNeededError if has_forgotten else OutOfOrderError)
    assert isinstance(outbid.outcomes["gap"], UnavailableError)
    assert outbid.core.state is CoordinatorState.INITIAL


def test_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was done, so the same batch may be offered later."""
    monkeypatch.setattr(proposal_queue, "QUEUE_BYTES_MAX", 1000)
    bench = Bench.leading()
    bench.offer(0, batch_of(0, text=bytes(900)), turns=False)
    bench.offer(1, batch_of(1, text=bytes(900)))
    assert isinstance(bench.outcomes.pop(1), OverloadedError)
    bench.accept()

    bench.offer("again", batch_of(1, text=bytes(900)))
    bench.accept()

    assert bench.outcomes == {0: 0, "again": SLOT}


# -- conditional appends and tails ----------------------------------------------------------------------------------


# -- seal and truncate ----------------------------------------------------------------------------------------------
