"""One replica of one log: acceptor and learner.                                                                    Pure.

The rules are the table in docs/internals/protocols/paxos.md, "Replica", one method for each request, in the same order. The request
changes the state at once; whoever drives the core lets no answer leave before everything that was changed for it, and before
it, is durable.

* A request is taken whole or not at all: one position that refuses it keeps the others as they were.
* What is decided never changes, whatever number comes.
* Nothing is refused because it has been heard twice: a promise is given once per number, a write may be repeated.

Sources: Mesos, src/log/replica.cpp; Paxos Made Simple, section 2.2. Departures are marked "ours" in the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import CorruptionError, OverloadedError, UnavailableError, VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.effects import (
    AnswerFromDisk,
    PaxosAnswer,
    PaxosFail,
    PaxosPersist,
    ReplicaEffect,
    ReplicaTicket,
)
from virtuallog_loglets.paxos.core.learn_waiters import LearnWaiters
from virtuallog_loglets.paxos.core.slots import RECORD_BYTES, PaxosSlots
from virtuallog_loglets.paxos.messages import (
    NO_NODE,
    NOWHERE,
    Decided,
    GetStanding,
    Incarnation,
    Incarnations,
    Learn,
    PaxosRecord,
    PaxosRecover,
    PaxosRecovered,
    PaxosWrite,
    PaxosWritten,
    Promise,
    Promised,
    Standing,
    Status,
    TrimSealed,
    Verdict,
    WaitLearned,
)
from virtuallog_loglets.paxos.offsets import offset_of, position_of

OPEN_BYTES_MAX: Final = 64 << 20
"""In memory for positions that are not decided. A coordinator has a few waves in flight; who is that far behind misses
something, and takes in decided values until it has caught up."""
LEAP_MAX: Final = 1 << 28
"""How far past the last known position somebody may promise or write: what a busy log is given in half a day."""
RAISE_MAX: Final = 1 << 32
"""How far above what is promised here a number may be. A replica that was away for years of elections is not left out, and nobody can
come near the highest number there is, which could not be outbid: each step up to here is synced, and it would take 2**30 of them."""
INCARNATIONS_MAX: Final = 1024
"""Nodes whose stores are known: a log has a handful of replicas."""

ReplicaRequest: TypeAlias = Promise | PaxosWrite | Learn | PaxosRecover | GetStanding | TrimSealed


@attrs.define(eq=False)
class Replica:
    """Requests in, effects out."""

    segment: SegmentId
    node: NodeId
    incarnation: int
    """Of the store."""
    status: Status
    promised: int = 0
    """The implicit promise: for every position without a record. Never goes back."""
    coordinator: NodeId = NO_NODE
    slots: PaxosSlots = attrs.field(factory=PaxosSlots)
    incarnations: Incarnations = ()
    """The newest stores of others that this one was told of, by node."""
    _parked: LearnWaiters = attrs.field(factory=LearnWaiters, init=False)

    # -- for who looks inside -------------------------------------------------------------------------------------

    @property
    def begin(self) -> int:
        """First position that is not truncated."""
        return self.slots.begin

    @property
    def learned(self) -> int:
        """First position, from `begin` on, that is not known to be decided here."""
        return self.slots.learned

    @property
    def end(self) -> int:
        """Highest position promised or written here."""
        return self.slots.end

    @property
    def seal(self) -> int:
        """Where the log is closed; NOWHERE if it is not, or not whole here."""
        return self.slots.seal

    @property
    def trim(self) -> int:
        """Loglet offset below which readers see nothing."""
        return self.slots.trim

    @property
    def waiting(self) -> int:
        """Parked `WaitLearned`s."""
        return len(self._parked)

    def missing(self, first: int, stop: int) -> list[range]:
        """The positions of [first, stop) that are not learned here, ascending."""
        return self.slots.missing(first, stop)

    def standing(self) -> Standing:
        slots = self.slots
        uniform_from, uniform = slots.uniform()
        return Standing(
            status=self.status,
            incarnation=self.incarnation,
            promised=self.promised,
            begin=slots.begin,
            learned=slots.learned,
            end=slots.end,
            uniform_from=uniform_from,
            uniform=uniform,
            seal=slots.seal,
            seal_seen=slots.seal_seen,
            trim=slots.trim,
            coordinator=self.coordinator,
            incarnations=self.incarnations,
        )

    # -- events ---------------------------------------------------------------------------------------------------

    def step(self, request: ReplicaRequest, ticket: ReplicaTicket) -> list[ReplicaEffect]:
        """A request has arrived; it has been checked (checking.py)."""
        match request:
            case PaxosWrite():
                return self._write(request, ticket)
            case Learn():
                return self._learn(request, ticket)
            case Promise() if self.status is not Status.VOTING:
                return [PaxosAnswer(ticket, self._promise_answer(Verdict.IGNORED, request.proposal))]
            case Promise() if request.first == NOWHERE:
                return self._promise_all(request, ticket)
            case Promise():
                return self._promise_some(request, ticket)
            case PaxosRecover():
                return self._recover(request, ticket)
            case TrimSealed():
                return self._trim_sealed(request, ticket)
            case GetStanding():
                return [PaxosAnswer(ticket, self.standing())]

    def adopt(
        self, status: Status, promised: int = 0, begin: int = 0, trim: int = 0, incarnations: Incarnations = ()
    ) -> list[ReplicaEffect]:
        """Recovery: take on a status. Everything else only goes up."""
        self.status = status
        self.promised = max(self.promised, promised)
        self.slots.trim = max(self.slots.trim, trim)
        self.slots.truncate(begin)
        for told in incarnations:
            self._hear_of(told.node, told.incarnation)
        return [PaxosPersist(drop_below=self.begin), *self._wake()]

    def wait(self, request: WaitLearned, ticket: ReplicaTicket) -> list[ReplicaEffect]:
        """Parked until there is something to tell, or the time is up. When there is no room: as if the time were up."""
        is_told = self.learned > request.past or self.seal != NOWHERE
        if is_told or not self._parked.add(request.past, ticket):
            return [PaxosAnswer(ticket, self.standing())]
        return []

    def tick(self) -> list[ReplicaEffect]:
        """Some time has passed: answer those who have waited for long."""
        self._parked.tick()
        return self._wake()

    def dismiss(self, error: VirtualLogError) -> list[ReplicaEffect]:
        """The log is dropped: nobody waits for it any more."""
        return [PaxosAnswer(ticket, error) for ticket in self._parked.dismiss()]

    # -- promises -------------------------------------------------------------------------------------------------

    def _promise_all(self, request: Promise, ticket: ReplicaTicket) -> list[ReplicaEffect]:
        """The implicit promise. A number is promised once: whoever tries it as well has to take a higher one."""
        if request.proposal <= self.promised:
            return [PaxosAnswer(ticket, self._promise_answer(Verdict.REJECT, self.promised))]
        if (excess := self._excess(request.proposal, self.promised)) is not None:
            return [PaxosAnswer(ticket, excess)]
        self.promised, self.coordinator = request.proposal, request.coordinator
        # Durable before visible: after a promise that the disk forgets, a coordinator with a lower number could go on.
        return [PaxosPersist(), PaxosAnswer(ticket, self._promise_answer(Verdict.ACCEPT, request.proposal))]

    def _promise_some(self, request: Promise, ticket: ReplicaTicket) -> list[ReplicaEffect]:
        """The explicit promise of a range. What is decided is told whatever the number is, and needs no promise."""
        proposal, slots = request.proposal, self.slots
        open_positions = [p for p in range(request.first, request.stop) if not slots.is_learned(p)]
        in_way = max((self._floor(position) for position in open_positions), default=0)
        if proposal <= in_way:
            return [PaxosAnswer(ticket, self._promise_answer(Verdict.REJECT, in_way))]
        if (refusal := self._leap(request.first) or self._excess(proposal, in_way)) is not None:
            return [PaxosAnswer(ticket, refusal)]
        if slots.open_bytes + RECORD_BYTES * len(open_positions) > OPEN_BYTES_MAX:
            return [PaxosAnswer(ticket, _too_far_behind())]
        before = {p: record for p in open_positions if (record := slots.open_record(p)) is not None}
        after = tuple(_promised(p, before.get(p), proposal) for p in open_positions)
        for record in after:
            slots.put(record)
        accepted = [record for record in before.values() if record.performed != NOWHERE]
        return [*_persist(after), *self._quote(request, accepted, ticket)]

    def _floor(self, position: int) -> int:
        """The number promised at a position that is not decided."""
        record = self.slots.open_record(position)
        return self.promised if record is None else record.promised

    def _leap(self, first: int) -> OverloadedError | None:
        """Whether positions are absurdly far away. What lies between would have to be filled, one by one, by whoever is elected
        next. A replica that has missed so much may learn what is decided, however far away, and take part again then."""
        if first <= self.end + LEAP_MAX:
            return None
        return OverloadedError(f"position {first} is more than {LEAP_MAX} past {self.end}, the last one known here")

    def _excess(self, proposal: int, in_way: int) -> OverloadedError | None:
        """Whether a number is absurdly high. Once promised it would have to be outbid by whoever is elected next."""
        known = max(self.promised, in_way)
        if proposal <= known + RAISE_MAX:
            return None
        return OverloadedError(
            f"proposal {proposal} is more than {RAISE_MAX} above {known}, the highest one known here"
        )

    def _quote(self, request: Promise, accepted: list[PaxosRecord], ticket: ReplicaTicket) -> list[ReplicaEffect]:
        """An ACCEPT with what was accepted at the positions, and with what is decided there."""
        start, stop, unread = request.first, request.stop, list[int]()
        records = [*self._tombstones(start, stop), *accepted]
        for position in range(max(start, self.begin), stop):
            if self.slots.is_learned(position):
                record = self.slots.recent(position)
                unread.append(position) if record is None else records.append(record)
        records.sort(key=lambda record: record.position)
        answer = self._promise_answer(Verdict.ACCEPT, request.proposal, records)
        return [AnswerFromDisk(ticket, answer, tuple(unread)) if unread else PaxosAnswer(ticket, answer)]

    def _tombstones(self, start: int, stop: int) -> list[PaxosRecord]:
        return [self._tombstone(position) for position in range(start, min(stop, self.begin))]

    def _tombstone(self, position: int) -> PaxosRecord:
        """A truncated position: decided, and nobody needs to know as what."""
        return PaxosRecord(
            position=position, promised=self.promised, performed=self.promised, value=values.TOMBSTONE, learned=True
        )

    def _promise_answer(self, verdict: Verdict, proposal: int, records: Sequence[PaxosRecord] = ()) -> Promised:
        return Promised(
            verdict=verdict,
            proposal=proposal,
            end=self.end,
            records=tuple(records),
            incarnation=self.incarnation,
            incarnations=self.incarnations,
            coordinator=self.coordinator,
        )

    # -- writes ---------------------------------------------------------------------------------------------------

    def _write(self, request: PaxosWrite, ticket: ReplicaTicket) -> list[ReplicaEffect]:
        effects = self._decide(request.decided)
        if self.status is not Status.VOTING:
            return [*effects, PaxosAnswer(ticket, self._write_answer(Verdict.IGNORED, request.proposal))]
        proposal, slots, stop = request.proposal, self.slots, request.first + len(request.values)
        if request.first > slots.end:  # as nearly always: nothing is there
            in_way, decided = self.promised, list[int]()
        else:
            decided = [p for p in range(request.first, stop) if slots.is_learned(p)]
            in_way = max((self._floor(p) for p in range(request.first, stop) if not slots.is_learned(p)), default=0)
        if proposal < in_way:
            return [*effects, PaxosAnswer(ticket, self._write_answer(Verdict.REJECT, in_way))]
        refusal = self._leap(request.first) or self._excess(proposal, in_way) or self._ambiguity(request)
        if refusal is not None:
            return [*effects, PaxosAnswer(ticket, refusal)]
        if slots.open_bytes + sum(map(len, request.values)) > OPEN_BYTES_MAX:
            return [*effects, PaxosAnswer(ticket, _too_far_behind())]
        written = [
            # Accepting raises the promise of the position: else a coordinator that was outbid could overwrite it.
            PaxosRecord(position=position, promised=proposal, performed=proposal, value=value)
            for position, value in enumerate(request.values, request.first)
            if not decided or position not in decided
        ]
        for record in written:
            slots.put(record)
        if proposal == self.promised:  # not a fill, which anybody may do
            self.coordinator = request.coordinator
        # Durable before visible: the proposer counts this vote, and a later promise must tell of it.
        return [*effects, *_persist(tuple(written)), self._accepted(request, decided, ticket)]

    def _ambiguity(self, request: PaxosWrite) -> CorruptionError | None:
        """A number belongs to one value per position: everything that is inferred from numbers rests on that."""
        if request.first > self.end:
            return None
        for position, value in enumerate(request.values, request.first):
            record = self.slots.open_record(position)
            if record is not None and record.performed == request.proposal and record.value != value:
                return CorruptionError(f"log {self.segment}: two values with number {request.proposal} at {position}")
        return None

    def _accepted(self, request: PaxosWrite, decided: list[int], ticket: ReplicaTicket) -> PaxosAnswer | AnswerFromDisk:
        """An ACCEPT; with the decision wherever there is one. Also of the value that was written: it was not accepted with this
        number, and a coordinator that counted it for a vote would announce that the number has decided it."""
        known = {p: self._tombstone(p) if p < self.begin else self.slots.recent(p) for p in decided}
        told = [record for record in known.values() if record is not None]
        unread = tuple(position for position, record in known.items() if record is None)
        answer = self._write_answer(Verdict.ACCEPT, request.proposal, told)
        return AnswerFromDisk(ticket, answer, unread) if unread else PaxosAnswer(ticket, answer)

    def _write_answer(self, verdict: Verdict, proposal: int, records: Sequence[PaxosRecord] = ()) -> PaxosWritten:
        return PaxosWritten(
            verdict=verdict,
            proposal=proposal,
            end=self.end,
            records=tuple(records),
            incarnation=self.incarnation,
            incarnations=self.incarnations,
            coordinator=self.coordinator,
        )

    # -- learning -------------------------------------------------------------------------------------------------

    def _learn(self, request: Learn, ticket: ReplicaTicket) -> list[ReplicaEffect]:
        """In any status: what is decided is true for everybody."""
        effects = self._decide(request.decided)
        begin, seal = self.begin, self.seal
        stored: list[PaxosRecord] = []
        for record in request.records:
            if (contradiction := self._contradiction(record)) is not None:
                return [*effects, PaxosFail(contradiction), PaxosAnswer(ticket, contradiction)]
            stored += self._learn_one(record)
        if request.coordinator != NO_NODE and request.decided.proposal >= self.promised:  # else it was outbid since
            self.coordinator = request.coordinator
        kept = tuple(record for record in stored if record.position >= self.begin)
        effects += self._after_learning(begin, seal, kept)
        return [*effects, PaxosAnswer(ticket, self.standing())]

    def _learn_one(self, record: PaxosRecord) -> list[PaxosRecord]:
        """Returns what of it has to be stored."""
        slots, position = self.slots, record.position
        if values.is_tombstone(record.value):
            slots.truncate(position + 1)
            return []
        if slots.is_learned(position):
            return []
        accepted = slots.open_record(position)
        if accepted is not None and accepted.value == record.value:  # it is on the disk
            slots.learn(accepted)
            return []
        slots.learn(record)
        return [record]

    def _decide(self, decided: Decided) -> list[ReplicaEffect]:
        """Mark what was accepted with the number that decided, or a later one: a number belongs to one value per position,
        and a higher one can only have the same. Not worth a write of its own: what is forgotten is found out again."""
        if decided.first >= decided.stop:
            return []
        begin, seal, learned = self.begin, self.seal, self.learned
        self.slots.decide(decided.proposal, decided.first, decided.stop)
        return self._after_learning(begin, seal, ()) if learned != self.learned or begin != self.begin else []

    def _after_learning(self, begin: int, seal: int, stored: tuple[PaxosRecord, ...]) -> list[ReplicaEffect]:
        """Truncated or closed: that much is durable before anybody is told, as neither is ever taken back."""
        drop_below = self.begin if self.begin != begin else 0
        persist = PaxosPersist(stored, drop_below)
        return [*([persist] if stored or drop_below or self.seal != seal else []), *self._wake()]

    def _contradiction(self, record: PaxosRecord) -> CorruptionError | None:
        """Two decisions for one position: then somebody forgot what he had promised, and nothing here can be trusted."""
        known = self.slots.recent(record.position)
        if known is None or known.value == record.value or values.is_tombstone(record.value):
            return None
        return CorruptionError(f"log {self.segment}: two values are decided for position {record.position}")

    def _wake(self) -> list[ReplicaEffect]:
        """Answer those who wait no longer."""
        ready = self._parked.released(self.learned, is_closed=self.seal != NOWHERE)
        if not ready:
            return []
        standing = self.standing()
        return [PaxosAnswer(ticket, standing) for ticket in ready]

    # -- recovery and trims ---------------------------------------------------------------------------------------

    def _recover(self, request: PaxosRecover, ticket: ReplicaTicket) -> list[ReplicaEffect]:
        """Durable before visible: whoever counts on this answer may let the asker vote, and from then on no vote of its former
        store may count."""
        if len(self.incarnations) >= INCARNATIONS_MAX:
            return [PaxosAnswer(ticket, OverloadedError(f"{INCARNATIONS_MAX} stores are known here"))]
        news = request.incarnation != NOWHERE and self._hear_of(request.node, request.incarnation)
        answer = PaxosRecovered(
            status=self.status,
            promised=self.promised,
            begin=self.begin,
            end=self.end,
            incarnation=self.incarnation,
            incarnations=self.incarnations,
            trim=self.trim,
        )
        return [*([PaxosPersist()] if news else []), PaxosAnswer(ticket, answer)]

    def _hear_of(self, node: NodeId, incarnation: int) -> bool:
        """Whether that is news."""
        known = {told.node: told.incarnation for told in self.incarnations}
        if known.get(node, NOWHERE) >= incarnation:
            return False
        known[node] = incarnation
        self.incarnations = tuple(Incarnation(node=n, incarnation=known[n]) for n in sorted(known))
        return True

    def _trim_sealed(self, request: TrimSealed, ticket: ReplicaTicket) -> list[ReplicaEffect]:
        """Nothing can be appended any more, so each replica drops what it is told to; the SEAL stays."""
        if self.seal == NOWHERE:
            return [PaxosAnswer(ticket, UnavailableError(f"log {self.segment} is not known to be sealed here"))]
        offset = min(request.offset, offset_of(self.seal))
        if offset > self.trim:
            self.slots.trim = offset
            self.slots.truncate(min(position_of(offset), self.seal))
            return [PaxosPersist(drop_below=self.begin), PaxosAnswer(ticket, self.standing())]
        return [PaxosAnswer(ticket, self.standing())]


def _promised(position: int, before: PaxosRecord | None, proposal: int) -> PaxosRecord:
    if before is None:
        return PaxosRecord(position=position, promised=proposal)
    return PaxosRecord(position=position, promised=proposal, performed=before.performed, value=before.value)


def _persist(records: tuple[PaxosRecord, ...]) -> list[ReplicaEffect]:
    return [PaxosPersist(records)] if records else []


def _too_far_behind() -> OverloadedError:
    return OverloadedError(f"{OPEN_BYTES_MAX} bytes of undecided positions are kept here")
