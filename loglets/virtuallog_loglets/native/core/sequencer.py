"""Sequencer of one NativeLoglet: orders appends, replicates them, acknowledges them. Delos,
OSDI'20, section 4.2.1.

Offered batches queue up. The queue becomes the next wave as soon as fewer than `WAVES_MAX` waves
are uncommitted. Every wave goes to every server, several in flight. An append is acknowledged in
`Sequencer._commit`, once a majority of servers has its wave (`quorum.committed_tail`).

Rules:
* An offset is assigned once, by one incarnation: a sequencer never restarts in place
  (`drivers/sequencer_service.py`).
* Committed means: a majority of *all* servers has accepted, each while it was not sealed. Nothing
  else counts. In particular a known tail that others report does not count: it may come from a
  repair after a seal.
* A server that misses waves is not sent those below the committed tail: it catches up by omission.
* Once ordered, a batch is replicated for ever, whether or not its caller still waits: a hole would
  block everything behind it. Only a seal ends it; then the outcome of pending batches is unknown.
* Only uncommitted waves are kept.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, TypeAlias

import attrs

from virtuallog.contract.batch import Batch
from virtuallog.contract.chain import SegmentId
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
from virtuallog_loglets.native.config import NativeConfig, TransferLimits
from virtuallog_loglets.native.core import wave as waves
from virtuallog_loglets.native.core.quorum import committed_tail
from virtuallog_loglets.native.core.wave import Wave
from virtuallog_loglets.native.messages import NO_EXPECTATION, NativeAppended, NativeState, NativeStored

WAVES_MAX: Final = 4
"""Most uncommitted waves. Four keep network and disks busy at the same time; more only make waves
smaller."""
QUEUE_BYTES_MAX: Final = 32 << 20
"""Queued bytes beyond which batches are refused: some hundred milliseconds of work of a fast disk."""
TICKETS_MAX: Final = 4
"""Most callers that wait for one batch: the latest few that offered it. Earlier ones have given up."""
MISMATCHES_MAX: Final = 4096
"""Most refusals that wait for a commit. A commit takes milliseconds, or never comes if a majority
is away. Then the callers give up one after the other, and new ones come."""

Ticket: TypeAlias = Any
"""Opaque handle of the driver that identifies the receiver of an answer."""


@attrs.define  # not frozen: made for every wave, and frozen classes take twice as long to make
class NativeSend:
    """Store this wave on the receivers, in their order. For each call `stored` or `unreachable`
    with the result."""

    wave: Wave
    known_tail: int
    receivers: list[tuple[NodeId, int]]
    """Servers, and the numbers of their runs. Pass both back."""


@attrs.frozen
class AskState:
    """Ask this server for its state (is it sealed, too?), then call `heard`."""

    server: NodeId


@attrs.frozen
class Resume:
    """Call `resume` for this server after a short pause."""

    server: NodeId


@attrs.define  # not frozen: made for every batch
class NativeResolve:
    """Deliver the outcome of an offered batch to its caller."""

    ticket: Ticket
    outcome: NativeAppended | VirtualLogError


Effect: TypeAlias = NativeSend | AskState | Resume | NativeResolve


@attrs.define(eq=False)
class _Progress:
    """Replication progress of one server."""

    acked: int = 0
    """Everything below is accepted by the server."""
    next: int = 0
    """First offset of the next wave to send."""
    paused: bool = False
    sealed: bool = False
    run: int = 0
    """Number of the current run. The sends between two pauses belong to one run."""


@attrs.frozen(eq=False)
class _Flight:
    """Uncommitted wave with the batches in it."""

    wave: Wave
    placements: list[OrderedBatch]


@attrs.define(eq=False)
class Sequencer:
    """Core of one sequencer. Takes offers, turns and replies; returns effects."""

    segment: SegmentId
    config: NativeConfig
    limits: TransferLimits = attrs.field(factory=TransferLimits)
    committed: int = attrs.field(default=0, init=False)
    """The known tail: everything below is on a majority and was acknowledged."""
    tail: int = attrs.field(default=0, init=False)
    """Next offset to assign."""
    stopped: VirtualLogError | None = attrs.field(default=None, init=False)
    _time_ms: int = attrs.field(default=0, init=False)
    _queue: deque[OrderedBatch] = attrs.field(factory=deque, init=False)
    _queued_bytes: int = attrs.field(default=0, init=False)
    _flights: deque[_Flight] = attrs.field(factory=deque, init=False)
    _was_alone: bool = attrs.field(default=False, init=False)
    """True if the last wave had one batch."""
    _mismatches: deque[tuple[int, Ticket, TailMismatchError]] = attrs.field(factory=deque, init=False)
    """Refused conditional appends: (tail, ticket, error). Each is answered once everything below
    the tail, which made it fail, is committed."""
    _sessions: SessionTable = attrs.field(factory=SessionTable, init=False)
    _refusals: RejectedConditions = attrs.field(factory=RejectedConditions, init=False)
    _progress: dict[NodeId, _Progress] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        # The own server comes last: its store is work for this process, and others can do theirs meanwhile.
        servers = sorted(self.config.servers, key=lambda server: server == self.config.sequencer)
        self._progress = {server: _Progress() for server in servers}

    # -- events ---------------------------------------------------------------------------------------------------

    def offer(self, batch: Batch, ticket: Ticket, now_ms: int, *, opens: bool, expected_tail: int) -> list[Effect]:
        """Take in a checked batch. It is resolved once it is committed, or at once with an error."""
        if self.stopped is not None:
            return [NativeResolve(ticket, self._turned_away(batch))]
        try:
            placement = self._sessions.find(batch, opens=opens)
            if placement is not None:
                return self._offer_again(placement, batch, ticket)
            if expected_tail != NO_EXPECTATION and (found := self._mismatch(batch, expected_tail, now_ms)) is not None:
                return self._refuse(TailMismatchError(expected_tail, found), ticket)
            self._order(batch, ticket, now_ms)
        except VirtualLogError as error:
            return [NativeResolve(ticket, error)]
        return []

    @property
    def has_work(self) -> bool:
        """True if `turn` would cut a wave. Never so once it has stopped: nothing is queued then."""
        return bool(self._queue) and len(self._flights) < WAVES_MAX

    @property
    def queued_bytes(self) -> int:
        """Bytes of the batches that wait for a wave."""
        return self._queued_bytes

    @property
    def waves_in_flight(self) -> int:
        return len(self._flights)

    @property
    def lags(self) -> dict[NodeId, int]:
        """Ordered entries that each server has not acknowledged."""
        return {server: self.tail - progress.acked for server, progress in self._progress.items()}

    @property
    def may_hurry(self) -> bool:
        """True if a batch need not wait until the end of the scheduler turn for others to share its
        wave.

        That is so if nothing is in flight and the last wave had one batch. Where many batches
        arrive together, a wave for each would cost far more than a turn.
        """
        return self._was_alone and not self._flights and bool(self._queue)

    def turn(self, now_ms: int) -> list[Effect]:
        """Cut waves after all appends of one scheduler turn have been offered, and send them."""
        self._time_ms = max(self._time_ms, now_ms)
        while self._queue and len(self._flights) < WAVES_MAX:
            self._cut_wave()
        return self._pump()

    def stored(self, server: NodeId, run: int, reply: NativeStored) -> list[Effect]:
        """Take in a server's answer to a wave of `run`."""
        progress = self._progress[server]
        if self.stopped is not None:
            return []
        if not reply.accepted:  # unless sealed, it came too early: an earlier wave was lost
            return self._saw_seal(server) if reply.sealed else self._back_off(server, run)
        acked = reply.local_tail  # everything below was durable there before any seal
        if acked > self.tail:
            return self.stop(ReconfigurationNeededError(f"server {server} holds entries of another sequencer"))
        progress.acked = max(progress.acked, acked)
        return self._commit() if acked > self.committed else []  # a majority had the rest without this server

    def unreachable(self, server: NodeId, run: int) -> list[Effect]:
        """Note that a wave of `run` got no answer or an error. After a pause the same bytes are
        sent again at the same offsets."""
        return self._back_off(server, run)

    def resume(self, server: NodeId) -> list[Effect]:
        """End the pause of a server and send again from what it has acknowledged."""
        progress = self._progress[server]
        progress.paused, progress.next, progress.run = False, progress.acked, progress.run + 1
        return self._pump()

    def heard(self, server: NodeId, state: NativeState) -> list[Effect]:
        """Take in the answer to `AskState`."""
        return self._saw_seal(server) if state.sealed and self.stopped is None else []

    # -- ordering -------------------------------------------------------------------------------------------------

    def _offer_again(self, placement: OrderedBatch, batch: Batch, ticket: Ticket) -> list[Effect]:
        """Answer a repeated offer. A batch keeps its offsets for ever. If it is not committed yet,
        this caller waits, too."""
        if placement.committed:
            return [NativeResolve(ticket, NativeAppended(first=placement.first, known_tail=self.committed))]
        if placement.batch != batch:
            raise ReconfigurationNeededError("two different batches of a session have the same sequence number")
        placement.tickets += (ticket,)
        if len(placement.tickets) <= TICKETS_MAX:
            return []
        earliest, *others = placement.tickets
        placement.tickets = tuple(others)
        return [NativeResolve(earliest, UnavailableError("the same batch was offered again and again"))]

    def _mismatch(self, batch: Batch, expected_tail: int, now_ms: int) -> int | None:
        """Tail that contradicts `expected_tail`; None if the append may go on.

        A refusal is remembered and repeated. A second copy of the call may arrive when the tail is
        the expected one, and its caller has long gone on.
        """
        found = self._refusals.find(batch, expected_tail)
        if found is None and expected_tail != self.tail:
            found = self.tail
            self._refusals.add(batch, expected_tail, found, now_ms)
        return found

    def _refuse(self, mismatch: TailMismatchError, ticket: Ticket) -> list[Effect]:
        if self.tail == self.committed:
            return [NativeResolve(ticket, mismatch)]
        if len(self._mismatches) >= MISMATCHES_MAX:
            raise OverloadedError(f"{MISMATCHES_MAX} refusals wait until what they lost to is committed")
        self._mismatches.append((self.tail, ticket, mismatch))
        return []

    def _order(self, batch: Batch, ticket: Ticket, now_ms: int) -> None:
        if self._queued_bytes + len(batch.blob) > QUEUE_BYTES_MAX:
            raise OverloadedError(f"{self._queued_bytes} bytes wait to be ordered")
        self._queue.append(self._sessions.place(batch, self.tail, ticket, now_ms))
        self._queued_bytes += len(batch.blob)
        self.tail += batch.count

    def _cut_wave(self) -> None:
        placements: list[OrderedBatch] = []
        batches: list[Batch] = []
        size = 0
        while self._queue:
            batch = self._queue[0].batch
            assert batch is not None, "what is queued is not committed"
            if batches and size + len(batch.blob) > self.limits.wave_bytes:
                break
            placements.append(self._queue.popleft())
            batches.append(batch)
            size += len(batch.blob)
        self._queued_bytes -= size
        self._was_alone = len(batches) == 1
        wave = waves.build(
            segment=self.segment,
            first=placements[0].first,
            known_tail=self.committed,
            time_ms=self._time_ms,
            batches=batches,
        )
        self._flights.append(_Flight(wave, placements))

    # -- replication ----------------------------------------------------------------------------------------------

    def _pump(self) -> list[Effect]:
        """Send every server the waves that it has not been sent. Flights are few and adjacent, so
        scanning all is cheap."""
        effects: list[Effect] = []
        for flight in self._flights:
            wave = flight.wave
            receivers: list[tuple[NodeId, int]] = []
            for server, progress in self._progress.items():
                if wave.first >= progress.next and not (progress.paused or progress.sealed):
                    receivers.append((server, progress.run))
                    progress.next = wave.stop
            if receivers:
                effects.append(NativeSend(wave, self.committed, receivers))
        return effects

    def _back_off(self, server: NodeId, run: int) -> list[Effect]:
        """Go back to the server's acknowledged offset after a pause. Sending again is harmless."""
        progress = self._progress[server]
        if progress.paused or progress.sealed or run != progress.run or self.stopped is not None:
            return []
        progress.paused = True
        return [Resume(server)]

    def _commit(self) -> list[Effect]:
        """Acknowledge, in order, the batches of all waves that a majority has accepted."""
        committed = committed_tail([progress.acked for progress in self._progress.values()], len(self._progress))
        if committed <= self.committed:
            return []
        self.committed = committed
        effects: list[Effect] = []
        while self._flights and self._flights[0].wave.stop <= committed:
            for placement in self._flights.popleft().placements:
                appended = NativeAppended(first=placement.first, known_tail=committed)
                effects += [NativeResolve(ticket, appended) for ticket in placement.commit()]
        while self._mismatches and self._mismatches[0][0] <= committed:
            _, ticket, mismatch = self._mismatches.popleft()
            effects.append(NativeResolve(ticket, mismatch))
        return effects

    # -- the end --------------------------------------------------------------------------------------------------

    def _saw_seal(self, server: NodeId) -> list[Effect]:
        """Note that one server is sealed. Ask the others at once, rather than wait until appends
        fail one by one."""
        if self._progress[server].sealed:
            return []
        self._progress[server].sealed = True
        if sum(progress.sealed for progress in self._progress.values()) >= self.config.majority:
            return self.stop(SealedError())
        return [AskState(other) for other, progress in self._progress.items() if not progress.sealed]

    def stop(self, error: VirtualLogError) -> list[Effect]:
        """Accept no more batches, for good. Pending ones may be in the log or not: their callers
        must look below the final tail."""
        self.stopped = error
        waiting = [placement for flight in self._flights for placement in flight.placements] + list(self._queue)
        tickets = [ticket for placement in waiting for ticket in placement.commit()]
        tickets += [ticket for _, ticket, _ in self._mismatches]
        self._flights.clear()
        self._queue.clear()
        self._mismatches.clear()
        self._queued_bytes = 0
        self._sessions.end()  # this object stays as long as its segment is in the chain
        self._refusals = RejectedConditions()
        return [NativeResolve(ticket, error) for ticket in tickets]

    def _turned_away(self, batch: Batch) -> VirtualLogError:
        """Error for a batch that arrives after the end.

        It says that nothing is in the log only if that is certain: this may be the second copy of
        an offer, and its answer may arrive before the first one's.
        """
        assert self.stopped is not None
        if not isinstance(self.stopped, SealedError):
            return self.stopped
        return attrs.evolve(self.stopped, refused=not self._sessions.may_have_placed(batch))
