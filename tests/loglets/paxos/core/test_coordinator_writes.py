"""The core of the coordinator: writes, and what is under way."""

from __future__ import annotations

import pytest

from tests.loglets.paxos.core.coordinator_bench import ALL, OTHER, SEGMENT, A, B, Bench, C, batch_of, written
from virtuallog.contract.types import NodeId
from virtuallog.exactly_once import bundle
from virtuallog.exactly_once.slot_offsets import SLOT
from virtuallog_loglets.paxos.core import proposal_queue, values
from virtuallog_loglets.paxos.core.effects import Announce, LearnLocally, PaxosResolve, PaxosSend
from virtuallog_loglets.paxos.core.replication import RESEND_MS, RETRY_MS
from virtuallog_loglets.paxos.messages import Decided, Incarnation, Learn, PaxosWrite, Verdict
from virtuallog_loglets.paxos.offsets import offset_of


def test_what_waits_shares_a_position() -> None:
    """One value, built once, to every replica; each batch has its place behind the one before."""
    bench = Bench.leading()
    one, two = batch_of(0, 2), batch_of(0, 1, OTHER)

    bench.offer("one", one, turns=False)
    bench.offer("two", two)

    value = values.append(bundle.join([one, two]), 1000)
    assert bench.writes == [
        PaxosWrite(
            segment=SEGMENT,
            proposal=1,
            coordinator=A,
            first=1,
            values=(value,),
            decided=Decided(proposal=1, first=1, stop=1),
        )
    ]
    bench.accept()
    assert bench.outcomes == {"one": 0, "two": 2}


def test_a_quorum_decides_and_the_local_replica_knows_first() -> None:
    """One replica is no quorum, nor is the same one twice. The local replica learns first, then the
    client is answered."""
    bench = Bench.leading(end=4)
    bench.offer("x", batch_of())

    bench.accept(B)
    bench.accept(B)
    assert bench.outcomes == {}
    bench.log.clear()
    bench.accept(C)
    size = len(bench.writes[0].values[0])
    assert bench.log == [LearnLocally(Decided(proposal=1, first=5, stop=6), size), PaxosResolve("x", offset_of(5))]


def test_one_position_is_in_flight() -> None:
    """Batches that arrive meanwhile wait and share the next write, which carries the decision.
    Times never go back."""
    bench = Bench.leading()
    bench.now = 5
    bench.offer(0, batch_of(0))
    for n in (1, 2, 3):
        bench.offer(n, batch_of(n))
    assert len(bench.writes) == 1

    bench.now = 0
    bench.commit()

    assert len(bench.writes) == 2
    assert bench.writes[1].first == 2
    assert bench.writes[1].decided == Decided(proposal=1, first=1, stop=2)
    assert [values.time_of(write.values[0]) for write in bench.writes] == [1005, 1005]
    assert len(bundle.split_untrusted(bench.writes[1].values[0], values.BODY)) == 3
    bench.commit()
    assert bench.outcomes == {0: 0, 1: SLOT, 2: SLOT + 1, 3: SLOT + 2}


def test_a_full_position_makes_room_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A position is full by entries, as an offset has 16 bits for them, or by bytes; a larger batch goes alone."""
    many = Bench.leading()
    many.offer("many", batch_of(0, 65536), turns=False)
    many.offer("one", batch_of(65536, 1), turns=False)
    monkeypatch.setattr(proposal_queue, "WAVE_BYTES", 300)
    large = Bench.leading()
    for n in range(3):
        large.offer(n, batch_of(n, text=bytes(200)), turns=False)
    for bench in (many, large):
        while bench.core.has_work or bench.core.has_write_in_flight:
            bench.turn()
            bench.accept()

    assert many.outcomes == {"many": 0, "one": SLOT}
    assert large.outcomes == {0: 0, 1: SLOT, 2: 2 * SLOT}


def test_a_lone_batch_need_not_wait_for_company() -> None:
    """While nothing is on its way, and the last one was alone, too."""
    bench = Bench.leading()
    bench.offer(0, batch_of(0), turns=False)
    assert not bench.may_hurry(), "nothing is known yet"
    bench.turn()
    bench.accept()

    bench.offer(1, batch_of(1), turns=False)
    assert bench.may_hurry()
    bench.turn()
    bench.offer(2, batch_of(2), turns=False)
    bench.offer(3, batch_of(3), turns=False)
    assert not bench.may_hurry()
    bench.commit()
    bench.accept()
    bench.offer(4, batch_of(4), turns=False)
    assert not bench.may_hurry(), "two shared the last position"


def test_who_failed_is_sent_the_same_again() -> None:
    """A replica that failed is asked again soon, a silent one after a while, one that accepted
    never. After some seconds the write is given up."""
    bench = Bench.leading()
    bench.offer("x", batch_of())
    number = bench.round
    bench.run(bench.core.unanswered(B, number))
    bench.run(bench.core.written(C, number, written(Verdict.IGNORED)))

    def sent(now: int) -> list[tuple[NodeId, ...]]:
        effects = bench.core.tick(now)
        assert all(isinstance(e, PaxosSend) and e.request is bench.writes[0] and e.round == number for e in effects)
        return [effect.nodes for effect in effects if isinstance(effect, PaxosSend)]

    assert sent(RETRY_MS - 5) == []
    assert sent(RETRY_MS) == [(B, C)]
    assert sent(2 * RETRY_MS) == []
    bench.run(bench.core.written(B, number, written()))
    assert sent(RESEND_MS) == [(A, C)]
    bench.accept(C)
    assert sent(RESEND_MS + 50) == []
    assert bench.outcomes == {"x": 0}


def test_a_vote_of_a_store_that_was_lost_is_dropped_and_asked_for_again() -> None:
    """A reports a newer store of C than the one that voted: then one vote is missing."""
    bench = Bench.leading()
    bench.offer("x", batch_of())
    number = bench.round

    bench.run(bench.core.written(C, number, written()))
    bench.run(bench.core.written(A, number, written(told=(Incarnation(node=C, incarnation=2),))))

    assert bench.outcomes == {}
    (send,) = bench.core.tick(RESEND_MS)
    assert isinstance(send, PaxosSend)
    assert send.nodes == (B, C)
    bench.accept(B)
    assert bench.outcomes == {"x": 0}


def test_what_is_decided_is_told_when_nothing_follows() -> None:
    """The announcement goes out once, after a quiet tick; a write that follows would carry it anyway."""
    bench = Bench.leading()
    assert not bench.needs_ticks()
    bench.offer("x", batch_of())
    bench.accept()

    assert bench.needs_ticks()
    assert bench.core.tick(5) == [], "something was decided since the last tick"
    decided = Decided(proposal=1, first=1, stop=2)
    assert bench.core.tick(10) == [Announce(ALL, Learn(segment=SEGMENT, decided=decided, coordinator=A))]
    assert not bench.needs_ticks()


@pytest.mark.parametrize("last", [B, C])
def test_what_a_client_waits_for_at_another_replica_is_told_at_once(last: NodeId) -> None:
    """Behind the answer to the client that has appended, and once. The replica that says so may be the last to accept."""
    bench = Bench.leading()
    bench.offer("x", batch_of())
    bench.accept(A, B if last == C else C)
    bench.log.clear()

    bench.run(bench.core.written(last, bench.round, written(has_waiters=True)))

    decided = Decided(proposal=1, first=1, stop=2)
    assert bench.log == [Announce(ALL, Learn(segment=SEGMENT, decided=decided, coordinator=A))]
    assert not bench.needs_ticks()
    bench.offer("y", batch_of(1))
    bench.accept()
    assert bench.needs_ticks(), "no client has said that it waits for this one"


def test_the_answer_leaves_before_the_announcement() -> None:
    """The client that has appended waits longest."""
    bench = Bench.leading()
    bench.offer("x", batch_of())
    bench.run(bench.core.written(B, bench.round, written(has_waiters=True)))
    bench.log.clear()

    bench.accept(C)

    assert [type(effect) for effect in bench.log] == [LearnLocally, PaxosResolve, Announce]


def test_what_a_client_waits_for_travels_with_the_next_write() -> None:
    """A crowd costs no announcements; nor does a client at the leader's own replica, which learns first."""
    crowd, alone = Bench.leading(), Bench.leading()
    for n in range(2):
        crowd.offer(n, batch_of(n))
    alone.offer("x", batch_of())
    for bench, waits_at in ((crowd, B), (alone, A)):
        bench.run(bench.core.written(waits_at, bench.round, written(has_waiters=True)))
        bench.accept(C)

    assert not any(isinstance(effect, Announce) for effect in crowd.log + alone.log)
    crowd.turn()
    assert crowd.writes[-1].decided == Decided(proposal=1, first=1, stop=2)
