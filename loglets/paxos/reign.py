"""A coordinator while it leads: one position in flight, written until a quorum has accepted it.                     Pure.

Rules (docs/protocols/paxos.md, "Coordinator", says why):
* One position is in flight, and positions are consecutive. What waits shares the next one.
* A value is made once for a position: it is sent again as it is, to who has not accepted it.
* Any refusal, and any position that somebody else has decided, ends the reign (`lost`): what is in flight and what waits is *maybe*.
* Who does not vote now is no reason to stop: the same write is sent again (defect 4 of docs/sources.md).
* Behind a SEAL nothing is written.
* Clients are told in the order of positions, and the local replica before them.

Source: Mesos, src/log/coordinator.cpp. Batches, sessions, SEAL and the confirmation of an idle lead are ours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import attrs

from loglets.paxos import values
from loglets.paxos.agenda import Agenda, Item, Ticket
from loglets.paxos.audience import PENDING_MAX, Audience, Confirmation, Pending
from loglets.paxos.coordinator_effects import Announce, Effect, LearnHere, Resolve, Send
from loglets.paxos.ensemble import Ensemble
from loglets.paxos.messages import (
    NOWHERE,
    Decided,
    GetStanding,
    Learn,
    Standing,
    Verdict,
    Write,
    Written,
)
from loglets.paxos.places import offset_of
from loglets.paxos.rounds import Accepted, Rejected, Roll, Round
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

RESEND_MS: Final = 1000
"""Who has not answered a write for so long is sent it again."""
RETRY_MS: Final = 50
"""The same for who has failed to, or does not vote now: a replica that restarts is found soon, and not flooded."""
PATIENCE_MS: Final = 4000
"""A position that no quorum accepts for so long is given up, and with it the lead: clients wait for five seconds."""
TICKETS_MAX: Final = 4
"""Callers that wait for one batch: the latest few of those who offered it. Earlier ones have given up."""
AHEAD_MAX: Final = 64
"""Positions behind the end that are filled because somebody has seen them. There is one at most; more are not believed."""


@attrs.define(eq=False)
class _Flight:
    """The position that is being written."""

    item: Item
    write: Write
    round: int
    votes: Round
    since_ms: int
    sent_ms: int
    retried_ms: int
    failed: set[NodeId] = attrs.field(factory=set)


@attrs.define(eq=False)
class Reign:
    """Requests, answers, turns and ticks in, effects out. Times are those of a clock that does not jump, in milliseconds, unless
    they are called times of day."""

    segment: SegmentId
    node: NodeId
    ensemble: Ensemble
    proposal: int
    first: int
    """Its first position. Everything before is decided, and known to the local replica."""
    _sessions: Sessions
    _refusals: Refusals
    _roll: Roll
    _rounds: Iterator[int]
    committed: int = attrs.field(init=False)
    """Everything below this position is decided."""
    lost: Rejected | str | None = attrs.field(default=None, init=False)
    """Why it is over."""
    seal: int = attrs.field(default=NOWHERE, init=False)
    """Position of the SEAL, once it is decided."""
    _sealing: bool = attrs.field(default=False, init=False)
    _began: int = attrs.field(init=False)
    """All rounds of this reign are later."""
    _agenda: Agenda = attrs.field(init=False)
    _flight: _Flight | None = attrs.field(default=None, init=False)
    _was_alone: bool = attrs.field(default=False, init=False)
    """The last position had one batch."""
    _time_ms: int = attrs.field(default=0, init=False)
    """Of day; values of one coordinator never go back in time."""
    _told: int = attrs.field(init=False)
    """Replicas have been sent that everything of this reign below is decided."""
    _quiet: int = attrs.field(init=False)
    """`committed` at the last tick."""
    _audience: Audience = attrs.field(factory=Audience, init=False)
    _question: int = attrs.field(default=NOWHERE, init=False)
    """Round of the audience's confirmation."""
    _late: deque[tuple[Ticket, Batch | None]] = attrs.field(factory=deque, init=False)
    """What came behind a SEAL that is not decided."""

    def __attrs_post_init__(self) -> None:
        self.committed = self._told = self._quiet = self.first
        self._agenda = Agenda(self.first)
        self._began = next(self._rounds)

    # -- for who looks inside -------------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Whether `turn` would do something."""
        return self._flight is None and bool(self._agenda)

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
        return self._flight is not None or self._audience.confirmation is not None or self._told < self.committed

    # -- what clients want ----------------------------------------------------------------------------------------

    def offer(self, batch: Batch, ticket: Ticket, now_ms: int, *, opens: bool, expected_tail: int) -> list[Effect]:
        """A checked batch has arrived; it is resolved once it is decided."""
        if self.seal != NOWHERE:
            return [Resolve(ticket, self._turned_away(batch))]
        try:
            if self._sealing:
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
        what is dropped, and nothing that is not decided. Resolved with the position. If more is decided than this reign knows of, it
        has been outbid, and nothing is done."""
        if to > self.committed:  # the local replica has learned it from somebody else
            self.lost = "others have decided what comes next"
            return [Resolve(ticket, UnavailableError("this coordinator leads no longer"))]
        return self._add(lambda time_ms: values.truncate(to, time_ms, trim, digest), ticket, len(digest))

    def seal_log(self, ticket: Ticket) -> list[Effect]:
        """Take no more, and write SEAL as the last position; resolved with it. Sealing twice writes it once."""
        if self.seal != NOWHERE:
            return [Resolve(ticket, self.seal)]
        if not self._sealing:
            self._agenda.add(values.seal, None, 0)
            self._sealing = True
        return self._guarded(
            ticket, lambda: self._audience.wait(Pending(ticket, self._agenda.next, self._agenda.next - 1))
        )

    def settle(self, past: int, ticket: Ticket) -> list[Effect]:
        """Everything up to what a quorum knows of is to be decided, and `past`; resolved with the tail."""
        if self.seal != NOWHERE:
            return [Resolve(ticket, offset_of(self.seal))]
        pending = Pending(ticket, self._agenda.next, None, past)
        return [*self._guarded(ticket, lambda: self._audience.doubt(pending)), *self._ask()]

    # -- writing --------------------------------------------------------------------------------------------------

    def turn(self, now_ms: int, time_ms: int) -> list[Effect]:
        """All that arrived in one scheduler turn has been offered: write it. `time_ms` is the time of day."""
        if not self.has_work:
            return []
        self._time_ms = max(self._time_ms, time_ms)
        item = self._agenda.pop()
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
        self._flight = _Flight(item, write, next(self._rounds), votes, now_ms, now_ms, now_ms)
        return [Send(self.ensemble.members, write, self._flight.round)]

    def written(self, node: NodeId, number: int, reply: Written) -> list[Effect]:
        """A replica has answered a write."""
        flight = self._flight
        if flight is None or number != flight.round:
            self._hear_straggler(node, number, reply)
            return []
        outcome = flight.votes.count(node, reply)
        if any(record.learned and record.position == flight.item.position for record in reply.records):
            # Also if it is our value: then it was decided with another number, and `_decided` could not say so of ours.
            self.lost = f"position {flight.item.position} was decided by somebody else"
        elif isinstance(outcome, Rejected):
            self.lost = outcome
        elif isinstance(outcome, Accepted):
            return self._commit(flight)
        elif not flight.votes.has_accepted(node):
            flight.failed.add(node)
        return []

    def confirmed(self, node: NodeId, number: int, standing: Standing) -> list[Effect]:
        """A replica has said how it stands."""
        confirmation = self._audience.confirmation
        if confirmation is None or number != self._question:
            return []
        match confirmation.count(node, standing):
            case True:
                return self._settle(confirmation)
            case False:
                self.lost = Rejected(standing.promised, standing.coordinator)
        return []

    def unanswered(self, node: NodeId, number: int) -> None:
        """No answer, or an error instead."""
        if self._flight is not None and number == self._flight.round:
            self._flight.failed.add(node)

    def tick(self, now_ms: int) -> list[Effect]:
        """Some milliseconds have passed."""
        effects: list[Effect] = []
        if self._flight is not None:
            effects += self._send_again(self._flight, now_ms)
        elif self._told < self.committed == self._quiet:
            effects.append(self.announce())
        if (confirmation := self._audience.confirmation) is not None:
            effects += self._ask_again(confirmation, now_ms)
        self._quiet = self.committed
        return effects

    def announce(self) -> Announce:
        """Replicas learn who leads, and what is decided, without waiting for the next write."""
        self._told = self.committed
        learn = Learn(segment=self.segment, decided=self._decided(), coordinator=self.node)
        return Announce(self.ensemble.members, learn)

    def give_up(self, error: VirtualLogError) -> list[Effect]:
        """It is over: whatever is pending is told `error`, oldest first."""
        items = [*([] if self._flight is None else [self._flight.item]), *self._agenda]
        tickets = [ticket for item in items for ticket in item.give_up()]
        tickets += self._audience.give_up()
        tickets += [ticket for ticket, _ in self._late]
        self._flight, self._agenda = None, Agenda(self._agenda.next)
        self._late.clear()
        return [Resolve(ticket, error) for ticket in tickets]

    # -- details --------------------------------------------------------------------------------------------------

    def _decided(self) -> Decided:
        """What this reign has decided: all with its number, as nobody else's was accepted by a quorum meanwhile. Nothing, at first;
        then the number alone says whose turn it is."""
        return Decided(proposal=self.proposal, first=self.first, stop=self.committed)

    def _commit(self, flight: _Flight) -> list[Effect]:
        """A quorum has it. The local replica is told first: who is told next may read there."""
        assert flight.item.position == self.committed, "decided in the order of positions"
        self._flight = None
        self.committed += 1
        effects: list[Effect] = [LearnHere(self._decided(), len(flight.write.values[0]))]
        if self._sealing and not self._agenda:
            self.seal = flight.item.position
            effects.append(self.announce())
        effects += [Resolve(ticket, outcome) for ticket, outcome in flight.item.commit()]
        return effects + self._release()

    def _release(self) -> list[Effect]:
        """Answer those who have waited for what is decided now."""
        effects: list[Effect] = []
        if not self._audience.is_empty:
            ready = self._audience.released(self.committed)
            if self._told < self.committed and any(each.outcome is None for each in ready):
                effects.append(self.announce())  # whoever asks for a tail asks the replicas next
            effects += [Resolve(each.ticket, self._outcome(each)) for each in ready]
        if self.seal != NOWHERE:
            effects += [Resolve(ticket, self._turned_away(batch)) for ticket, batch in self._late]
            self._late.clear()
            effects += self.give_up(UnavailableError("unknown outcome: the log was closed meanwhile"))
        return effects

    def _outcome(self, pending: Pending) -> int | VirtualLogError:
        if pending.outcome is not None:
            return pending.outcome
        return offset_of(pending.barrier if self.seal == NOWHERE else self.seal)

    def _send_again(self, flight: _Flight, now_ms: int) -> list[Effect]:
        """Replicas that have not accepted it get the same write. One that misses it in the end catches up by itself."""
        if now_ms - flight.since_ms >= PATIENCE_MS:
            self.lost = f"no quorum accepts position {flight.item.position}"
            return []
        is_due, may_retry = now_ms - flight.sent_ms >= RESEND_MS, now_ms - flight.retried_ms >= RETRY_MS
        if not is_due and not (may_retry and flight.failed):
            return []
        nodes = tuple(
            node
            for node in self.ensemble.members
            if not flight.votes.has_accepted(node) and (is_due or node in flight.failed)
        )
        flight.failed.clear()
        flight.sent_ms, flight.retried_ms = now_ms if is_due else flight.sent_ms, now_ms
        return [Send(nodes, flight.write, flight.round)] if nodes else []

    def _hear_straggler(self, node: NodeId, number: int, reply: Written) -> None:
        """To a write that is decided, or of an earlier reign. A refusal says that somebody else has been elected."""
        self._roll.hear(node, reply.incarnation, reply.incarnations)
        if number > self._began and reply.verdict is Verdict.REJECT and reply.proposal > self.proposal:
            self.lost = Rejected(reply.proposal, reply.coordinator)

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
            self._audience.doubt(pending)
            return self._ask()
        if pending.barrier <= self.committed:
            return [Resolve(ticket, mismatch)]
        self._audience.wait(pending)
        return []

    def _ask(self) -> list[Effect]:
        if not self._audience.needs_question:
            return []
        self._audience.ask(self.proposal, self.ensemble.quorum, self._roll)
        self._question = next(self._rounds)
        return [Send(self.ensemble.members, GetStanding(segment=self.segment), self._question)]

    def _ask_again(self, confirmation: Confirmation, now_ms: int) -> list[Effect]:
        if confirmation.is_stale(now_ms, PATIENCE_MS):
            self.lost = "no quorum confirms that it leads"
            return []
        if not confirmation.is_due(now_ms, RETRY_MS):
            return []
        nodes = tuple(node for node in self.ensemble.members if not confirmation.has_answered(node))
        return [Send(nodes, GetStanding(segment=self.segment), self._question)]

    def _settle(self, confirmation: Confirmation) -> list[Effect]:
        """It leads. What somebody has seen behind its end comes from earlier coordinators, and is written over."""
        seen = max([confirmation.end, *(each.past for each in confirmation.pending)])
        while self._agenda.next <= min(seen, self.committed + AHEAD_MAX) and not self._sealing:
            self._agenda.add(values.nop, None, 0)
        self._audience.confirmed(self._agenda.next)
        return [*self._release(), *self._ask()]

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
        return SealedError(refused=batch is not None and not self._sessions.may_have_placed(batch))

    def _add(self, make: Callable[[int], bytes], ticket: Ticket, size: int) -> list[Effect]:
        if self.seal != NOWHERE:
            return [Resolve(ticket, SealedError())]
        if self._sealing:
            return self._come_late(ticket, None)
        return self._guarded(ticket, lambda: self._agenda.add(make, ticket, size))

    def _guarded(self, ticket: Ticket, step: Callable[[], None]) -> list[Effect]:
        try:
            step()
        except OverloadedError as error:
            return [Resolve(ticket, error)]
        return []
