"""A coordinator while it leads: what clients want is put in an order, and they are told once it is decided.          Pure.

Rules (docs/internals/protocols/paxos.md, "Coordinator", says why):
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

from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import (
    OverloadedError,
    ReconfigurationNeededError,
    SealedError,
    TailMismatchError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.types import NodeId
from virtuallog.ordering.rejected_conditions import RejectedConditions
from virtuallog.ordering.session_table import OrderedBatch, SessionTable
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.effects import CoordinatorEffect, PaxosResolve, PaxosSend
from virtuallog_loglets.paxos.core.proposal_queue import ClientTicket, ProposalQueue
from virtuallog_loglets.paxos.core.read_index import (
    PENDING_MAX,
    LeadershipCheck,
    OfferedBatch,
    PendingRead,
    PendingReads,
)
from virtuallog_loglets.paxos.core.replication import PATIENCE_MS, RETRY_MS, InFlightWrite, Replicator
from virtuallog_loglets.paxos.core.rounds import Rejected
from virtuallog_loglets.paxos.messages import NOWHERE, GetStanding, PaxosWritten, Standing
from virtuallog_loglets.paxos.offsets import offset_of

# FOLDED from virtuallog_loglets.paxos.repeats: What a batch that was offered before is told: the same as then.                                                  Pure.
#
# The network repeats requests, and clients send them again, to whoever leads. So the place of a batch is its place for ever, and
# once refused it stays so.

TICKETS_MAX: Final = 4
"""Callers that wait for one batch: the latest few of those who offered it. Earlier ones have given up."""


@attrs.define(eq=False)
class BatchDeduplicator:
    """What is remembered of batches."""

    sessions: SessionTable
    _refusals: RejectedConditions

    def known(self, batch: Batch, ticket: ClientTicket, *, opens: bool) -> list[CoordinatorEffect] | None:
        """What follows if the batch has a place; None: it has none.

        Raises:
            VirtualLogError: it cannot get one, see `SessionTable.find`; or there is another batch in its place.
        """
        placement = self.sessions.find(batch, opens=opens)
        return None if placement is None else _again(placement, batch, ticket)

    def check_tail(self, batch: Batch, expected_tail: int, tail: int) -> None:
        """Whether a conditional append may have its place. Once refused it stays so: a second copy of the call may arrive when the tail
        is what it expects, and its caller has long gone on.

        Raises:
            TailMismatchError: it may not, as far as is known here.
        """
        found = self._refusals.find(batch, expected_tail)
        if found is not None or expected_tail != tail:
            raise TailMismatchError(expected_tail, tail if found is None else found)

    def remember(self, batch: Batch, mismatch: TailMismatchError, now_ms: int) -> None:
        """This refusal is told as final.

        Raises:
            OverloadedError: see `RejectedConditions.add`.
        """
        self._refusals.add(batch, mismatch.expected, mismatch.found, now_ms)

    def sealed_error(self, batch: Batch | None) -> VirtualLogError:
        """The error for what comes after the end. It says that nothing is in the log only if that is so: this
        may be the second copy of an offer, and its answer may arrive before the first one's."""
        return SealedError(refused=batch is not None and not self.sessions.may_have_placed(batch))


def _again(placement: OrderedBatch, batch: Batch, ticket: ClientTicket) -> list[CoordinatorEffect]:
    """The place a batch has is its place for ever; if it is not decided yet, its caller waits with the others."""
    if placement.committed:
        return [PaxosResolve(ticket, placement.first)]
    if placement.batch != batch:
        raise ReconfigurationNeededError("two different batches of a session have the same sequence number")
    placement.tickets += (ticket,)
    if len(placement.tickets) <= TICKETS_MAX:
        return []
    earliest, *others = placement.tickets
    placement.tickets = tuple(others)
    return [PaxosResolve(earliest, UnavailableError("the same batch was offered again and again"))]


AHEAD_MAX: Final = 64
"""Positions behind the end that are filled because somebody has seen them. There is one at most; more are not believed."""


@attrs.define(eq=False)
class LeaderTerm:
    """Requests, answers, turns and ticks in, effects out. Times are those of a clock that does not jump, in milliseconds, unless
    they are called times of day."""

    writing: Replicator
    _repeats: BatchDeduplicator
    seal: int = attrs.field(default=NOWHERE, init=False)
    """Position of the SEAL, once it is decided."""
    _sealing: bool = attrs.field(default=False, init=False)
    _proposals: ProposalQueue = attrs.field(init=False)
    _pending_reads: PendingReads = attrs.field(factory=PendingReads, init=False)
    _question: int = attrs.field(default=NOWHERE, init=False)
    """Round of the audience's confirmation."""
    _late: deque[tuple[ClientTicket, Batch | None]] = attrs.field(factory=deque, init=False)
    """What came behind a SEAL that is not decided."""

    def __attrs_post_init__(self) -> None:
        self._proposals = ProposalQueue(self.writing.first)

    # -- for who looks inside -------------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Whether `turn` would do something."""
        return self.writing.flight is None and bool(self._proposals)

    @property
    def may_hurry(self) -> bool:
        """Whether a batch need not wait until the end of the scheduler turn for others to share its position: nothing is on its
        way, and the last one was alone, too. Where many arrive together, a write for each would cost far more than a turn."""
        return self.writing.was_alone and self.has_work

    @property
    def has_write_in_flight(self) -> bool:
        return self.writing.flight is not None

    @property
    def needs_ticks(self) -> bool:
        """Whether `tick` may have something to do."""
        return self.writing.needs_ticks or self._pending_reads.confirmation is not None

    # -- what clients want ----------------------------------------------------------------------------------------

    def offer(
        self, batch: Batch, ticket: ClientTicket, now_ms: int, *, opens: bool, expected_tail: int
    ) -> list[CoordinatorEffect]:
        """A checked batch has arrived; it is resolved once it is decided."""
        return self._judge(OfferedBatch(batch, ticket, now_ms, opens, expected_tail), is_confirmed=False)

    def append(self, payload: bytes, ticket: ClientTicket) -> list[CoordinatorEffect]:
        """Bytes of a user, without a session; resolved with the position. They weigh nothing here: the caller has them in memory
        anyway, and is bounded by how many it may have under way."""
        return self._add(partial(values.append, payload), ticket, 0)

    def truncate(self, to: int, trim: int, digest: bytes, ticket: ClientTicket) -> list[CoordinatorEffect]:
        """Positions below `to`, which is decided, may be dropped, and readers see nothing below the offset `trim`; `digest` covers
        what is dropped, and nothing that is not decided. Resolved with the position. If more is decided than this reign knows of, it
        has been outbid, and nothing is done."""
        if to > self.writing.committed:  # the local replica has learned it from somebody else
            self.writing.lost = "others have decided what comes next"
            return [PaxosResolve(ticket, UnavailableError("this coordinator leads no longer"))]
        return self._add(lambda time_ms: values.truncate(to, time_ms, trim, digest), ticket, len(digest))

    def seal_log(self, ticket: ClientTicket) -> list[CoordinatorEffect]:
        """Take no more, and write SEAL as the last position; resolved with it. Sealing twice writes it once."""
        if self.seal != NOWHERE:
            return [PaxosResolve(ticket, self.seal)]
        if not self._sealing:
            self._proposals.add(values.seal, None, 0)
            self._sealing = True
        return self._guarded(
            ticket,
            lambda: self._pending_reads.wait(PendingRead(ticket, self._proposals.next, self._proposals.next - 1)),
        )

    def settle(self, past: int, ticket: ClientTicket) -> list[CoordinatorEffect]:
        """Everything up to what a quorum knows of is to be decided, and `past`; resolved with the tail."""
        if self.seal != NOWHERE:
            return [PaxosResolve(ticket, offset_of(self.seal))]
        pending = PendingRead(ticket, self._proposals.next, None, past)
        return [*self._guarded(ticket, lambda: self._pending_reads.doubt(pending)), *self._ask()]

    # -- writing --------------------------------------------------------------------------------------------------

    def turn(self, now_ms: int, time_ms: int) -> list[CoordinatorEffect]:
        """All that arrived in one scheduler turn has been offered: write it. `time_ms` is the time of day."""
        if not self.has_work:
            return []
        assert self.seal == NOWHERE, "nothing is written behind a SEAL"
        return self.writing.start(self._proposals.pop(), now_ms, time_ms)

    def written(self, node: NodeId, number: int, reply: PaxosWritten) -> list[CoordinatorEffect]:
        """A replica has answered a write."""
        flight = self.writing.written(node, number, reply)
        return [] if flight is None else self._commit(flight)

    def confirmed(self, node: NodeId, number: int, standing: Standing) -> list[CoordinatorEffect]:
        """A replica has said how it stands."""
        confirmation = self._pending_reads.confirmation
        if confirmation is None or number != self._question:
            return []
        match confirmation.count(node, standing):
            case True:
                return self._settle(confirmation)
            case False:
                self.writing.lost = Rejected(standing.promised, standing.coordinator)
        return []

    def tick(self, now_ms: int) -> list[CoordinatorEffect]:
        """Some milliseconds have passed."""
        effects = self.writing.tick(now_ms)
        if (confirmation := self._pending_reads.confirmation) is not None:
            effects += self._ask_again(confirmation, now_ms)
        return effects

    def give_up(self, error: VirtualLogError) -> list[CoordinatorEffect]:
        """It is over: whatever is pending is told `error`, oldest first."""
        items = [*([] if self.writing.flight is None else [self.writing.flight.item]), *self._proposals]
        tickets = [ticket for item in items for ticket in item.give_up()]
        tickets += self._pending_reads.give_up()
        tickets += [ticket for ticket, _ in self._late]
        self.writing.flight, self._proposals = None, ProposalQueue(self._proposals.next)
        self._late.clear()
        return [PaxosResolve(ticket, error) for ticket in tickets]

    # -- details --------------------------------------------------------------------------------------------------

    def _commit(self, flight: InFlightWrite) -> list[CoordinatorEffect]:
        effects = self.writing.commit(flight)
        if self._sealing and not self._proposals:
            self.seal = flight.item.position
            effects.append(self.writing.announce())
        effects += [PaxosResolve(ticket, outcome) for ticket, outcome in flight.item.commit()]
        return effects + self._release()

    def _release(self) -> list[CoordinatorEffect]:
        """Answer those who have waited for what is decided now."""
        effects: list[CoordinatorEffect] = []
        if not self._pending_reads.is_empty:
            ready = self._pending_reads.released(self.writing.committed)
            if self.writing.has_unannounced and any(each.outcome is None for each in ready):
                effects.append(self.writing.announce())  # whoever asks for a tail asks the replicas next
            effects += [PaxosResolve(each.ticket, self._outcome(each)) for each in ready]
        if self.seal != NOWHERE:
            effects += [PaxosResolve(ticket, self._repeats.sealed_error(batch)) for ticket, batch in self._late]
            self._late.clear()
            effects += self.give_up(UnavailableError("unknown outcome: the log was closed meanwhile"))
        return effects

    def _outcome(self, pending: PendingRead) -> int | VirtualLogError:
        if pending.outcome is not None:
            return pending.outcome
        return offset_of(pending.barrier if self.seal == NOWHERE else self.seal)

    # -- tails and refusals ---------------------------------------------------------------------------------------

    def _judge(self, offer: OfferedBatch, *, is_confirmed: bool) -> list[CoordinatorEffect]:
        """Have the batch written, or refuse it.

        Args:
            offer: has just arrived, or was held.
            is_confirmed: that a quorum has confirmed the lead since it arrived, and all that was decided by then is here.
        """
        batch, ticket = offer.batch, offer.ticket
        if self.seal != NOWHERE:
            return [PaxosResolve(ticket, self._repeats.sealed_error(batch))]
        try:
            if self._sealing:
                return self._hold_until_sealed(ticket, batch)
            if (known := self._repeats.known(batch, ticket, opens=offer.opens)) is not None:
                return known
            if offer.expected_tail != NOWHERE:
                self._repeats.check_tail(batch, offer.expected_tail, self._proposals.tail)
                self._proposals.close()
            place = self._proposals.place_of(batch)
            self._proposals.add_batch(self._repeats.sessions.place(batch, place, ticket, offer.now_ms))
        except OverloadedError as error:
            return [PaxosResolve(ticket, error)]
        except VirtualLogError as error:
            return self._refuse(error, offer) if is_confirmed else self._hold(offer)
        return []

    def _hold(self, offer: OfferedBatch) -> list[CoordinatorEffect]:
        """It looks wrong from here, and would be right if others have decided what this coordinator does not know of."""
        pending = PendingRead(offer.ticket, self._proposals.next, None, offer=offer)
        return [*self._guarded(offer.ticket, lambda: self._pending_reads.doubt(pending)), *self._ask()]

    def _refuse(self, error: VirtualLogError, offer: OfferedBatch) -> list[CoordinatorEffect]:
        """For good: told once all that made it fail is decided."""
        pending = PendingRead(offer.ticket, self._proposals.next, error)

        def wait() -> None:
            if isinstance(error, TailMismatchError):
                self._repeats.remember(offer.batch, error, offer.now_ms)
            self._pending_reads.wait(pending)

        return self._guarded(offer.ticket, wait)

    def _ask(self) -> list[CoordinatorEffect]:
        if not self._pending_reads.needs_question:
            return []
        self._pending_reads.ask(self.writing.proposal, self.writing.ensemble.quorum, self.writing.roll)
        self._question = next(self.writing.rounds)
        return [PaxosSend(self.writing.ensemble.members, GetStanding(segment=self.writing.segment), self._question)]

    def _ask_again(self, confirmation: LeadershipCheck, now_ms: int) -> list[CoordinatorEffect]:
        if confirmation.is_stale(now_ms, PATIENCE_MS):
            self.writing.lost = "no quorum confirms that it leads"
            return []
        if not confirmation.is_due(now_ms, RETRY_MS):
            return []
        nodes = tuple(node for node in self.writing.ensemble.members if not confirmation.has_answered(node))
        return [PaxosSend(nodes, GetStanding(segment=self.writing.segment), self._question)]

    def _settle(self, confirmation: LeadershipCheck) -> list[CoordinatorEffect]:
        """It leads. What somebody has seen behind its end comes from earlier coordinators, and is written over. A client is believed
        one position, which a replica that was not asked may have: if it claims more, it costs three synced writes, not many."""
        committed, past = self.writing.committed, max(each.past for each in confirmation.pending)
        seen = max(min(confirmation.end, committed + AHEAD_MAX), min(past, committed))
        while self._proposals.next <= seen and not self._sealing:
            self._proposals.add(values.nop, None, 0)
        held = self._pending_reads.confirmed(self._proposals.next)
        judged = [effect for offer in held for effect in self._judge(offer, is_confirmed=True)]
        return [*judged, *self._release(), *self._ask()]

    # -- behind a SEAL --------------------------------------------------------------------------------------------

    def _hold_until_sealed(self, ticket: ClientTicket, batch: Batch | None) -> list[CoordinatorEffect]:
        """Whether the log is closed is not decided yet: nobody may be told before."""
        if len(self._late) >= PENDING_MAX:
            return [PaxosResolve(ticket, OverloadedError("the log is being closed"))]
        self._late.append((ticket, batch))
        return []

    def _add(self, make: Callable[[int], bytes], ticket: ClientTicket, size: int) -> list[CoordinatorEffect]:
        if self.seal != NOWHERE:
            return [PaxosResolve(ticket, SealedError())]
        if self._sealing:
            return self._hold_until_sealed(ticket, None)
        return self._guarded(ticket, lambda: self._proposals.add(make, ticket, size))

    def _guarded(self, ticket: ClientTicket, step: Callable[[], None]) -> list[CoordinatorEffect]:
        try:
            step()
        except OverloadedError as error:
            return [PaxosResolve(ticket, error)]
        return []
