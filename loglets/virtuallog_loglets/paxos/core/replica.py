"""One replica of one log: acceptor and learner.

The rules are the table in docs/internals/protocols/paxos.md, "Replica": one method for each request, in the same order.
A request changes the state at once. The driver lets an answer leave only when all changes for it, and all changes
before it, are durable.

* A request is taken whole or not at all: if one position refuses, the others stay as they were.
* A decision never changes, for any number.
* A repeated write is accepted again; a promise is given once per number.

Sources: Mesos, src/log/replica.cpp; Paxos Made Simple, section 2.2. Departures are marked "ours" in the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias, TypeVar

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
    persist_records,
)
from virtuallog_loglets.paxos.core.learn_waiters import LearnWaiters
from virtuallog_loglets.paxos.core.slots import RECORD_BYTES, PaxosSlots, promised_record
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
"""Cap on memory for positions that are not decided. A coordinator has a few waves in flight. A replica that is further
behind has missed decisions, and takes only those until it has caught up."""
LEAP_MAX: Final = 1 << 28
"""Cap on the distance of a promise or write past the last known position: the positions of half a
day of a busy log."""
RAISE_MAX: Final = 1 << 32
"""Cap on how far a number may exceed what is promised here. It admits a replica that was away for years of elections.
The highest number of all, which could not be outbid, stays out of reach: that would take 2**30 steps, each synced."""
INCARNATIONS_MAX: Final = 1024
"""Cap on nodes whose stores are known; a log has a handful of replicas."""

ReplicaRequest: TypeAlias = Promise | PaxosWrite | Learn | PaxosRecover | GetStanding | TrimSealed
VoteT = TypeVar("VoteT", Promised, PaxosWritten)


@attrs.define(eq=False)
class Replica:
    """Core: takes requests, returns effects."""

    segment: SegmentId
    node: NodeId
    incarnation: int
    """Incarnation of the store."""
    status: Status
    promised: int = 0
    """The implicit promise, for every position without a record. It never decreases."""
    coordinator: NodeId = NO_NODE
    """Leader as far as this replica knows."""
    slots: PaxosSlots = attrs.field(factory=PaxosSlots)
    incarnations: Incarnations = ()
    """Newest known stores of other nodes, sorted by node."""
    _parked: LearnWaiters = attrs.field(factory=LearnWaiters, init=False)

    # -- state ----------------------------------------------------------------------------------------------------

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
        """Position of the SEAL; NOWHERE if the log is open, or not whole here."""
        return self.slots.seal

    @property
    def trim(self) -> int:
        """Loglet offset below which readers see nothing."""
        return self.slots.trim

    @property
    def waiting(self) -> int:
        """Number of parked `WaitLearned` requests."""
        return len(self._parked)

    def missing(self, first: int, stop: int) -> list[range]:
        """Positions of [first, stop) that are not learned here, ascending."""
        return self.slots.missing(first, stop)

    def standing(self) -> Standing:
        """State of this replica, as `GetStanding` returns it."""
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
        """Take a request that has been checked (validation.py)."""
        match request:
            case PaxosWrite():
                return self._write(request, ticket)
            case Learn():
                return self._learn(request, ticket)
            case Promise() if self.status is not Status.VOTING:
                return [PaxosAnswer(ticket, self._answer(Promised, Verdict.IGNORED, request.proposal))]
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
        """Take on a status after recovery. All other values only increase."""
        self.status = status
        self.promised = max(self.promised, promised)
        self.slots.trim = max(self.slots.trim, trim)
        self.slots.truncate(begin)
        for told in incarnations:
            self._hear_of(told.node, told.incarnation)
        return [PaxosPersist(drop_below=self.begin), *self._wake()]

    def wait(self, request: WaitLearned, ticket: ReplicaTicket) -> list[ReplicaEffect]:
        """Park a request until `past` is learned or the time is up; answer at once if there is no room to park it."""
        is_told = self.learned > request.past or self.seal != NOWHERE
        if is_told or not self._parked.add(request.past, ticket):
            return [PaxosAnswer(ticket, self.standing())]
        return []

    def tick(self) -> list[ReplicaEffect]:
        """Answer requests that have been parked for long: some time has passed."""
        self._parked.tick()
        return self._wake()

    def dismiss(self, error: VirtualLogError) -> list[ReplicaEffect]:
        """Answer all parked requests with `error`, as the log is dropped."""
        return [PaxosAnswer(ticket, error) for ticket in self._parked.dismiss()]

    # -- promises -------------------------------------------------------------------------------------------------

    def _promise_all(self, request: Promise, ticket: ReplicaTicket) -> list[ReplicaEffect]:
        """Give the implicit promise. A number is promised once: another proposer of the same number must go higher."""
        if request.proposal <= self.promised:
            return [PaxosAnswer(ticket, self._answer(Promised, Verdict.REJECT, self.promised))]
        if (excess := self._excess(request.proposal, self.promised)) is not None:
            return [PaxosAnswer(ticket, excess)]
        self.promised, self.coordinator = request.proposal, request.coordinator
        # Durable before visible: after a promise that the disk forgets, a coordinator with a lower number could go on.
        return [PaxosPersist(), PaxosAnswer(ticket, self._answer(Promised, Verdict.ACCEPT, request.proposal))]

    def _promise_some(self, request: Promise, ticket: ReplicaTicket) -> list[ReplicaEffect]:
        """Give the explicit promise of a range. Decided values are returned for any number, without a promise."""
        proposal, slots = request.proposal, self.slots
        open_positions = [p for p in range(request.first, request.stop) if not slots.is_learned(p)]
        in_way = max((self._floor(position) for position in open_positions), default=0)
        if proposal <= in_way:
            return [PaxosAnswer(ticket, self._answer(Promised, Verdict.REJECT, in_way))]
        if (refusal := self._leap(request.first) or self._excess(proposal, in_way)) is not None:
            return [PaxosAnswer(ticket, refusal)]
        if slots.open_bytes + RECORD_BYTES * len(open_positions) > OPEN_BYTES_MAX:
            return [PaxosAnswer(ticket, _too_far_behind())]
        before = {p: record for p in open_positions if (record := slots.open_record(p)) is not None}
        after = tuple(promised_record(p, before.get(p), proposal) for p in open_positions)
        for record in after:
            slots.put(record)
        accepted = [record for record in before.values() if record.performed != NOWHERE]
        return [*persist_records(after), *self._quote(request, accepted, ticket)]

    def _floor(self, position: int) -> int:
        """Number promised at a position that is not decided."""
        record = self.slots.open_record(position)
        return self.promised if record is None else record.promised

    def _leap(self, first: int) -> OverloadedError | None:
        """The error for positions that are absurdly far away; None if they are not.

        The next coordinator would have to fill all positions between, one by one. A replica that has missed so much can
        learn decided values at any distance, and take part again then.
        """
        if first <= self.end + LEAP_MAX:
            return None
        return OverloadedError(f"position {first} is more than {LEAP_MAX} past {self.end}, the last one known here")

    def _excess(self, proposal: int, in_way: int) -> OverloadedError | None:
        """The error for a number that is absurdly high; None if it is not. The next coordinator would have to outbid it."""
        known = max(self.promised, in_way)
        if proposal <= known + RAISE_MAX:
            return None
        return OverloadedError(
            f"proposal {proposal} is more than {RAISE_MAX} above {known}, the highest one known here"
        )

    def _quote(self, request: Promise, accepted: list[PaxosRecord], ticket: ReplicaTicket) -> list[ReplicaEffect]:
        """An ACCEPT with the values that are accepted or decided at the positions of the request."""
        start, stop, unread = request.first, request.stop, list[int]()
        records = [*map(self._tombstone, range(start, min(stop, self.begin))), *accepted]
        for position in range(max(start, self.begin), stop):
            if self.slots.is_learned(position):
                record = self.slots.recent(position)
                unread.append(position) if record is None else records.append(record)
        records.sort(key=lambda record: record.position)
        answer = self._answer(Promised, Verdict.ACCEPT, request.proposal, records)
        return [AnswerFromDisk(ticket, answer, tuple(unread)) if unread else PaxosAnswer(ticket, answer)]

    def _tombstone(self, position: int) -> PaxosRecord:
        """Record of a truncated position: it is decided, and its value is not needed any more."""
        return PaxosRecord(
            position=position, promised=self.promised, performed=self.promised, value=values.TOMBSTONE, learned=True
        )

    def _answer(self, kind: type[VoteT], verdict: Verdict, proposal: int, records: Sequence[PaxosRecord] = ()) -> VoteT:
        return kind(
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
        """Accept the values of a proposer, all or none; the answer leaves once they are durable."""
        effects = self.decide(request.decided)
        if self.status is not Status.VOTING:
            return [*effects, PaxosAnswer(ticket, self._answer(PaxosWritten, Verdict.IGNORED, request.proposal))]
        proposal, slots, stop = request.proposal, self.slots, request.first + len(request.values)
        if request.first > slots.end:  # nearly always: no position has a record
            in_way, decided = self.promised, list[int]()
        else:
            decided = [p for p in range(request.first, stop) if slots.is_learned(p)]
            in_way = max((self._floor(p) for p in range(request.first, stop) if not slots.is_learned(p)), default=0)
        if proposal < in_way:
            return [*effects, PaxosAnswer(ticket, self._answer(PaxosWritten, Verdict.REJECT, in_way))]
        refusal = self._leap(request.first) or self._excess(proposal, in_way) or self._ambiguity(request)
        if refusal is not None:
            return [*effects, PaxosAnswer(ticket, refusal)]
        if slots.open_bytes + sum(map(len, request.values)) > OPEN_BYTES_MAX:
            return [*effects, PaxosAnswer(ticket, _too_far_behind())]
        written = [
            # Accepting raises the promise of the position; otherwise a coordinator that was outbid could overwrite it.
            PaxosRecord(position=position, promised=proposal, performed=proposal, value=value)
            for position, value in enumerate(request.values, request.first)
            if not decided or position not in decided
        ]
        for record in written:
            slots.put(record)
        if proposal == self.promised:  # written by the leader; any node may fill
            self.coordinator = request.coordinator
        # Durable before visible: the proposer counts this vote, and a later promise must report it.
        return [*effects, *persist_records(tuple(written)), self._accepted(request, decided, ticket)]

    def _ambiguity(self, request: PaxosWrite) -> CorruptionError | None:
        """The error if a number would get a second value at a position; None if not. All inference rests on one value."""
        if request.first > self.end:
            return None
        for position, value in enumerate(request.values, request.first):
            record = self.slots.open_record(position)
            if record is not None and record.performed == request.proposal and record.value != value:
                return CorruptionError(f"log {self.segment}: two values with number {request.proposal} at {position}")
        return None

    def _accepted(self, request: PaxosWrite, decided: list[int], ticket: ReplicaTicket) -> PaxosAnswer | AnswerFromDisk:
        """An ACCEPT, with the decision of each position that has one.

        The decision is included even if it equals the written value: it was not accepted with this number. A coordinator
        that counted it as a vote would announce that its number had decided the position.
        """
        known = {p: self._tombstone(p) if p < self.begin else self.slots.recent(p) for p in decided}
        told = [record for record in known.values() if record is not None]
        unread = tuple(position for position, record in known.items() if record is None)
        answer = self._answer(PaxosWritten, Verdict.ACCEPT, request.proposal, told)
        answer = attrs.evolve(answer, has_waiters=True) if self._parked else answer
        return AnswerFromDisk(ticket, answer, unread) if unread else PaxosAnswer(ticket, answer)

    # -- learning -------------------------------------------------------------------------------------------------

    def _learn(self, request: Learn, ticket: ReplicaTicket) -> list[ReplicaEffect]:
        """Take in decisions, in any status."""
        effects = self.decide(request.decided)
        begin, seal = self.begin, self.seal
        stored: list[PaxosRecord] = []
        for record in request.records:
            if (contradiction := self._contradiction(record)) is not None:
                return [*effects, PaxosFail(contradiction), PaxosAnswer(ticket, contradiction)]
            stored += self._learn_one(record)
        if request.coordinator != NO_NODE and request.decided.proposal >= self.promised:  # not outbid since
            self.coordinator = request.coordinator
        kept = tuple(record for record in stored if record.position >= self.begin)
        effects += self._after_learning(begin, seal, kept)
        return [*effects, PaxosAnswer(ticket, self.standing())]

    def _learn_one(self, record: PaxosRecord) -> list[PaxosRecord]:
        """Learn one record and return what has to be stored of it."""
        slots, position = self.slots, record.position
        if values.is_tombstone(record.value):
            slots.truncate(position + 1)
            return []
        if slots.is_learned(position):
            return []
        accepted = slots.open_record(position)
        if accepted is not None and accepted.value == record.value:  # already on the disk
            slots.learn(accepted)
            return []
        slots.learn(record)
        return [record]

    def decide(self, decided: Decided) -> list[ReplicaEffect]:
        """Mark values that were accepted with the deciding number or a higher one as decided.

        A number belongs to one value per position, and a higher number can only have the same value. The mark is not
        worth a write of its own: if it is lost, it is found out again.
        """
        if decided.first >= decided.stop:
            return []
        begin, seal, learned = self.begin, self.seal, self.learned
        self.slots.decide(decided.proposal, decided.first, decided.stop)
        return self._after_learning(begin, seal, ()) if learned != self.learned or begin != self.begin else []

    def _after_learning(self, begin: int, seal: int, stored: tuple[PaxosRecord, ...]) -> list[ReplicaEffect]:
        """Store records, truncation and closing before they are reported, as the latter two are never taken back."""
        drop_below = self.begin if self.begin != begin else 0
        persist = PaxosPersist(stored, drop_below)
        return [*([persist] if stored or drop_below or self.seal != seal else []), *self._wake()]

    def _contradiction(self, record: PaxosRecord) -> CorruptionError | None:
        """The error if `record` is a second decision for its position; None if not.

        In that case a replica has forgotten a promise, and nothing here can be trusted.
        """
        known = self.slots.recent(record.position)
        if known is None or known.value == record.value or values.is_tombstone(record.value):
            return None
        return CorruptionError(f"log {self.segment}: two values are decided for position {record.position}")

    def _wake(self) -> list[ReplicaEffect]:
        """Answer parked requests that need not wait any longer."""
        if not (ready := self._parked.released(self.learned, is_closed=self.seal != NOWHERE)):
            return []
        standing = self.standing()
        return [PaxosAnswer(ticket, standing) for ticket in ready]

    # -- recovery and trims ---------------------------------------------------------------------------------------

    def _recover(self, request: PaxosRecover, ticket: ReplicaTicket) -> list[ReplicaEffect]:
        """Report the extent of the log, and note the caller's new store.

        Durable before visible: the caller may vote on the strength of this answer, and from then on no vote of its
        former store may count.
        """
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
        """Note a store; True if it is newer than the known one."""
        known = {told.node: told.incarnation for told in self.incarnations}
        if known.get(node, NOWHERE) >= incarnation:
            return False
        known[node] = incarnation
        self.incarnations = tuple(Incarnation(node=n, incarnation=known[n]) for n in sorted(known))
        return True

    def _trim_sealed(self, request: TrimSealed, ticket: ReplicaTicket) -> list[ReplicaEffect]:
        """Trim a sealed log, which takes no TRUNCATE: drop what lies below the offset. The SEAL stays."""
        if self.seal == NOWHERE:
            return [PaxosAnswer(ticket, UnavailableError(f"log {self.segment} is not known to be sealed here"))]
        offset = min(request.offset, offset_of(self.seal))
        if offset > self.trim:
            self.slots.trim = offset
            self.slots.truncate(min(position_of(offset), self.seal))
            return [PaxosPersist(drop_below=self.begin), PaxosAnswer(ticket, self.standing())]
        return [PaxosAnswer(ticket, self.standing())]


def _too_far_behind() -> OverloadedError:
    return OverloadedError(f"{OPEN_BYTES_MAX} bytes of undecided positions are kept here")
