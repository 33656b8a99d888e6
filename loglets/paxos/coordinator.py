"""The coordinator of one log: Multi-Paxos with an implicit promise, one position in flight.                        Pure.

              elect              a quorum has promised            caught_up
    INITIAL ---------> ELECTING ----------------------> CATCHING_UP --------> LEADING ---> CLOSED, once a SEAL is decided
       ^                  |                                 |                    |
       '------------------'---------------------------------'--------------------'   any REJECT, any failure

Rules (docs/protocols/paxos.md, "Coordinator", says why):
* One position is in flight, and positions are consecutive. What waits shares the next one.
* A value is made once for a position: it is sent again as it is, to who has not accepted it.
* Behind any refusal, and any position that holds another decision, it leads no longer: what is in flight and what waits is
  *maybe*. It never goes on with the number of a competitor (defect 3 of docs/sources.md).
* Who does not vote now is no reason to stop: the same write is sent again (4).
* Behind a SEAL nothing is written.
* Clients are told in the order of positions, and the local replica before them.

Source: Mesos, src/log/coordinator.cpp. Batches, sessions, SEAL and the confirmation of an idle lead are ours.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

import attrs

from loglets.paxos import values
from loglets.paxos.agenda import Agenda, Item, Ticket
from loglets.paxos.confirmation import Confirmation, Pending
from loglets.paxos.digest import Digest
from loglets.paxos.ensemble import Ensemble
from loglets.paxos.messages import (
    NOBODY,
    NOTHING_DECIDED,
    NOWHERE,
    Decided,
    GetStanding,
    Learn,
    Promise,
    Promised,
    Standing,
    Verdict,
    Write,
    Written,
)
from loglets.paxos.places import offset_of
from loglets.paxos.rounds import Accepted, Ignored, Rejected, Roll, Round
from virtuallog.batch import Batch
from virtuallog.chain import SegmentId
from virtuallog.errors import (
    OverloadedError,
    ReconfigurationNeededError,
    SealedError,
    TailMismatchError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.ordering.refusals import Refusals
from virtuallog.ordering.sessions import Placement, Sessions
from virtuallog.types import NodeId

POSITIONS_MAX: Final = 1
"""In flight. Not to be tuned: docs/protocols/paxos.md, "Why not several positions in flight"."""
RESEND_MS: Final = 1000
"""Who has not answered a write for so long is sent it again; who has failed to, at the next tick."""
PATIENCE_MS: Final = 4000
"""A position that no quorum accepts for so long is given up, and with it the lead: clients wait for five seconds."""
TICKETS_MAX: Final = 4
"""Callers that wait for one batch: the latest few of those who offered it. Earlier ones have given up."""
PENDING_MAX: Final = 4096
"""Refusals and tails that wait for a decision, or appends for a SEAL. That takes milliseconds, or their callers give up."""
AHEAD_MAX: Final = 64
"""Positions behind the end that are filled because somebody has seen them. There is one at most; more are not believed."""


class State(enum.Enum):
    INITIAL = "initial"
    ELECTING = "electing"
    CATCHING_UP = "catching up"
    LEADING = "leading"
    CLOSED = "closed"


@attrs.frozen
class Send:
    """To each of these; then call `promised`, `written`, `confirmed`, or `unanswered`, with the round."""

    nodes: tuple[NodeId, ...]
    request: Promise | Write | GetStanding
    round: int


@attrs.frozen
class CatchUp:
    """Have the local replica learn everything below `stop`, filling with `proposal`; then call `caught_up`."""

    stop: int
    proposal: int


@attrs.frozen
class LearnHere:
    """A position is decided: tell the local replica, before anything that follows."""

    decided: Decided
    size: int
    """Bytes of its value."""


@attrs.frozen
class Announce:
    """Tell these what is decided, and who leads; no answer is wanted."""

    nodes: tuple[NodeId, ...]
    request: Learn


@attrs.frozen
class Resolve:
    """Tell whoever asked: the offset of a batch, the tail, or else the position."""

    ticket: Ticket
    outcome: int | VirtualLogError


Effect: TypeAlias = Send | CatchUp | LearnHere | Announce | Resolve


@attrs.define(eq=False)
class _Flight:
    """The position that is being written."""

    item: Item
    write: Write
    round: int
    votes: Round
    since_ms: int
    sent_ms: int
    failed: set[NodeId] = attrs.field(factory=set)


@attrs.define(eq=False)
class Coordinator:
    """Requests, answers, turns and ticks in, effects out. Times are those of a clock that does not jump, in milliseconds, unless they
    are called times of day."""

    segment: SegmentId
    node: NodeId
    ensemble: Ensemble
    state: State = attrs.field(default=State.INITIAL, init=False)
    stopped: VirtualLogError | None = attrs.field(default=None, init=False)
    """For good, and why."""
    proposal: int = attrs.field(default=0, init=False)
    """The highest number that was tried here, or was in the way."""
    committed: int = attrs.field(default=0, init=False)
    """While it leads: everything below this position is decided."""
    rival: NodeId = attrs.field(default=NOBODY, init=False)
    """Who was in the way last; nobody once this one leads."""
    seal: int = attrs.field(default=NOWHERE, init=False)
    """Position of the SEAL, if CLOSED."""
    sealing: bool = attrs.field(default=False, init=False)
    _end: int = attrs.field(default=0, init=False)
    """Highest position that the electing quorum knew of."""
    _first: int = attrs.field(default=0, init=False)
    """First position of this reign."""
    _round: int = attrs.field(default=0, init=False)
    _reign_round: int = attrs.field(default=0, init=False)
    """First round of this reign."""
    _roll: Roll = attrs.field(factory=Roll, init=False)
    _election: Round | None = attrs.field(default=None, init=False)
    _silent: set[NodeId] = attrs.field(factory=set, init=False)
    """Who has not answered in this election, nor will."""
    _agenda: Agenda = attrs.field(factory=lambda: Agenda(0), init=False)
    _flight: _Flight | None = attrs.field(default=None, init=False)
    _was_alone: bool = attrs.field(default=False, init=False)
    """The last position had one batch."""
    _time_ms: int = attrs.field(default=0, init=False)
    _told: int = attrs.field(default=0, init=False)
    """Replicas have been sent that everything of this reign below is decided."""
    _quiet: int = attrs.field(default=0, init=False)
    """`committed` at the last tick."""
    _sessions: Sessions | None = attrs.field(default=None, init=False)
    _refusals: Refusals = attrs.field(factory=Refusals, init=False)
    """Kept from reign to reign: a copy of a refused call may come at any time."""
    _unconfirmed: list[Pending] = attrs.field(factory=list, init=False)
    _confirmation: Confirmation | None = attrs.field(default=None, init=False)
    _confirmation_round: int = attrs.field(default=NOWHERE, init=False)
    _pending: list[Pending] = attrs.field(factory=list, init=False)
    """Confirmed; they wait for what was in flight."""
    _late: deque[tuple[Ticket, Batch | None]] = attrs.field(factory=deque, init=False)
    """What came behind a SEAL that is not decided."""

    # -- for who looks inside -------------------------------------------------------------------------------------

    @property
    def next(self) -> int:
        """The next position to give away."""
        return self._agenda.next

    @property
    def has_work(self) -> bool:
        """Whether `turn` would do something."""
        return self.state is State.LEADING and self._flight is None and bool(self._agenda)

    @property
    def may_hurry(self) -> bool:
        """Whether a batch need not wait until the end of the scheduler turn for others to share its position: nothing is on its
        way, and the last one was alone, too. Where many arrive together, a write for each would cost far more than a turn."""
        return self._was_alone and self.has_work

    @property
    def has_flight(self) -> bool:
        return self._flight is not None

    @property
    def needs_ticks(self) -> bool:
        """Whether `tick` may have something to do."""
        if self.state is not State.LEADING:
            return self._has_news
        return self._has_news or self._flight is not None or self._confirmation is not None

    @property
    def _has_news(self) -> bool:
        return self.state in (State.LEADING, State.CLOSED) and self._told < self.committed

    # -- election -------------------------------------------------------------------------------------------------

    def elect(self, promised: int) -> list[Effect]:
        """Stand, with a number above all that is known here; `promised` is the local replica's."""
        assert self.state is State.INITIAL
        assert self.stopped is None
        self.state = State.ELECTING
        self.proposal = max(self.proposal, promised) + 1
        self._election, self._silent = Round(self.ensemble.quorum, self._roll), set()
        promise = Promise(segment=self.segment, proposal=self.proposal, coordinator=self.node)
        return [Send(self.ensemble.members, promise, self._new_round())]

    def promised(self, node: NodeId, number: int, reply: Promised) -> list[Effect]:
        if self.state is not State.ELECTING or number != self._round:
            return []
        assert self._election is not None
        match self._election.count(node, reply):
            case Accepted(answers):
                self._end = max(answer.end for answer in answers)
                self.state = State.CATCHING_UP
                # One above: who has no record at a missing position has just promised our number there.
                return [CatchUp(self._end + 1, self.proposal + 1)]
            case Rejected() as rejection:
                return self._step_down(rejection)
            case Ignored():
                return self.resign("a quorum of the replicas does not vote")
            case None:
                return []

    def caught_up(self, digest: Digest, now_ms: int) -> list[Effect]:
        """The local replica has learned everything through the highest position of the electing quorum. `digest` covers it."""
        assert self.state is State.CATCHING_UP
        assert digest.stop > self._end
        self.state, self.rival = State.LEADING, NOBODY
        self.committed = self._first = self._told = self._quiet = self._end + 1
        self._agenda = Agenda(self.committed)
        self._reign_round = self._round
        self._sessions = _recall(digest, now_ms)
        # Nothing is decided yet, but replicas are told who leads: those who could not be elected send their clients here.
        return [self._announce()]

    def close(self, position: int) -> list[Effect]:
        """The local replica has learned a SEAL, and everything below."""
        if self.state is State.CLOSED:
            return []
        self.state, self.seal, self._sessions, self._told = State.CLOSED, position, None, self.committed
        return self._give_up(UnavailableError("unknown outcome: another coordinator has closed the log"))

    def resign(self, reason: str) -> list[Effect]:
        """Lead no longer, or stand no longer."""
        if self.state is State.CLOSED:
            return []
        self.state = State.INITIAL
        self._sessions = None
        return self._give_up(UnavailableError(f"unknown outcome: {reason}"))

    def stop(self, error: VirtualLogError) -> list[Effect]:
        """Take no more, for good. What is pending may be in the log or not."""
        self.stopped, self.state = error, State.INITIAL
        return self._give_up(error)

    # -- what clients want ----------------------------------------------------------------------------------------

    def offer(self, batch: Batch, ticket: Ticket, now_ms: int, *, opens: bool, expected_tail: int) -> list[Effect]:
        """A checked batch has arrived; it is resolved once it is decided. Only while it leads, or is closed."""
        if self.state is State.CLOSED:
            return [Resolve(ticket, self._turned_away(batch))]
        assert self._sessions is not None
        assert self.state is State.LEADING
        try:
            if self.sealing:
                return self._come_late(ticket, batch)
            placement = self._sessions.find(batch, opens=opens)
            if placement is not None:
                return self._offer_again(placement, batch, ticket)
            if expected_tail != NOWHERE:
                found = self._mismatch(batch, expected_tail, now_ms)
                if found is not None:
                    return self._refuse(TailMismatchError(expected_tail, found), ticket)
                self._agenda.close()
            self._agenda.add_batch(self._sessions.place(batch, self._agenda.place_of(batch), ticket, now_ms))
        except VirtualLogError as error:
            return [Resolve(ticket, error)]
        return []

    def append(self, payload: bytes, ticket: Ticket) -> list[Effect]:
        """Bytes of a user, without a session; resolved with the position."""
        return self._add(partial(values.append, payload), ticket, len(payload))

    def truncate(self, to: int, trim: int, digest: bytes, ticket: Ticket) -> list[Effect]:
        """Positions below `to`, which is decided, may be dropped, and readers see nothing below the offset `trim`; `digest` covers
        what is dropped, and nothing that is not decided. Resolved with the position."""
        return self._add(lambda time_ms: values.truncate(to, time_ms, trim, digest), ticket, len(digest))

    def seal_log(self, ticket: Ticket) -> list[Effect]:
        """Take no more, and write SEAL as the last position; resolved with it. Sealing twice writes it once."""
        if self.state is State.CLOSED:
            return [Resolve(ticket, self.seal)]
        assert self.state is State.LEADING
        if not self.sealing:
            self._agenda.add(values.seal, None, 0)
            self.sealing = True
        return self._hold(self._pending, Pending(ticket, self._agenda.next, self._agenda.next - 1))

    def settle(self, past: int, ticket: Ticket) -> list[Effect]:
        """Everything up to what a quorum knows of is to be decided, and `past`; resolved with the tail."""
        if self.state is State.CLOSED:
            return [Resolve(ticket, offset_of(self.seal))]
        assert self.state is State.LEADING
        effects = self._hold(self._unconfirmed, Pending(ticket, self._agenda.next, None, past))
        return [*effects, *self._confirm()]

    # -- writing --------------------------------------------------------------------------------------------------

    def turn(self, now_ms: int, time_ms: int) -> list[Effect]:
        """All that arrived in one scheduler turn has been offered: write it. `time_ms` is the time of day."""
        if not self.has_work:
            return []
        self._time_ms = max(self._time_ms, time_ms)
        item = self._agenda.pop()
        item.is_open = False
        assert item.position == self.committed, "positions are consecutive"
        assert self.seal == NOWHERE, "nothing is written behind a SEAL"
        write = Write(
            segment=self.segment,
            proposal=self.proposal,
            coordinator=self.node,
            first=item.position,
            values=(item.value(self._time_ms),),
            decided=self._decided(),
        )
        self._told = self.committed
        self._was_alone = len(item.placements) == 1
        votes = Round(self.ensemble.quorum, self._roll)
        self._flight = _Flight(item, write, self._new_round(), votes, now_ms, now_ms)
        return [Send(self.ensemble.members, write, self._flight.round)]

    def written(self, node: NodeId, number: int, reply: Written) -> list[Effect]:
        """A replica has answered a write."""
        flight = self._flight
        if flight is None or number != flight.round:
            return self._straggler(number, node, reply)
        outcome = flight.votes.count(node, reply)
        if any(record.learned and record.position == flight.item.position for record in reply.records):
            return self.resign(f"position {flight.item.position} holds another decision")
        match outcome:
            case Accepted():
                return self._commit(flight)
            case Rejected() as rejection:
                return self._step_down(rejection)
            case _:
                if not flight.votes.has_accepted(node):
                    flight.failed.add(node)
                return []

    def confirmed(self, node: NodeId, number: int, standing: Standing) -> list[Effect]:
        """A replica has said how it stands."""
        if self._confirmation is None or number != self._confirmation_round:
            return []
        match self._confirmation.count(node, standing):
            case True:
                return self._settle_confirmed(self._confirmation)
            case False:
                return self._step_down(Rejected(standing.promised, standing.coordinator))
            case None:
                return []

    def unanswered(self, node: NodeId, number: int) -> list[Effect]:
        """No answer, or an error instead."""
        if self.state is State.ELECTING and number == self._round:
            self._silent.add(node)
            if len(self.ensemble.members) - len(self._silent) < self.ensemble.quorum:
                return self.resign("not enough replicas answer")
        elif self._flight is not None and number == self._flight.round:
            self._flight.failed.add(node)
        return []

    def tick(self, now_ms: int) -> list[Effect]:
        """Some milliseconds have passed."""
        effects: list[Effect] = []
        if self._flight is not None:
            effects += self._send_again(self._flight, now_ms)
        if self._confirmation is not None:
            effects += self._ask_again(self._confirmation, now_ms)
        if self._has_news and self._flight is None and self._quiet == self.committed:
            effects.append(self._announce())
        self._quiet = self.committed
        return effects

    # -- details --------------------------------------------------------------------------------------------------

    def _new_round(self) -> int:
        self._round += 1
        return self._round

    def _decided(self) -> Decided:
        """What this reign has decided: all with one number, as nobody else's was accepted by a quorum meanwhile."""
        if self.committed == self._first:
            return NOTHING_DECIDED
        return Decided(proposal=self.proposal, first=self._first, stop=self.committed)

    def _announce(self) -> Announce:
        self._told = self.committed
        learn = Learn(segment=self.segment, decided=self._decided(), coordinator=self.node)
        return Announce(self.ensemble.members, learn)

    def _commit(self, flight: _Flight) -> list[Effect]:
        """A quorum has it. The local replica is told first: who is told next may read there."""
        assert flight.item.position == self.committed, "decided in the order of positions"
        self._flight = None
        self.committed += 1
        effects: list[Effect] = [LearnHere(self._decided(), len(flight.write.values[0]))]
        if self.sealing and not self._agenda:
            self.state, self.seal = State.CLOSED, flight.item.position
            effects.append(self._announce())
        effects += [Resolve(ticket, outcome) for ticket, outcome in flight.item.commit()]
        if self._pending or self._late:
            effects += self._release()
        return effects

    def _release(self) -> list[Effect]:
        """Answer those who have waited for what is decided now."""
        ready = [each for each in self._pending if each.barrier <= self.committed]
        self._pending = [each for each in self._pending if each.barrier > self.committed]
        effects: list[Effect] = []
        if self._has_news and any(each.outcome is None for each in ready):
            effects.append(self._announce())  # whoever asks for a tail asks the replicas next
        effects += [Resolve(each.ticket, self._outcome(each)) for each in ready]
        if self.state is State.CLOSED:
            effects += [Resolve(ticket, self._turned_away(batch)) for ticket, batch in self._late]
            self._late.clear()
            effects += self._give_up(UnavailableError("the log was closed meanwhile"))
        return effects

    def _outcome(self, pending: Pending) -> int | VirtualLogError:
        if pending.outcome is not None:
            return pending.outcome
        return offset_of(self.seal if self.state is State.CLOSED else pending.barrier)

    def _send_again(self, flight: _Flight, now_ms: int) -> list[Effect]:
        """Replicas that have not accepted it get the same write. One that misses it in the end catches up by itself."""
        if now_ms - flight.since_ms >= PATIENCE_MS:
            return self.resign(f"no quorum accepts position {flight.item.position}")
        is_due = now_ms - flight.sent_ms >= RESEND_MS
        nodes = tuple(
            node
            for node in self.ensemble.members
            if not flight.votes.has_accepted(node) and (is_due or node in flight.failed)
        )
        flight.failed.clear()
        flight.sent_ms = now_ms if is_due else flight.sent_ms
        return [Send(nodes, flight.write, flight.round)] if nodes else []

    # -- tails and refusals ---------------------------------------------------------------------------------------

    def _mismatch(self, batch: Batch, expected_tail: int, now_ms: int) -> int | None:
        """The tail that a conditional append meets instead of the one that it expects. Once refused it stays so: a
        second copy of the call may arrive when the tail is what it expects, and its caller has long gone on."""
        tail = self._agenda.tail
        found = self._refusals.find(batch, expected_tail)
        if found is None and expected_tail != tail:
            found = tail
            self._refusals.add(batch, expected_tail, found, now_ms)
        return found

    def _refuse(self, mismatch: TailMismatchError, ticket: Ticket) -> list[Effect]:
        """Told once all that made it fail is decided. Who expects a later tail may know more than a coordinator that was outbid."""
        pending = Pending(ticket, self._agenda.next, mismatch)
        if mismatch.expected > mismatch.found:
            return [*self._hold(self._unconfirmed, pending), *self._confirm()]
        if pending.barrier <= self.committed:
            return [Resolve(ticket, mismatch)]
        return self._hold(self._pending, pending)

    def _hold(self, where: list[Pending], pending: Pending) -> list[Effect]:
        if len(where) >= PENDING_MAX:
            return [Resolve(pending.ticket, OverloadedError(f"{PENDING_MAX} wait for what is being decided"))]
        where.append(pending)
        return []

    def _confirm(self) -> list[Effect]:
        """Ask on behalf of all who have come since the last question was sent: an earlier answer says nothing to them."""
        if self._confirmation is not None or not self._unconfirmed:
            return []
        pending, self._unconfirmed = self._unconfirmed, []
        self._confirmation = Confirmation(self.proposal, self.ensemble.quorum, self._roll, pending)
        self._confirmation_round = self._new_round()
        return [Send(self.ensemble.members, GetStanding(segment=self.segment), self._confirmation_round)]

    def _settle_confirmed(self, confirmation: Confirmation) -> list[Effect]:
        """It leads. What somebody has seen behind its end comes from earlier coordinators, and is written over."""
        self._confirmation = None
        seen = max([confirmation.end, *(each.past for each in confirmation.pending)])
        while self._agenda.next <= min(seen, self.committed + AHEAD_MAX) and not self.sealing:
            self._agenda.add(values.nop, None, 0)
        for each in confirmation.pending:
            barrier = self._agenda.next if each.outcome is None else each.barrier
            self._pending.append(attrs.evolve(each, barrier=barrier))
        return [*self._release(), *self._confirm()]

    def _ask_again(self, confirmation: Confirmation, now_ms: int) -> list[Effect]:
        if confirmation.is_stale(now_ms, PATIENCE_MS):
            return self.resign("no quorum confirms that it leads")
        nodes = tuple(node for node in self.ensemble.members if not confirmation.has_confirmed(node))
        return [Send(nodes, GetStanding(segment=self.segment), self._confirmation_round)]

    # -- batches that were offered before, or come too late -------------------------------------------------------

    def _offer_again(self, placement: Placement, batch: Batch, ticket: Ticket) -> list[Effect]:
        """The place a batch has is its place for ever; if it is not decided yet, its caller waits with the others."""
        if placement.committed:
            return [Resolve(ticket, placement.first)]
        if placement.batch != batch:
            raise ReconfigurationNeededError("two different batches of a session have the same sequence number")
        placement.tickets += (ticket,)
        if len(placement.tickets) <= TICKETS_MAX:
            return []
        earliest, *others = placement.tickets
        placement.tickets = tuple(others)
        return [Resolve(earliest, UnavailableError("the same batch was offered again and again"))]

    def _come_late(self, ticket: Ticket, batch: Batch | None) -> list[Effect]:
        """Whether the log is closed is not decided yet: nobody may be told before."""
        if len(self._late) >= PENDING_MAX:
            return [Resolve(ticket, OverloadedError("the log is being closed"))]
        self._late.append((ticket, batch))
        return []

    def _turned_away(self, batch: Batch | None) -> VirtualLogError:
        """The error for what comes after the end. It says that nothing is in the log only if that is so: this
        may be the second copy of an offer, and its answer may arrive before the first one's."""
        if batch is None or self._sessions is None:
            return SealedError()
        return SealedError(refused=not self._sessions.may_have_placed(batch))

    def _add(self, make: Callable[[int], bytes], ticket: Ticket, size: int) -> list[Effect]:
        if self.state is State.CLOSED:
            return [Resolve(ticket, SealedError())]
        assert self.state is State.LEADING
        if self.sealing:
            return self._come_late(ticket, None)
        try:
            self._agenda.check_room(size)
        except OverloadedError as error:
            return [Resolve(ticket, error)]
        self._agenda.add(make, ticket, size)
        return []

    # -- the end of a reign ---------------------------------------------------------------------------------------

    def _straggler(self, number: int, node: NodeId, reply: Written) -> list[Effect]:
        """To a write that is decided, or of an earlier reign. A refusal says that somebody else has been elected."""
        self._roll.hear(node, reply.incarnation, reply.incarnations)
        is_ours = self.state is State.LEADING and number >= self._reign_round
        if is_ours and reply.verdict is Verdict.REJECT and reply.proposal > self.proposal:
            return self._step_down(Rejected(reply.proposal, reply.coordinator))
        return []

    def _step_down(self, rejection: Rejected) -> list[Effect]:
        self.proposal = max(self.proposal, rejection.proposal)
        self.rival = rejection.coordinator if rejection.coordinator != self.node else NOBODY
        return self.resign(f"proposal {rejection.proposal} is in the way")

    def _give_up(self, error: VirtualLogError) -> list[Effect]:
        """Whatever is pending is told `error`, oldest first."""
        items = [*([] if self._flight is None else [self._flight.item]), *self._agenda]
        waiting = [
            *self._pending,
            *([] if self._confirmation is None else self._confirmation.pending),
            *self._unconfirmed,
        ]
        tickets = [ticket for item in items for ticket in item.give_up()]
        tickets += [each.ticket for each in waiting]
        tickets += [ticket for ticket, _ in self._late]
        self._flight, self._confirmation, self._election = None, None, None
        self._agenda = Agenda(self._agenda.next)
        self._pending, self._unconfirmed, self.sealing = [], [], False
        self._late.clear()
        return [Resolve(ticket, error) for ticket in tickets]


def _recall(digest: Digest, now_ms: int) -> Sessions:
    sessions = Sessions(has_forgotten=digest.has_forgotten)
    for each in digest.sessions():
        places = [(batch.first_sequence, batch.place) for batch in each.last]
        sessions.recall(each.session, each.next_sequence, places, now_ms)
    return sessions
