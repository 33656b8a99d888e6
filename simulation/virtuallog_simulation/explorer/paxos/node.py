"""One node of the Paxos log in an exploration: the product's replica and coordinator, a catch-up if one runs, and the disk.

Requests of a coordinator to the replica of its own node arrive in the same step, and so do the answers, once they are synced.
The leader that a replica knows of is a hint; no rule of safety rests on it, so here none is known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final

import attrs

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Request
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.core.coordinator import Coordinator, CoordinatorState
from virtuallog_loglets.paxos.core.effects import (
    Announce,
    AnswerFromDisk,
    CatchUp,
    CoordinatorEffect,
    LearnLocally,
    PaxosAnswer,
    PaxosFail,
    PaxosPersist,
    PaxosResolve,
    PaxosSend,
    ReplicaEffect,
)
from virtuallog_loglets.paxos.core.fill_attempt import FillEffect, FillFinish, FillSend, FillTeach
from virtuallog_loglets.paxos.core.gap_repair import CopyGap, DropGap, FillGap, GapRepair, tombstone, usable_untrusted
from virtuallog_loglets.paxos.core.learn_waiters import WAIT_TICKS
from virtuallog_loglets.paxos.core.position_digest import PositionDigest
from virtuallog_loglets.paxos.core.replica import Replica
from virtuallog_loglets.paxos.core.replication import RESEND_MS
from virtuallog_loglets.paxos.drivers.replica_maintenance import IN_FLIGHT
from virtuallog_loglets.paxos.messages import (
    NO_NODE,
    NOWHERE,
    GetStanding,
    Learn,
    PaxosRecord,
    PaxosRecords,
    PaxosWrite,
    Promise,
    ReadRecords,
    Status,
    WaitLearned,
)
from virtuallog_simulation.explorer.batches import SEGMENT, batch_of
from virtuallog_simulation.explorer.local_states import Cell, Event, Sent
from virtuallog_simulation.explorer.messages import MessageInFlight
from virtuallog_simulation.explorer.paxos.catch_up import PaxosCatchUp, stores_of
from virtuallog_simulation.explorer.paxos.disk import INCARNATION, PaxosDisk, StoredAnswer
from virtuallog_simulation.explorer.paxos.node_view import decision_of, view_of
from virtuallog_simulation.explorer.paxos.state import PaxosNodeView
from virtuallog_simulation.explorer.paxos.texts import message_text

NO_CALL: Final = ()
"""Call of a message whose answer is ignored."""


@attrs.define(eq=False)
class RoundNumbers(Iterator[int]):
    """Numbers of rounds since a restart."""

    last: int = 0

    def __next__(self) -> int:
        self.last += 1
        return self.last


@attrs.define
class PaxosOutput:
    """Results of one step."""

    sent: list[Sent] = attrs.field(factory=list)
    told: list[Any] = attrs.field(factory=list)
    own: deque[tuple[Any, Any]] = attrs.field(factory=deque)
    """Answers of the own replica, with their calls."""
    again: dict[str, tuple[int, ...]] | None = None
    """Nodes that are sent a write or a question again, in a tick; None in other steps: all."""


@attrs.define(eq=False)
class PaxosNodeCell(Cell):
    """One node."""

    NO_STATE: ClassVar[frozenset[str]] = frozenset({"ensemble", "is_eager", "looks"})

    node: NodeId
    ensemble: Ensemble
    is_eager: bool
    """True if each write is synced before the next step."""
    looks: bool
    replica: Replica
    coordinator: Coordinator
    disk: PaxosDisk
    boot: int = 0
    rounds: RoundNumbers = attrs.field(factory=RoundNumbers)
    catch_up: PaxosCatchUp | None = None

    @classmethod
    def begin(cls, node: NodeId, ensemble: Ensemble, *, is_eager: bool, looks: bool) -> PaxosNodeCell:
        """A node of a new log."""
        replica = Replica(SEGMENT, node, INCARNATION, Status.VOTING)
        cell = cls(
            node, ensemble, is_eager, looks, replica, Coordinator(SEGMENT, node, ensemble), PaxosDisk.of(replica)
        )
        cell._make_coordinator()
        return cell

    def _make_coordinator(self) -> None:
        self.rounds, self.catch_up = RoundNumbers(), None
        self.coordinator = Coordinator(SEGMENT, self.node, self.ensemble)
        self.coordinator._rounds, self.coordinator._crash_vector = self.rounds, stores_of(self.ensemble)

    @property
    def name(self) -> int:
        return self.node

    # -- steps ----------------------------------------------------------------------------------------------------

    def take(self, event: Event) -> tuple[list[Sent], list[Any]]:
        out, core = PaxosOutput(), self.coordinator
        match event:
            case ("take", MessageInFlight(body=Request()) as message):
                self._serve(message, out)
            case ("take", MessageInFlight() as message):
                self._answered(message.sender, message.call, message.body, out)
            case ("stand",):
                self._stand(out)
            case ("append" | "again" | "seal" | "tail", *_):
                self._request(event, out)
            case ("beat", write, standing):
                out.again = {"write": write, "standing": standing}
                for now in (0, RESEND_MS):
                    self._perform(core.tick(now), out)
            case ("mend",):
                first, stop = self.replica.learned, self.replica.end + 1
                self._catch_up(PaxosCatchUp(next(self.rounds), first, stop, 0, False, GapRepair(IN_FLIGHT)), out)
            case ("refill",):
                self._refill(out)
            case ("go on",):
                self._go_on(out)
            case ("unanswered",):
                self._unanswered(out)
            case ("sync",):
                self._release(self.disk.sync(self.replica), out)
            case ("tick",):
                for _ in range(WAIT_TICKS):
                    self._carry_out(self.replica.tick(), out)
            case ("crash",):
                self._crash()
            case _:
                raise TypeError(event)
        self._settle(out)
        self._forget_times()
        return out.sent, out.told

    def _settle(self, out: PaxosOutput) -> None:
        """Do what follows without another event."""
        while True:
            if out.own:
                self._answered(self.node, *out.own.popleft(), out)
            elif self.coordinator.has_work:
                self._perform(self.coordinator.turn(0, 0), out)
            else:
                self.replica.coordinator = self.coordinator.known_leader = NO_NODE
                self.disk.cut(self.replica)
                if not self.is_eager or self.disk.writing is None:
                    return
                self._release(self.disk.sync(self.replica), out)

    def _forget_times(self) -> None:
        """Set times to one value, and what only spreads work over time."""
        self.replica._parked._now = 0
        if self.coordinator.state is not CoordinatorState.ELECTING:
            self.coordinator._election = None
        if (term := self.coordinator.term) is None:
            return
        replicator = term.replicator
        replicator._last_tick_committed, replicator._awaited = replicator.first, False
        if (flight := replicator.flight) is not None:
            flight.since_ms = flight.sent_ms = flight.retried_ms = 0
            flight.failed.clear()
        if (question := term._pending_reads.confirmation) is not None:
            question._since_ms, question._asked_ms = None, 0

    def _crash(self) -> None:
        self.boot += 1
        self.replica = self.disk.restore(self.node)
        self.replica.coordinator = NO_NODE
        self._make_coordinator()

    # -- the replica ----------------------------------------------------------------------------------------------

    def _serve(self, message: MessageInFlight, out: PaxosOutput) -> None:
        body, caller = message.body, (message.sender, message.call)
        match body:
            case ReadRecords(first=first, stop=stop):
                answer = PaxosRecords(records=tuple(self._read(first, stop)), standing=self.replica.standing())
                self._send_answer(caller, answer, out)
            case WaitLearned():
                self._carry_out(self.replica.wait(body, (*caller, ())), out)
            case _:
                self._carry_out(self.replica.step(body, (*caller, _span_of(body)) if message.call else None), out)

    def _carry_out(self, effects: Iterable[ReplicaEffect], out: PaxosOutput) -> None:
        for effect in effects:
            match effect:
                case PaxosPersist():
                    self.disk.persist(effect)
                case PaxosAnswer() | AnswerFromDisk():
                    if not self.disk.holds(effect):
                        self._release([effect], out)
                case PaxosFail(error):
                    raise error

    def _release(self, answers: Sequence[StoredAnswer], out: PaxosOutput) -> None:
        """Send answers that rest on nothing that is not synced."""
        for answer in answers:
            outcome = answer.outcome
            if isinstance(outcome, VirtualLogError):
                raise outcome  # no correct caller asks for what is refused
            if answer.ticket is None or outcome is None:
                continue
            *caller, span = answer.ticket
            if isinstance(answer, AnswerFromDisk):
                stored = [
                    attrs.evolve(record, learned=True) for record in map(self.disk.record, answer.positions) if record
                ]
                told = sorted((*answer.outcome.records, *stored), key=lambda record: record.position)
                outcome = attrs.evolve(answer.outcome, records=tuple(told))
            out.told.append(("answer", span, outcome))
            self._send_answer(caller, outcome, out)

    def _send_answer(self, caller: Sequence[Any], outcome: Any, out: PaxosOutput) -> None:
        node, call = caller
        if isinstance(outcome, PaxosRecords):
            outcome = attrs.evolve(outcome, standing=attrs.evolve(outcome.standing, coordinator=NO_NODE))
        else:
            outcome = attrs.evolve(outcome, coordinator=NO_NODE)
        if node == self.node:
            out.own.append((call, outcome))
        else:
            out.sent.append(Sent(node, call, outcome, f"{message_text(outcome)}{_call_text(call)}"))

    def _read(self, first: int, stop: int) -> Iterator[PaxosRecord]:
        for position in range(first, self.replica.slots.learned_run(first, stop)):
            record = decision_of(self.replica, self.disk, position)
            if record is None:
                return
            yield record

    # -- the coordinator ------------------------------------------------------------------------------------------

    def _close_if_sealed(self, out: PaxosOutput) -> bool:
        if self.replica.seal != NOWHERE:
            self._perform(self.coordinator.close(self.replica.seal), out)
        return self.replica.seal != NOWHERE

    def _stand(self, out: PaxosOutput) -> None:
        self.catch_up, core = None, self.coordinator
        if self._close_if_sealed(out):
            return
        if core.state is not CoordinatorState.INITIAL:
            self._perform(core.resign("it stands again"), out)
        self._perform(core.elect(self.replica.promised), out)

    def _request(self, event: Event, out: PaxosOutput) -> None:
        self._close_if_sealed(out)
        core = self.coordinator
        match event:
            case ("append" | "again", number):
                ticket = ("append", number)
                effects = core.offer(batch_of(number), ticket, 0, opens=True, expected_tail=NOWHERE)
            case ("seal", _):
                effects = core.seal_log(event)
            case ("tail", _, past):
                effects = core.settle(past, event)
            case _:
                raise TypeError(event)
        self._perform(effects, out)

    def _perform(self, effects: Iterable[CoordinatorEffect], out: PaxosOutput) -> None:
        for effect in effects:
            match effect:
                case PaxosSend(nodes, request, number):
                    kind = "promise" if isinstance(request, Promise) else "write"
                    kind = "standing" if isinstance(request, GetStanding) else kind
                    for node in nodes if out.again is None else out.again[kind]:
                        self._send(node, request, (self.boot, kind, number), out)
                case Announce(nodes, learn):
                    if learn.decided.first < learn.decided.stop:  # otherwise it only says who leads
                        for node in nodes:
                            self._send(node, learn, NO_CALL, out)
                case LearnLocally(decided):
                    self._carry_out(self.replica.decide(decided), out)
                case CatchUp(stop, proposal):
                    number, first = self.coordinator._number, self.replica.begin
                    self._catch_up(PaxosCatchUp(number, first, stop, proposal, True, GapRepair()), out)
                case PaxosResolve(ticket, outcome):
                    if ticket is not None:
                        out.told.append((ticket, outcome))

    def _send(self, node: int, request: Any, call: tuple[Any, ...], out: PaxosOutput) -> None:
        if isinstance(request, Promise | PaxosWrite | Learn):
            request = attrs.evolve(request, coordinator=NO_NODE)
        if node != self.node:
            out.sent.append(Sent(node, call, request, f"{message_text(request)}{_call_text(call)}"))
        else:
            ticket = (node, call, _span_of(request)) if call else None
            self._carry_out(self.replica.step(request, ticket), out)

    def _answered(self, sender: int, call: tuple[Any, ...], outcome: Any, out: PaxosOutput) -> None:
        boot, kind, *name = call
        if boot != self.boot:
            return
        node, core, running = NodeId(sender), self.coordinator, self.catch_up
        match kind:
            case "promise":
                self._perform(core.promised(node, name[0], outcome), out)
            case "write":
                self._perform(core.written(node, name[0], outcome), out)
            case "standing":
                self._perform(core.confirmed(node, name[0], outcome), out)
            case "fill" if running is not None and running.attempt is not None:
                if name[:-1] == [running.number, running.attempts]:
                    self._fill(running.attempt.answered(name[-1], node, outcome), out)
            case "look" if running is not None and name == [running.number]:
                self._looked(running, node, outcome, out)
            case "read" if running is not None and name == [running.number] and running.source == node:
                self._copied(running, node, outcome, out)

    # -- catch-up -------------------------------------------------------------------------------------------------

    def _catch_up(self, running: PaxosCatchUp, out: PaxosOutput) -> None:
        self.catch_up = running
        if not self.looks or not self.replica.missing(running.first, running.stop):
            self._go_on(out)
            return
        running.is_looking, running.awaited = True, {node for node in self.ensemble.members if node != self.node}
        for node in sorted(running.awaited):
            self._send(node, GetStanding(segment=SEGMENT), (self.boot, "look", running.number), out)

    def _looked(self, running: PaxosCatchUp, node: NodeId, standing: Any, out: PaxosOutput) -> None:
        running.repair.heard(node, standing)
        running.awaited.discard(node)
        if running.is_looking and (not running.awaited or running.repair.covers(running.stop)):
            self._go_on(out)

    def _go_on(self, out: PaxosOutput) -> None:
        """Take the next step of the catch-up, or end it."""
        running, replica = self.catch_up, self.replica
        assert running is not None
        running.is_looking, running.source = False, 0
        gaps = replica.missing(running.first, running.stop)
        if not gaps:
            self._caught_up(running, out)
            return
        running.first = gaps[0].start
        match running.repair.next(gaps[0], replica.end):
            case None:
                self.catch_up = None
            case DropGap(begin):
                self._carry_out(replica.step(Learn(segment=SEGMENT, records=(tombstone(begin),)), None), out)
                self._go_on(out)
            case CopyGap(source, first, stop):
                running.source, running.span = source, (first, stop)
                read = ReadRecords(segment=SEGMENT, first=first, stop=stop, max_bytes=1 << 20)
                self._send(source, read, (self.boot, "read", running.number), out)
            case FillGap(first, stop):
                self._fill(running.fill(self.node, self.ensemble, replica, first, stop), out)

    def _copied(self, running: PaxosCatchUp, node: NodeId, answer: PaxosRecords, out: PaxosOutput) -> None:
        running.repair.heard(node, answer.standing)
        records = usable_untrusted(answer.records, *running.span)
        if records:
            self._carry_out(self.replica.step(Learn(segment=SEGMENT, records=records), None), out)
        else:
            running.repair.lacks(node, running.span[0])
        self._go_on(out)

    def _unanswered(self, out: PaxosOutput) -> None:
        assert self.catch_up is not None
        self.catch_up.repair.lost(NodeId(self.catch_up.source))
        self._go_on(out)

    def _fill(self, effects: Iterable[FillEffect], out: PaxosOutput) -> None:
        running = self.catch_up
        assert running is not None
        for effect in effects:
            match effect:
                case FillSend(request, number):
                    for node in self.ensemble.members:
                        self._send(node, request, (self.boot, "fill", running.number, running.attempts, number), out)
                case FillTeach(learn):
                    for node in self.ensemble.members:
                        self._send(node, learn, NO_CALL, out)
                case FillFinish(None):
                    running.attempt, running.is_filling = None, False
                    self._go_on(out)
                case FillFinish(failure):
                    running.failed(failure)

    def _refill(self, out: PaxosOutput) -> None:
        running = self.catch_up
        assert running is not None
        if running.attempt is not None:
            running.failed(None)
        self._fill(running.attempt_fill(self.node, self.ensemble), out)

    def _caught_up(self, running: PaxosCatchUp, out: PaxosOutput) -> None:
        self.catch_up, core, replica = None, self.coordinator, self.replica
        if not running.is_election or self._close_if_sealed(out):
            return
        if core.state is not CoordinatorState.CATCHING_UP or replica.learned != running.stop:
            self._perform(core.resign("another replica leads"), out)
        else:
            self._perform(core.caught_up(self._digest(), 0), out)

    def _digest(self) -> PositionDigest:
        slots = self.replica.slots
        slots.digest_more(self._read(slots.digest.stop, slots.learned))
        return slots.digest.copy()

    def view(self) -> PaxosNodeView:
        """Part that moves and checks look at."""
        return view_of(self.replica, self.coordinator, self.disk, self.catch_up, self.boot)


def _span_of(request: Any) -> tuple[int, int]:
    """Positions of a request, as (first, stop); (NOWHERE, NOWHERE) if it has none."""
    if isinstance(request, PaxosWrite):
        return request.first, request.first + len(request.values)
    return (request.first, request.stop) if isinstance(request, Promise) else (NOWHERE, NOWHERE)


def _call_text(call: tuple[Any, ...]) -> str:
    """Call as text: restart, kind and numbers."""
    return " #" + ".".join(map(str, call)) if call else ""
