"""A coordinator while it leads: orders client requests and answers them once they are decided.

Rules (docs/internals/protocols/paxos.md, "Coordinator", gives the reasons):
* Requests that wait while a position is in flight (`replication.py`) share the next one.
* When the term ends, requests in flight and waiting are *maybe*.
* An answer that would be wrong if the term was over long ago waits for a quorum to confirm the lead (`read_index.py`).
* Nothing is written behind a SEAL.
* Clients are answered in the order of positions, after the local replica has learned them.

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
from virtuallog.exactly_once.rejected_conditions import RejectedConditions
from virtuallog.exactly_once.session_table import OrderedBatch, SessionTable
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

TICKETS_MAX: Final = 4
"""Callers that wait for one batch: the latest few that offered it. Earlier ones have given up."""
AHEAD_MAX: Final = 64
"""Cap on positions behind the end that are filled because a replica reports them. There is at most one in truth."""


@attrs.define(eq=False)
class LeaderTerm:
    """One term of a leader: takes requests, answers, turns and ticks, returns effects.

    Times are in milliseconds, of a clock that does not jump, unless they are called times of day.
    """

    replicator: Replicator
    _deduplicator: BatchDeduplicator
    seal: int = attrs.field(default=NOWHERE, init=False)
    """Position of the SEAL once it is decided, NOWHERE before."""
    _sealing: bool = attrs.field(default=False, init=False)
    _proposals: ProposalQueue = attrs.field(init=False)
    _pending_reads: PendingReads = attrs.field(factory=PendingReads, init=False)
    _check_round: int = attrs.field(default=NOWHERE, init=False)
    """Round number of the leadership check in `_pending_reads`."""
    _behind_seal: deque[tuple[ClientTicket, Batch | None]] = attrs.field(factory=deque, init=False)
    """Requests that arrived behind a SEAL that is not decided yet."""

    def __attrs_post_init__(self) -> None:
        self._proposals = ProposalQueue(self.replicator.first)

    # -- state ----------------------------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """True if `turn` would do something."""
        return self.replicator.flight is None and bool(self._proposals)

    @property
    def may_hurry(self) -> bool:
        """True if a batch need not wait for the end of the scheduler turn, in which others could join its position.

        That holds if nothing is in flight and the last position had one batch. Where many batches arrive together,
        a write for each would cost far more than a turn.
        """
        return self.replicator.was_alone and self.has_work

    @property
    def has_write_in_flight(self) -> bool:
        return self.replicator.flight is not None

    @property
    def needs_ticks(self) -> bool:
        """True if `tick` may have something to do."""
        return self.replicator.needs_ticks or self._pending_reads.confirmation is not None

    # -- requests of clients --------------------------------------------------------------------------------------

    def offer(
        self, batch: Batch, ticket: ClientTicket, now_ms: int, *, opens: bool, expected_tail: int
    ) -> list[CoordinatorEffect]:
        """Take a checked batch; it is resolved with its offset once it is decided."""
        return self._judge(OfferedBatch(batch, ticket, now_ms, opens, expected_tail), is_confirmed=False)

    def append(self, payload: bytes, ticket: ClientTicket) -> list[CoordinatorEffect]:
        """Take user bytes without a session; resolved with the position.

        They do not count as queued bytes: the caller holds them in memory anyway, and its appends in flight are bounded.
        """
        return self._add(partial(values.append, payload), ticket, 0)

    def truncate(self, to: int, trim: int, digest: bytes, ticket: ClientTicket) -> list[CoordinatorEffect]:
        """Have a TRUNCATE decided; resolved with its position.

        If more is decided than this term knows of, it has been outbid, and nothing is done.

        Args:
            to: positions below this one may be dropped; all of them are decided.
            trim: loglet offset below which readers see nothing.
            digest: sessions of what is dropped, and of nothing that is undecided.
            ticket: receiver of the answer.
        """
        if to > self.replicator.committed:  # the local replica has learned it from another coordinator
            self.replicator.lost = "others have decided what comes next"
            return [PaxosResolve(ticket, UnavailableError("this coordinator leads no longer"))]
        return self._add(lambda time_ms: values.truncate(to, time_ms, trim, digest), ticket, len(digest))

    def seal_log(self, ticket: ClientTicket) -> list[CoordinatorEffect]:
        """Take no more requests and write SEAL as the last position; resolved with that position.

        Idempotent.
        """
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
        """Have everything decided that a quorum knows of, and `past`; resolved with the tail."""
        if self.seal != NOWHERE:
            return [PaxosResolve(ticket, offset_of(self.seal))]
        pending = PendingRead(ticket, self._proposals.next, None, past)
        return [*self._guarded(ticket, lambda: self._pending_reads.doubt(pending)), *self._ask()]

    # -- writing --------------------------------------------------------------------------------------------------

    def turn(self, now_ms: int, time_ms: int) -> list[CoordinatorEffect]:
        """Write what was offered during one scheduler turn. `time_ms` is the time of day."""
        if not self.has_work:
            return []
        assert self.seal == NOWHERE, "nothing is written behind a SEAL"
        return self.replicator.start(self._proposals.pop(), now_ms, time_ms)

    def written(self, node: NodeId, number: int, reply: PaxosWritten) -> list[CoordinatorEffect]:
        """Take a replica's answer to a write."""
        flight = self.replicator.written(node, number, reply)
        effects = [] if flight is None else self._commit(flight)
        if self.replicator.is_announcement_due and not self._proposals:
            effects.append(self.replicator.announce())
        return effects

    def confirmed(self, node: NodeId, number: int, standing: Standing) -> list[CoordinatorEffect]:
        """Take a replica's answer to the leadership check."""
        confirmation = self._pending_reads.confirmation
        if confirmation is None or number != self._check_round:
            return []
        match confirmation.count(node, standing):
            case True:
                return self._settle(confirmation)
            case False:
                self.replicator.lost = Rejected(standing.promised, standing.coordinator)
        return []

    def tick(self, now_ms: int) -> list[CoordinatorEffect]:
        """Retry and time out: some milliseconds have passed."""
        effects = self.replicator.tick(now_ms)
        if (confirmation := self._pending_reads.confirmation) is not None:
            effects += self._ask_again(confirmation, now_ms)
        return effects

    def give_up(self, error: VirtualLogError) -> list[CoordinatorEffect]:
        """End the term: every pending request is answered with `error`, oldest first."""
        items = [*([] if self.replicator.flight is None else [self.replicator.flight.item]), *self._proposals]
        tickets = [ticket for item in items for ticket in item.give_up()]
        tickets += self._pending_reads.give_up()
        tickets += [ticket for ticket, _ in self._behind_seal]
        self.replicator.flight, self._proposals = None, ProposalQueue(self._proposals.next)
        self._behind_seal.clear()
        return [PaxosResolve(ticket, error) for ticket in tickets]

    # -- details --------------------------------------------------------------------------------------------------

    def _commit(self, flight: InFlightWrite) -> list[CoordinatorEffect]:
        """Acknowledge a decided position: the local replica learns it, then its clients are answered."""
        effects = self.replicator.commit(flight)
        if self._sealing and not self._proposals:
            self.seal = flight.item.position
            effects.append(self.replicator.announce())
        effects += [PaxosResolve(ticket, outcome) for ticket, outcome in flight.item.commit()]
        return effects + self._release()

    def _release(self) -> list[CoordinatorEffect]:
        """Answer the requests that waited for what is decided now; after the SEAL, all requests."""
        effects: list[CoordinatorEffect] = []
        if not self._pending_reads.is_empty:
            ready = self._pending_reads.released(self.replicator.committed)
            if self.replicator.has_unannounced and any(each.outcome is None for each in ready):
                effects.append(self.replicator.announce())  # a client that gets a tail asks the replicas next
            effects += [PaxosResolve(each.ticket, self._outcome(each)) for each in ready]
        if self.seal != NOWHERE:
            effects += [
                PaxosResolve(ticket, self._deduplicator.sealed_error(batch)) for ticket, batch in self._behind_seal
            ]
            self._behind_seal.clear()
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
            is_confirmed: a quorum has confirmed the lead since it arrived, and all that was decided by then is here.
        """
        batch, ticket = offer.batch, offer.ticket
        if self.seal != NOWHERE:
            return [PaxosResolve(ticket, self._deduplicator.sealed_error(batch))]
        try:
            if self._sealing:
                return self._hold_until_sealed(ticket, batch)
            if (known := self._deduplicator.known(batch, ticket, opens=offer.opens)) is not None:
                return known
            if offer.expected_tail != NOWHERE:
                self._deduplicator.check_tail(batch, offer.expected_tail, self._proposals.tail)
                self._proposals.close()
            place = self._proposals.place_of(batch)
            self._proposals.add_batch(self._deduplicator.sessions.place(batch, place, ticket, offer.now_ms))
        except OverloadedError as error:
            return [PaxosResolve(ticket, error)]
        except VirtualLogError as error:
            return self._refuse(error, offer) if is_confirmed else self._hold(offer)
        return []

    def _hold(self, offer: OfferedBatch) -> list[CoordinatorEffect]:
        """Hold an offer until the lead is confirmed: it may fit what others have decided unknown to this coordinator."""
        pending = PendingRead(offer.ticket, self._proposals.next, None, offer=offer)
        return [*self._guarded(offer.ticket, lambda: self._pending_reads.doubt(pending)), *self._ask()]

    def _refuse(self, error: VirtualLogError, offer: OfferedBatch) -> list[CoordinatorEffect]:
        """Refuse for good; the client is answered once all that made the offer fail is decided."""
        pending = PendingRead(offer.ticket, self._proposals.next, error)

        def wait() -> None:
            if isinstance(error, TailMismatchError):
                self._deduplicator.remember(offer.batch, error, offer.now_ms)
            self._pending_reads.wait(pending)

        return self._guarded(offer.ticket, wait)

    def _ask(self) -> list[CoordinatorEffect]:
        if not self._pending_reads.needs_question:
            return []
        self._pending_reads.ask(self.replicator.proposal, self.replicator.ensemble.quorum, self.replicator.crash_vector)
        self._check_round = next(self.replicator.rounds)
        return [
            PaxosSend(self.replicator.ensemble.members, GetStanding(segment=self.replicator.segment), self._check_round)
        ]

    def _ask_again(self, confirmation: LeadershipCheck, now_ms: int) -> list[CoordinatorEffect]:
        if confirmation.is_stale(now_ms, PATIENCE_MS):
            self.replicator.lost = "no quorum confirms that it leads"
            return []
        if not confirmation.is_due(now_ms, RETRY_MS):
            return []
        nodes = tuple(node for node in self.replicator.ensemble.members if not confirmation.has_answered(node))
        return [PaxosSend(nodes, GetStanding(segment=self.replicator.segment), self._check_round)]

    def _settle(self, confirmation: LeadershipCheck) -> list[CoordinatorEffect]:
        """Go on after a quorum has confirmed the lead: write over what replicas have seen behind the end."""
        # Positions behind the end come from earlier coordinators. A client is believed one position, which a replica
        # that was not asked may have. If it claims more, that costs three synced writes, not many.
        committed, past = self.replicator.committed, max(each.past for each in confirmation.pending)
        seen = max(min(confirmation.end, committed + AHEAD_MAX), min(past, committed))
        while self._proposals.next <= seen and not self._sealing:
            self._proposals.add(values.nop, None, 0)
        held = self._pending_reads.confirmed(self._proposals.next)
        judged = [effect for offer in held for effect in self._judge(offer, is_confirmed=True)]
        return [*judged, *self._release(), *self._ask()]

    # -- behind a SEAL --------------------------------------------------------------------------------------------

    def _hold_until_sealed(self, ticket: ClientTicket, batch: Batch | None) -> list[CoordinatorEffect]:
        """Hold a request until the SEAL is decided: no client may be answered before."""
        if len(self._behind_seal) >= PENDING_MAX:
            return [PaxosResolve(ticket, OverloadedError("the log is being closed"))]
        self._behind_seal.append((ticket, batch))
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


@attrs.define(eq=False)
class BatchDeduplicator:
    """Memory of batches that were offered before, which get the same answer again.

    The network repeats requests, and clients send them again, to any later leader. So a batch keeps its offset for ever,
    and a refused batch stays refused.
    """

    sessions: SessionTable
    _refusals: RejectedConditions

    def known(self, batch: Batch, ticket: ClientTicket, *, opens: bool) -> list[CoordinatorEffect] | None:
        """Effects for a batch that has a place already; None if it has none.

        Raises:
            VirtualLogError: it cannot get a place, see `SessionTable.find`; or another batch has its sequence number.
        """
        placement = self.sessions.find(batch, opens=opens)
        return None if placement is None else _again(placement, batch, ticket)

    def check_tail(self, batch: Batch, expected_tail: int, tail: int) -> None:
        """Check the condition of a conditional append.

        A refusal is final: a second copy of the call may arrive when the tail fits, long after its caller has gone on.

        Raises:
            TailMismatchError: the condition fails, as far as this coordinator knows.
        """
        found = self._refusals.find(batch, expected_tail)
        if found is not None or expected_tail != tail:
            raise TailMismatchError(expected_tail, tail if found is None else found)

    def remember(self, batch: Batch, mismatch: TailMismatchError, now_ms: int) -> None:
        """Remember a refusal that is final.

        Raises:
            OverloadedError: see `RejectedConditions.add`.
        """
        self._refusals.add(batch, mismatch.expected, mismatch.found, now_ms)

    def sealed_error(self, batch: Batch | None) -> VirtualLogError:
        """The error for a request behind the SEAL.

        It says that nothing is in the log only if that is certain: this may be the second copy of an offer, and its
        answer may arrive before that of the first.
        """
        return SealedError(refused=batch is not None and not self.sessions.may_have_placed(batch))


def _again(placement: OrderedBatch, batch: Batch, ticket: ClientTicket) -> list[CoordinatorEffect]:
    """Answer with the place that the batch has; if it is not decided yet, the caller waits with earlier ones."""
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
