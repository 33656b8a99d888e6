"""Writes of a leader: one position in flight, sent until a quorum has accepted it.

Rules (docs/internals/protocols/paxos.md, "Coordinator", gives the reasons):
* One position is in flight, and positions are consecutive.
* The value of a position is made once, and sent again unchanged to replicas that have not accepted it.
* Any refusal, and any position that another proposer has decided, ends the term (`lost`).
* Replicas that do not vote now end nothing: the same write is sent again (defect 4 of docs/internals/sources.md).

Source: Mesos, src/log/coordinator.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.core.effects import Announce, CoordinatorEffect, LearnLocally, PaxosSend
from virtuallog_loglets.paxos.core.proposal_queue import QueuedPosition
from virtuallog_loglets.paxos.core.rounds import Accepted, CrashVector, Rejected, Round
from virtuallog_loglets.paxos.messages import Decided, Learn, PaxosWrite, PaxosWritten, Verdict

RESEND_MS: Final = 1000
"""Wait before a write is sent again to a replica that has not answered."""
RETRY_MS: Final = 50
"""Wait before a write is sent again to a replica that failed or does not vote now: found soon after
a restart, not flooded."""
PATIENCE_MS: Final = 4000
"""Wait for a quorum to accept a position; then the lead is given up. Clients wait for five seconds."""


@attrs.define(eq=False)
class InFlightWrite:
    """The position that is being written. Times are in milliseconds."""

    item: QueuedPosition
    write: PaxosWrite
    round: int
    votes: Round
    since_ms: int
    sent_ms: int
    retried_ms: int
    failed: set[NodeId] = attrs.field(factory=set)
    """Replicas that failed or do not vote, since the last retry."""


@attrs.define(eq=False)
class Replicator:
    """Writes the positions of one term.

    Times are in milliseconds, of a clock that does not jump, unless they are called times of day.
    """

    segment: SegmentId
    node: NodeId
    ensemble: Ensemble
    proposal: int
    first: int
    """First position of the term. Everything before is decided and learned by the local replica."""
    crash_vector: CrashVector
    rounds: Iterator[int]
    committed: int = attrs.field(init=False)
    """First position that is not decided; everything below is."""
    lost: Rejected | str | None = attrs.field(default=None, init=False)
    """Reason why the term is over; None while it lasts."""
    flight: InFlightWrite | None = attrs.field(default=None, init=False)
    """The write in flight; None if there is none."""
    was_alone: bool = attrs.field(default=False, init=False)
    """True if the last position had one batch."""
    _began: int = attrs.field(init=False)
    """A round number below all rounds of this term."""
    _time_ms: int = attrs.field(default=0, init=False)
    """Time of day of the last value; values of one coordinator never go back in time."""
    _announced: int = attrs.field(init=False)
    """Replicas have been sent that every position of this term below this one is decided."""
    _awaited: bool = attrs.field(default=False, init=False)
    """True if another replica has said that a client waits there for what was written since `_announced` moved."""
    _last_tick_committed: int = attrs.field(init=False)
    """`committed` at the last tick."""

    def __attrs_post_init__(self) -> None:
        self.committed = self._announced = self._last_tick_committed = self.first
        self._began = next(self.rounds)

    @property
    def has_unannounced(self) -> bool:
        """True if something is decided that replicas have not been sent."""
        return self._announced < self.committed

    @property
    def is_announcement_due(self) -> bool:
        """True if a client waits at another replica for what is decided, and no write in flight tells it."""
        return self._awaited and self.has_unannounced and self.flight is None

    @property
    def needs_ticks(self) -> bool:
        """True if `tick` may have something to do."""
        return self.flight is not None or self.has_unannounced

    def start(self, item: QueuedPosition, now_ms: int, time_ms: int) -> list[CoordinatorEffect]:
        """Write the next position."""
        assert self.flight is None, "one position is in flight"
        assert item.position == self.committed, "positions are consecutive"
        self._time_ms = max(self._time_ms, time_ms)
        write = PaxosWrite(
            segment=self.segment,
            proposal=self.proposal,
            coordinator=self.node,
            first=item.position,
            values=(item.value(self._time_ms),),
            decided=self._decided(),
        )
        self._announced, self._awaited = self.committed, False
        self.was_alone = len(item.placements) == 1
        votes = Round(self.ensemble.quorum, self.crash_vector)
        self.flight = InFlightWrite(item, write, next(self.rounds), votes, now_ms, now_ms, now_ms)
        return [PaxosSend(self.ensemble.members, write, self.flight.round)]

    def written(self, node: NodeId, number: int, reply: PaxosWritten) -> InFlightWrite | None:
        """Take a replica's answer to a write.

        Returns:
            The write that is decided by that, for `commit`; None if none is.
        """
        flight = self.flight
        if reply.has_waiters and node != self.node:  # the local replica learns in `commit`
            self._awaited = True
        if flight is None or number != flight.round:
            self._count_late_reply(node, number, reply)
            return None
        outcome = flight.votes.count(node, reply)
        if any(record.learned and record.position == flight.item.position for record in reply.records):
            # Even if it is our value: it was decided with another number, so `_decided` must not name ours.
            self.lost = f"position {flight.item.position} was decided by another coordinator"
        elif isinstance(outcome, Rejected):
            self.lost = outcome
        elif isinstance(outcome, Accepted):
            return flight
        elif not flight.votes.has_accepted(node):
            flight.failed.add(node)
        return None

    def commit(self, flight: InFlightWrite) -> list[CoordinatorEffect]:
        """Mark the position decided.

        The local replica learns it first, as a client that is answered may read there.
        """
        assert flight.item.position == self.committed, "decided in the order of positions"
        self.flight = None
        self.committed += 1
        return [LearnLocally(self._decided(), len(flight.write.values[0]))]

    def unanswered(self, node: NodeId, number: int) -> None:
        """Note that a replica did not answer, or answered with an error."""
        if self.flight is not None and number == self.flight.round:
            self.flight.failed.add(node)

    def tick(self, now_ms: int) -> list[CoordinatorEffect]:
        """Send again, announce or give up: some milliseconds have passed."""
        effects: list[CoordinatorEffect] = []
        if self.flight is not None:
            effects = self._send_again(self.flight, now_ms)
        elif self.has_unannounced and self.committed == self._last_tick_committed:
            effects = [self.announce()]
        self._last_tick_committed = self.committed
        return effects

    def announce(self) -> Announce:
        """Send replicas who leads and what is decided, without waiting for the next write."""
        self._announced, self._awaited = self.committed, False
        learn = Learn(segment=self.segment, decided=self._decided(), coordinator=self.node)
        return Announce(self.ensemble.members, learn)

    def _decided(self) -> Decided:
        """Positions that this term has decided, all with its number, as no quorum accepted another number meanwhile.

        The range is empty at first; then the number alone tells who leads.
        """
        return Decided(proposal=self.proposal, first=self.first, stop=self.committed)

    def _send_again(self, flight: InFlightWrite, now_ms: int) -> list[CoordinatorEffect]:
        """Send the same write to replicas that have not accepted it.

        A replica that misses it for good catches up later.
        """
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
        return [PaxosSend(nodes, flight.write, flight.round)] if nodes else []

    def _count_late_reply(self, node: NodeId, number: int, reply: PaxosWritten) -> None:
        """Take an answer to a decided write, or to one of an earlier term.

        A REJECT means that another node was elected.
        """
        self.crash_vector.hear(node, reply.incarnation, reply.incarnations)
        if number > self._began and reply.verdict is Verdict.REJECT and reply.proposal > self.proposal:
            self.lost = Rejected(reply.proposal, reply.coordinator)
