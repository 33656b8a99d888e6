"""The coordinator core: election, writing, the end of a reign; who waits, and who is turned away."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from virtuallog.batch import Batch, SessionId
from virtuallog.chain import SegmentId
from virtuallog.errors import (
    OutOfOrderError,
    OverloadedError,
    ReconfigurationNeededError,
    SealedError,
    TailMismatchError,
    UnavailableError,
    VirtualLogError,
    encode,
)
from virtuallog.ordering import bundle
from virtuallog.ordering.slots import SLOT
from virtuallog.types import NodeId
from virtuallog_loglets.paxos import agenda, audience, values
from virtuallog_loglets.paxos.coordinator import Coordinator, State
from virtuallog_loglets.paxos.coordinator_effects import Announce, CatchUp, Effect, LearnHere, Resolve, Send
from virtuallog_loglets.paxos.digest import Digest
from virtuallog_loglets.paxos.ensemble import Ensemble
from virtuallog_loglets.paxos.messages import (
    NOWHERE,
    Decided,
    GetStanding,
    Incarnation,
    Incarnations,
    Learn,
    Promise,
    Promised,
    Record,
    Standing,
    Status,
    Verdict,
    Write,
    Written,
)
from virtuallog_loglets.paxos.places import offset_of
from virtuallog_loglets.paxos.reign import AHEAD_MAX
from virtuallog_loglets.paxos.repeats import TICKETS_MAX
from virtuallog_loglets.paxos.values import Kind
from virtuallog_loglets.paxos.writing import PATIENCE_MS, RESEND_MS, RETRY_MS

SEGMENT = SegmentId(1, 7)
A, B, C = NodeId(1), NodeId(2), NodeId(3)
ALL = (A, B, C)
SESSION, OTHER = b"session.........", b"another.session."


def batch_of(first_sequence: int = 0, count: int = 1, session: bytes = SESSION, text: bytes = b"x") -> Batch:
    return Batch.build(SessionId(session), first_sequence, [text] * count)


def promised(end: int = 0, verdict: Verdict = Verdict.ACCEPT, proposal: int = 1, rival: NodeId = B) -> Promised:
    return Promised(
        verdict=verdict, proposal=proposal, end=end, records=(), incarnation=1, incarnations=(), coordinator=rival
    )


def written(
    verdict: Verdict = Verdict.ACCEPT, proposal: int = 1, records: tuple[Record, ...] = (), told: Incarnations = ()
) -> Written:
    return Written(
        verdict=verdict, proposal=proposal, end=0, records=records, incarnation=1, incarnations=told, coordinator=B
    )


def standing(promise: int = 1, end: int = 0, status: Status = Status.VOTING) -> Standing:
    return Standing(
        status=status, incarnation=1, promised=promise, begin=0, learned=0, end=end, uniform_from=0, uniform=0,
        coordinator=C,
    )  # fmt: skip


@attrs.define
class Bench:
    """A coordinator of three replicas, and what it has asked for so far."""

    core: Coordinator = attrs.field(
        factory=lambda: Coordinator(SEGMENT, A, Ensemble(members=ALL, quorum=2)),
    )
    writes: list[Write] = attrs.field(factory=list)
    round: int = 0
    """Of the last request that was sent."""
    outcomes: dict[object, Any] = attrs.field(factory=dict)
    log: list[Effect] = attrs.field(factory=list)
    """Everything, in order."""
    now: int = 0

    @classmethod
    def leading(cls, end: int = 0, digest: Digest | None = None) -> Bench:
        """Elected with number 1 by A and B; `end` is decided."""
        bench = cls()
        bench.run(bench.core.elect(0))
        bench.run(bench.core.promised(A, bench.round, promised(end)))
        bench.run(bench.core.promised(B, bench.round, promised(0)))
        bench.run(bench.core.caught_up(digest or Digest(end + 1), 0))
        bench.log.clear()
        return bench

    def run(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            match effect:
                case Send(nodes, Write() as write, number):
                    self.round = number
                    if nodes == ALL:
                        self.writes.append(write)
                case Send(_, _, number):
                    self.round = number
                case Resolve(ticket, outcome):
                    assert ticket not in self.outcomes
                    self.outcomes[ticket] = outcome
                case _:
                    pass
        self.log += effects
        return effects

    def offer(
        self, ticket: object, batch: Batch, *, opens: bool = True, expected: int = NOWHERE, turns: bool = True
    ) -> None:
        self.run(self.core.offer(batch, ticket, self.now, opens=opens, expected_tail=expected))
        if turns:
            self.turn()

    @property
    def told(self) -> dict[object, Any]:
        """The outcomes, with errors as they travel: two of the same class and fields are not equal as objects."""
        return {ticket: _plain(outcome) for ticket, outcome in self.outcomes.items()}

    def may_hurry(self) -> bool:
        return self.core.may_hurry

    def needs_ticks(self) -> bool:
        return self.core.needs_ticks

    def turn(self) -> None:
        self.run(self.core.turn(self.now, 1000 + self.now))

    def accept(self, *nodes: NodeId) -> None:
        """These accept what is in flight."""
        number = self.round
        for node in nodes or (A, C):
            self.run(self.core.written(node, number, written()))

    def confirm(self) -> None:
        """A quorum knows of nobody who leads instead. That is what was asked last."""
        number = self.round
        for node in (A, C):
            self.run(self.core.confirmed(node, number, standing()))

    def commit(self) -> None:
        """A quorum accepts, and whatever waits is written."""
        self.accept()
        self.turn()


def _plain(outcome: object) -> object:
    return encode(outcome) if isinstance(outcome, VirtualLogError) else outcome


# -- election -----------------------------------------------------------------------------------------------------


def test_an_election_catches_up_with_all_that_a_quorum_knows() -> None:
    """The number is above every one that is known here; what is missing is filled with the one above it."""
    core = Coordinator(SEGMENT, A, Ensemble(members=ALL, quorum=2))

    (send,) = core.elect(promised=4)
    assert isinstance(send, Send)
    assert send.request == Promise(segment=SEGMENT, proposal=5, coordinator=A)
    assert core.promised(A, send.round, promised(end=2)) == []
    assert core.promised(C, send.round, promised(end=7)) == [CatchUp(stop=8, proposal=6)]
    assert core.promised(B, send.round, promised(end=9)) == []
    (announce,) = core.caught_up(Digest(8), 0)
    assert core.state is State.LEADING
    assert announce == Announce(
        ALL, Learn(segment=SEGMENT, decided=Decided(proposal=5, first=8, stop=8), coordinator=A)
    )


def test_a_refused_election_tells_who_was_in_the_way_and_the_next_one_goes_higher() -> None:
    """It does not try again by itself."""
    bench = Bench()
    bench.run(bench.core.elect(0))

    bench.run(bench.core.promised(B, bench.round, promised(verdict=Verdict.REJECT, proposal=8, rival=C)))

    assert (bench.core.state, bench.core.rival) == (State.INITIAL, C)
    assert bench.core.promised(A, bench.round, promised()) == [], "it is over"
    (send,) = bench.run(bench.core.elect(0))
    assert isinstance(send, Send)
    assert send.request == Promise(segment=SEGMENT, proposal=9, coordinator=A)


def test_an_election_that_cannot_be_won_is_given_up() -> None:
    """A quorum that does not vote; or does not answer."""
    ignored, silent = Bench(), Bench()
    for bench in (ignored, silent):
        bench.run(bench.core.elect(0))
    for node in (B, C):
        ignored.run(ignored.core.promised(node, ignored.round, promised(verdict=Verdict.IGNORED)))
        silent.run(silent.core.unanswered(node, silent.round))

    assert ignored.core.state is silent.core.state is State.INITIAL


# -- writing ------------------------------------------------------------------------------------------------------


def test_what_waits_shares_a_position() -> None:
    """One value, built once, to every replica; each batch has its place behind the one before."""
    bench = Bench.leading()
    one, two = batch_of(0, 2), batch_of(0, 1, OTHER)

    bench.offer("one", one, turns=False)
    bench.offer("two", two)

    value = values.append(bundle.join([one, two]), 1000)
    assert bench.writes == [
        Write(
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
    """One replica is none, the same one twice neither. Then: the local replica, then the client."""
    bench = Bench.leading(end=4)
    bench.offer("x", batch_of())

    bench.accept(B)
    bench.accept(B)
    assert bench.outcomes == {}
    bench.log.clear()
    bench.accept(C)
    size = len(bench.writes[0].values[0])
    assert bench.log == [LearnHere(Decided(proposal=1, first=5, stop=6), size), Resolve("x", offset_of(5))]


def test_one_position_is_in_flight() -> None:
    """What comes meanwhile waits, and then goes as one, with the news of what is decided. Times never go back."""
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
    """By entries, whose number has 16 bits in an offset, and by bytes; a larger batch goes alone."""
    many = Bench.leading()
    many.offer("many", batch_of(0, 65536), turns=False)
    many.offer("one", batch_of(65536, 1), turns=False)
    monkeypatch.setattr(agenda, "WAVE_BYTES", 300)
    large = Bench.leading()
    for n in range(3):
        large.offer(n, batch_of(n, text=bytes(200)), turns=False)
    for bench in (many, large):
        while bench.core.has_work or bench.core.has_flight:
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
    """Soon; who has not answered at all only after a while. Nobody who has accepted, and not for ever."""
    bench = Bench.leading()
    bench.offer("x", batch_of())
    number = bench.round
    bench.run(bench.core.unanswered(B, number))
    bench.run(bench.core.written(C, number, written(Verdict.IGNORED)))

    def sent(now: int) -> list[tuple[NodeId, ...]]:
        effects = bench.core.tick(now)
        assert all(isinstance(e, Send) and e.request is bench.writes[0] and e.round == number for e in effects)
        return [effect.nodes for effect in effects if isinstance(effect, Send)]

    assert sent(RETRY_MS - 5) == []
    assert sent(RETRY_MS) == [(B, C)]
    assert sent(2 * RETRY_MS) == []
    bench.run(bench.core.written(B, number, written()))
    assert sent(RESEND_MS) == [(A, C)]
    bench.accept(C)
    assert sent(RESEND_MS + 50) == []
    assert bench.outcomes == {"x": 0}


def test_a_vote_of_a_store_that_was_lost_is_dropped_and_asked_for_again() -> None:
    """A says that C has a newer store than the one whose vote was counted: then one vote is missing."""
    bench = Bench.leading()
    bench.offer("x", batch_of())
    number = bench.round

    bench.run(bench.core.written(C, number, written()))
    bench.run(bench.core.written(A, number, written(told=(Incarnation(node=C, incarnation=2),))))

    assert bench.outcomes == {}
    (send,) = bench.core.tick(RESEND_MS)
    assert isinstance(send, Send)
    assert send.nodes == (B, C)
    bench.accept(B)
    assert bench.outcomes == {"x": 0}


def test_what_is_decided_is_told_when_nothing_follows() -> None:
    """By itself, once, after a quiet tick; a write that follows carries it anyway."""
    bench = Bench.leading()
    assert not bench.needs_ticks()
    bench.offer("x", batch_of())
    bench.accept()

    assert bench.needs_ticks()
    assert bench.core.tick(5) == [], "something was decided since the last tick"
    decided = Decided(proposal=1, first=1, stop=2)
    assert bench.core.tick(10) == [Announce(ALL, Learn(segment=SEGMENT, decided=decided, coordinator=A))]
    assert not bench.needs_ticks()


# -- the end of a reign ---------------------------------------------------------------------------------------------


def test_any_refusal_ends_the_reign_and_all_that_is_pending_is_a_maybe() -> None:
    """In flight, waiting, asked for: nothing goes on with another's number (3). Told in the order in which they came."""
    bench = Bench.leading()
    bench.offer("flight", batch_of(0))
    bench.offer("queue", batch_of(1))
    number = bench.round
    bench.run(bench.core.settle(NOWHERE, "tail"))

    bench.run(bench.core.written(B, number, written(Verdict.REJECT, proposal=6)))

    assert (bench.core.state, bench.core.rival, bench.core.proposal) == (State.INITIAL, B, 6)
    assert list(bench.outcomes) == ["flight", "queue", "tail"]
    assert all(isinstance(outcome, UnavailableError) for outcome in bench.outcomes.values())
    assert bench.core.written(A, number, written()) == [], "late"
    assert bench.core.turn(9, 9) == []


def test_a_refusal_of_what_is_decided_ends_it_as_well() -> None:
    """The third replica says that somebody else has been elected since: the next write would fail."""
    bench = Bench.leading()
    bench.offer("x", batch_of())
    number = bench.round
    bench.accept()

    bench.run(bench.core.written(B, number, written(Verdict.REJECT, proposal=6)))

    assert bench.core.state is State.INITIAL
    assert bench.outcomes == {"x": 0}


def test_a_refusal_from_an_earlier_reign_concerns_nobody() -> None:
    """It may come long after this coordinator was elected again."""
    bench = Bench.leading()
    bench.offer("x", batch_of())
    number = bench.round
    bench.run(bench.core.resign("a test"))
    bench.run(bench.core.elect(9))
    for node in (A, B):
        bench.run(bench.core.promised(node, bench.round, promised()))
    bench.run(bench.core.caught_up(Digest(1), 0))

    bench.run(bench.core.written(C, number, written(Verdict.REJECT, proposal=7)))

    assert bench.core.state is State.LEADING


def test_another_decision_ends_the_reign() -> None:
    """A replica accepts, and says that the position is decided otherwise: somebody has filled it."""
    bench = Bench.leading()
    bench.offer("x", batch_of())
    other = Record(position=1, promised=5, performed=5, value=values.nop(), learned=True)

    bench.run(bench.core.written(B, bench.round, written(records=(other,))))

    assert bench.core.state is State.INITIAL
    assert isinstance(bench.outcomes["x"], UnavailableError)


def test_what_no_quorum_accepts_is_given_up() -> None:
    """After some seconds: its clients have to look elsewhere."""
    bench = Bench.leading()
    bench.offer("x", batch_of())

    bench.run(bench.core.tick(PATIENCE_MS))

    assert bench.core.state is State.INITIAL
    assert isinstance(bench.outcomes["x"], UnavailableError)


def test_a_broken_order_of_positions_is_a_broken_invariant() -> None:
    """What would be written at another position than the next is not written at all."""
    bench = Bench.leading()
    assert bench.core.reign is not None
    bench.core.reign.writing.committed += 1

    with pytest.raises(AssertionError, match="consecutive"):
        bench.offer("x", batch_of())


# -- batches that were offered before -------------------------------------------------------------------------------


def test_a_batch_that_is_offered_again_has_its_place() -> None:
    """In flight, its caller waits with the others, of whom the earliest are let go; decided, it is told at once."""
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
    digest = Digest()
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
    digest = Digest(stop=2, has_forgotten=True)
    bench = Bench.leading(end=1, digest=digest)

    bench.offer("old", batch_of(4), opens=False)
    bench.confirm()

    assert isinstance(bench.outcomes["old"], ReconfigurationNeededError)


@pytest.mark.parametrize("has_forgotten", [False, True])
def test_a_batch_is_missing_or_forgotten_only_if_this_one_surely_leads(has_forgotten: bool) -> None:
    """Whoever was elected since may have decided it: then this one leads no longer, and the client asks elsewhere. What the
    refusal follows from is decided before it is told."""
    told, outbid = (Bench.leading(digest=Digest(stop=1, has_forgotten=has_forgotten)) for _ in range(2))
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
    assert outbid.core.state is State.INITIAL


def test_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was done, so the same batch may be offered later."""
    monkeypatch.setattr(agenda, "QUEUE_BYTES_MAX", 1000)
    bench = Bench.leading()
    bench.offer(0, batch_of(0, text=bytes(900)), turns=False)
    bench.offer(1, batch_of(1, text=bytes(900)))
    assert isinstance(bench.outcomes.pop(1), OverloadedError)
    bench.accept()

    bench.offer("again", batch_of(1, text=bytes(900)))
    bench.accept()

    assert bench.outcomes == {0: 0, "again": SLOT}


# -- conditional appends and tails ----------------------------------------------------------------------------------


def test_a_conditional_append_heads_its_position() -> None:
    """Even if others wait, whose position still has room; who expects the tail that all see, and is not the first, is too late."""
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
    assert bench.log == [Send(ALL, GetStanding(segment=SEGMENT), question)]

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
    """What it waits for may come meanwhile: the tail that it expects, or its predecessor. Then it is placed, and so is its copy."""
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
    """And have room again once they are judged."""
    monkeypatch.setattr(audience, "HELD_BYTES_MAX", 1000)
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
    """A higher promise: whatever this one would say may be old."""
    bench = Bench.leading()
    bench.run(bench.core.settle(NOWHERE, "tail"))

    bench.run(bench.core.confirmed(B, bench.round, standing(promise=4)))

    assert (bench.core.state, bench.core.rival) == (State.INITIAL, C)
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
    assert isinstance(send, Send)
    assert send.nodes == (B, C)
    bench.run(bench.core.confirmed(C, number, standing()))
    assert bench.outcomes == {"tail": 0}


def test_to_settle_writes_over_what_earlier_coordinators_left() -> None:
    """A replica has something at position 2, which this one's quorum did not know: it is decided before the tail is told, and all
    replicas are told as well."""
    bench = Bench.leading(end=1)
    bench.run(bench.core.settle(NOWHERE, "tail"))
    bench.run(bench.core.confirmed(A, bench.round, standing(end=1)))
    bench.run(bench.core.confirmed(C, bench.round, standing(end=2)))
    bench.turn()
    assert values.kind_of(bench.writes[0].values[0]) is Kind.NOP
    bench.log.clear()

    bench.accept()

    assert bench.outcomes == {"tail": offset_of(3)}
    assert [type(effect) for effect in bench.log] == [LearnHere, Announce, Resolve]


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
    monkeypatch.setattr(audience, "PENDING_MAX", 2)
    bench = Bench.leading()
    for n in range(4):
        bench.run(bench.core.settle(NOWHERE, n))

    assert set(bench.outcomes) == {3}, "one is asked for, two wait for the next question"
    assert isinstance(bench.outcomes[3], OverloadedError)


# -- seal and truncate ----------------------------------------------------------------------------------------------


def test_seal_is_the_last_position() -> None:
    """All that was offered before is decided below it; what comes later waits until it is decided, and is turned away. Then all
    replicas are told at once."""
    bench = Bench.leading()
    bench.offer("flight", batch_of(0))
    bench.offer("queue", batch_of(1))
    bench.run(bench.core.seal_log("seal"))
    bench.run(bench.core.seal_log("sealed twice"))
    bench.offer("late", batch_of(2))
    bench.offer("copy", batch_of(1))
    bench.commit()
    bench.commit()
    assert bench.outcomes == {"flight": 0, "queue": SLOT}
    assert values.kind_of(bench.writes[2].values[0]) is Kind.SEAL
    bench.log.clear()
    bench.accept()

    assert bench.outcomes["seal"] == bench.outcomes["sealed twice"] == 3
    assert bench.told["late"] == encode(SealedError(refused=True))
    assert bench.told["copy"] == encode(SealedError(refused=False)), "this one is in the log"
    assert (bench.core.state, bench.core.seal) == (State.CLOSED, 3)
    assert [type(effect) for effect in bench.log[:2]] == [LearnHere, Announce]
    assert len(bench.writes) == 3


def test_a_closed_log_answers_at_once() -> None:
    """Closed here, or by another coordinator: then nothing is known of the sessions."""
    own, other = Bench.leading(), Bench.leading()
    own.run(own.core.seal_log("seal"))
    own.turn()
    own.accept()
    other.run(other.core.resign("outbid"))
    other.run(other.core.close(1))

    for bench in (own, other):
        bench.run(bench.core.seal_log("again"))
        bench.run(bench.core.settle(NOWHERE, "tail"))
        bench.offer("x", batch_of())
        bench.run(bench.core.truncate(0, 0, b"", "trim"))
        assert bench.outcomes["again"] == 1
        assert bench.outcomes["tail"] == 0
        assert bench.told["trim"] == encode(SealedError())
    assert own.told["x"] == encode(SealedError(refused=True))
    assert other.told["x"] == encode(SealedError(refused=False))


def test_a_seal_that_fails_is_a_maybe_and_nobody_was_told_sealed() -> None:
    """What waited behind it may be offered to whoever leads next."""
    bench = Bench.leading()
    bench.run(bench.core.seal_log("seal"))
    bench.turn()
    bench.offer("late", batch_of())

    bench.run(bench.core.written(B, bench.round, written(Verdict.REJECT, proposal=6)))

    assert bench.core.state is State.INITIAL
    assert all(isinstance(bench.outcomes[ticket], UnavailableError) for ticket in ("seal", "late"))


def test_a_truncation_has_a_position_of_its_own() -> None:
    """With the trim point, and the sessions that it drops; batches before and after it do not share it."""
    bench = Bench.leading()
    bench.offer("before", batch_of(0))
    bench.commit()
    bench.run(bench.core.truncate(2, SLOT, b"digest", "trim"))
    bench.offer("after", batch_of(1))
    bench.commit()
    bench.commit()

    assert values.truncation_of(bench.writes[1].values[0]) == values.Truncation(2, SLOT, b"digest")
    assert bench.outcomes == {"before": 0, "trim": 2, "after": offset_of(3)}


def test_bytes_of_a_user_have_a_position_each() -> None:
    """As in Mesos; resolved with the position, in order."""
    bench = Bench.leading()
    for n in (b"a", b"b"):
        bench.run(bench.core.append(n, n))
    bench.turn()
    bench.commit()
    bench.commit()

    assert [values.payload_of(write.values[0]) for write in bench.writes] == [b"a", b"b"]
    assert list(bench.outcomes.items()) == [(b"a", 1), (b"b", 2)]


def test_stopped_is_for_good() -> None:
    """The log was dropped: whatever is pending is told so."""
    bench = Bench.leading()
    bench.offer("x", batch_of())

    bench.run(bench.core.stop(SealedError("dropped")))

    assert bench.told == {"x": encode(SealedError("dropped"))}
    with pytest.raises(AssertionError):
        bench.core.elect(0)
