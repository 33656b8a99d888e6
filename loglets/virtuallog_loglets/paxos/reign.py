"""A coordinator while it leads: what clients want is put in an order, and they are told once it is decided.          Pure.

Rules (docs/protocols/paxos.md, "Coordinator", says why):
* What waits while a position is in flight (`writing.py`) shares the next one.
* When the reign is over, what is in flight and what waits is *maybe*.
* What may be wrong if it was over long ago is told once a quorum has denied that (`audience.py`).
* Behind a SEAL nothing is written.
* Clients are told in the order of positions, and the local replica before them.

Batches, sessions, SEAL and the confirmation of an idle lead are not in Mesos.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

import attrs

from virtuallog.batch import Batch
from virtuallog.errors import OverloadedError, SealedError, TailMismatchError, UnavailableError, VirtualLogError
from virtuallog.types import NodeId
from virtuallog_loglets.paxos import values
from virtuallog_loglets.paxos.agenda import Agenda, Ticket
from virtuallog_loglets.paxos.audience import PENDING_MAX, Audience, Confirmation, Offer, Pending
from virtuallog_loglets.paxos.coordinator_effects import Effect, Resolve, Send
from virtuallog_loglets.paxos.messages import NOWHERE, GetStanding, Standing, Written
from virtuallog_loglets.paxos.places import offset_of
from virtuallog_loglets.paxos.repeats import Repeats
from virtuallog_loglets.paxos.rounds import Rejected
from virtuallog_loglets.paxos.writing import PATIENCE_MS, RETRY_MS, Flight, Writing

AHEAD_MAX: Final = 64
"""Positions behind the end that are filled because somebody has seen them. There is one at most; more are not believed."""


@attrs.define(eq=False)
class Reign:
    """Requests, answers, turns and ticks in, effects out. Times are those of a clock that does not jump, in milliseconds, unless
    they are called times of day."""

    writing: Writing
    _repeats: Repeats
    seal: int = attrs.field(default=NOWHERE, init=False)
    """Position of the SEAL, once it is decided."""
    _sealing: bool = attrs.field(default=False, init=False)
    _agenda: Agenda = attrs.field(init=False)
    _audience: Audience = attrs.field(factory=Audience, init=False)
    _question: int = attrs.field(default=NOWHERE, init=False)
    """Round of the audience's confirmation."""
    _late: deque[tuple[Ticket, Batch | None]] = attrs.field(factory=deque, init=False)
    """What came behind a SEAL that is not decided."""

    def __attrs_post_init__(self) -> None:
        self._agenda = Agenda(self.writing.first)

    # -- for who looks inside -------------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Whether `turn` would do something."""
        return self.writing.flight is None and bool(self._agenda)

    @property
    def may_hurry(self) -> bool:
        """Whether a batch need not wait until the end of the scheduler turn for others to share its position: nothing is on its
        way, and the last one was alone, too. Where many arrive together, a write for each would cost far more than a turn."""
        return self.writing.was_alone and self.has_work

    @property
    def has_flight(self) -> bool:
        return self.writing.flight is not None

    @property
    def needs_ticks(self) -> bool:
        """Whether `tick` may have something to do."""
        return self.writing.needs_ticks or self._audience.confirmation is not None

    # -- what clients want ----------------------------------------------------------------------------------------

    def offer(self, batch: Batch, ticket: Ticket, now_ms: int, *, opens: bool, expected_tail: int) -> list[Effect]:
        """A checked batch has arrived; it is resolved once it is decided."""
        return self._judge(Offer(batch, ticket, now_ms, opens, expected_tail), is_confirmed=False)

    def append(self, payload: bytes, ticket: Ticket) -> list[Effect]:
        """Bytes of a user, without a session; resolved with the position. They weigh nothing here: the caller has them in memory
        anyway, and is bounded by how many it may have under way."""
        return self._add(partial(values.append, payload), ticket, 0)

    def truncate(self, to: int, trim: int, digest: bytes, ticket: Ticket) -> list[Effect]:
        """Positions below `to`, which is decided, may be dropped, and readers see nothing below the offset `trim`; `digest` covers
        what is dropped, and nothing that is not decided. Resolved with the position. If more is decided than this reign knows of, it
        has been outbid, and nothing is done."""
        if to > self.writing.committed:  # the local replica has learned it from somebody else
            self.writing.lost = "others have decided what comes next"
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
        assert self.seal == NOWHERE, "nothing is written behind a SEAL"
        return self.writing.start(self._agenda.pop(), now_ms, time_ms)

    def written(self, node: NodeId, number: int, reply: Written) -> list[Effect]:
        """A replica has answered a write."""
        flight = self.writing.written(node, number, reply)
        return [] if flight is None else self._commit(flight)

    def confirmed(self, node: NodeId, number: int, standing: Standing) -> list[Effect]:
        """A replica has said how it stands."""
        confirmation = self._audience.confirmation
        if confirmation is None or number != self._question:
            return []
        match confirmation.count(node, standing):
            case True:
                return self._settle(confirmation)
            case False:
                self.writing.lost = Rejected(standing.promised, standing.coordinator)
        return []

    def tick(self, now_ms: int) -> list[Effect]:
        """Some milliseconds have passed."""
        effects = self.writing.tick(now_ms)
        if (confirmation := self._audience.confirmation) is not None:
            effects += self._ask_again(confirmation, now_ms)
        return effects

    def give_up(self, error: VirtualLogError) -> list[Effect]:
        """It is over: whatever is pending is told `error`, oldest first."""
        items = [*([] if self.writing.flight is None else [self.writing.flight.item]), *self._agenda]
        tickets = [ticket for item in items for ticket in item.give_up()]
        tickets += self._audience.give_up()
        tickets += [ticket for ticket, _ in self._late]
        self.writing.flight, self._agenda = None, Agenda(self._agenda.next)
        self._late.clear()
        return [Resolve(ticket, error) for ticket in tickets]

    # -- details --------------------------------------------------------------------------------------------------

    def _commit(self, flight: Flight) -> list[Effect]:
        effects = self.writing.commit(flight)
        if self._sealing and not self._agenda:
            self.seal = flight.item.position
            effects.append(self.writing.announce())
        effects += [Resolve(ticket, outcome) for ticket, outcome in flight.item.commit()]
        return effects + self._release()

    def _release(self) -> list[Effect]:
        """Answer those who have waited for what is decided now."""
        effects: list[Effect] = []
        if not self._audience.is_empty:
            ready = self._audience.released(self.writing.committed)
            if self.writing.has_news and any(each.outcome is None for each in ready):
                effects.append(self.writing.announce())  # whoever asks for a tail asks the replicas next
            effects += [Resolve(each.ticket, self._outcome(each)) for each in ready]
        if self.seal != NOWHERE:
            effects += [Resolve(ticket, self._repeats.turned_away(batch)) for ticket, batch in self._late]
            self._late.clear()
            effects += self.give_up(UnavailableError("unknown outcome: the log was closed meanwhile"))
        return effects

    def _outcome(self, pending: Pending) -> int | VirtualLogError:
        if pending.outcome is not None:
            return pending.outcome
        return offset_of(pending.barrier if self.seal == NOWHERE else self.seal)

    # -- tails and refusals ---------------------------------------------------------------------------------------

    def _judge(self, offer: Offer, *, is_confirmed: bool) -> list[Effect]:
        """Have the batch written, or refuse it.

        Args:
            offer: has just arrived, or was held.
            is_confirmed: that a quorum has confirmed the lead since it arrived, and all that was decided by then is here.
        """
        batch, ticket = offer.batch, offer.ticket
        if self.seal != NOWHERE:
            return [Resolve(ticket, self._repeats.turned_away(batch))]
        try:
            if self._sealing:
                return self._come_late(ticket, batch)
            if (known := self._repeats.known(batch, ticket, opens=offer.opens)) is not None:
                return known
            if offer.expected_tail != NOWHERE:
                self._repeats.check_tail(batch, offer.expected_tail, self._agenda.tail)
                self._agenda.close()
            place = self._agenda.place_of(batch)
            self._agenda.add_batch(self._repeats.sessions.place(batch, place, ticket, offer.now_ms))
        except OverloadedError as error:
            return [Resolve(ticket, error)]
        except VirtualLogError as error:
            return self._refuse(error, offer) if is_confirmed else self._hold(offer)
        return []

    def _hold(self, offer: Offer) -> list[Effect]:
        """It looks wrong from here, and would be right if others have decided what this coordinator does not know of."""
        pending = Pending(offer.ticket, self._agenda.next, None, offer=offer)
        return [*self._guarded(offer.ticket, lambda: self._audience.doubt(pending)), *self._ask()]

    def _refuse(self, error: VirtualLogError, offer: Offer) -> list[Effect]:
        """For good: told once all that made it fail is decided."""
        pending = Pending(offer.ticket, self._agenda.next, error)

        def wait() -> None:
            if isinstance(error, TailMismatchError):
                self._repeats.remember(offer.batch, error, offer.now_ms)
            self._audience.wait(pending)

        return self._guarded(offer.ticket, wait)

    def _ask(self) -> list[Effect]:
        if not self._audience.needs_question:
            return []
        self._audience.ask(self.writing.proposal, self.writing.ensemble.quorum, self.writing.roll)
        self._question = next(self.writing.rounds)
        return [Send(self.writing.ensemble.members, GetStanding(segment=self.writing.segment), self._question)]

    def _ask_again(self, confirmation: Confirmation, now_ms: int) -> list[Effect]:
        if confirmation.is_stale(now_ms, PATIENCE_MS):
            self.writing.lost = "no quorum confirms that it leads"
            return []
        if not confirmation.is_due(now_ms, RETRY_MS):
            return []
        nodes = tuple(node for node in self.writing.ensemble.members if not confirmation.has_answered(node))
        return [Send(nodes, GetStanding(segment=self.writing.segment), self._question)]

    def _settle(self, confirmation: Confirmation) -> list[Effect]:
        """It leads. What somebody has seen behind its end comes from earlier coordinators, and is written over. A client is believed
        one position, which a replica that was not asked may have: if it claims more, it costs three synced writes, not many."""
        committed, past = self.writing.committed, max(each.past for each in confirmation.pending)
        seen = max(min(confirmation.end, committed + AHEAD_MAX), min(past, committed))
        while self._agenda.next <= seen and not self._sealing:
            self._agenda.add(values.nop, None, 0)
        held = self._audience.confirmed(self._agenda.next)
        judged = [effect for offer in held for effect in self._judge(offer, is_confirmed=True)]
        return [*judged, *self._release(), *self._ask()]

    # -- behind a SEAL --------------------------------------------------------------------------------------------

    def _come_late(self, ticket: Ticket, batch: Batch | None) -> list[Effect]:
        """Whether the log is closed is not decided yet: nobody may be told before."""
        if len(self._late) >= PENDING_MAX:
            return [Resolve(ticket, OverloadedError("the log is being closed"))]
        self._late.append((ticket, batch))
        return []

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
