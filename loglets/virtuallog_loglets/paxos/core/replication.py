"""How a coordinator that leads writes: one position in flight, sent until a quorum has accepted it.                 Pure.

Rules (docs/internals/protocols/paxos.md, "Coordinator", says why):
* One position is in flight, and positions are consecutive.
* A value is made once for a position: it is sent again as it is, to who has not accepted it.
* Any refusal, and any position that somebody else has decided, ends the reign (`lost`).
* Who does not vote now is no reason to stop: the same write is sent again (defect 4 of docs/internals/sources.md).

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
"""Who has not answered a write for so long is sent it again."""
RETRY_MS: Final = 50
"""The same for who has failed to, or does not vote now: a replica that restarts is found soon, and not flooded."""
PATIENCE_MS: Final = 4000
"""A position that no quorum accepts for so long is given up, and with it the lead: clients wait for five seconds."""


@attrs.define(eq=False)
class InFlightWrite:
    """The position that is being written."""

    item: QueuedPosition
    write: PaxosWrite
    round: int
    votes: Round
    since_ms: int
    sent_ms: int
    retried_ms: int
    failed: set[NodeId] = attrs.field(factory=set)


@attrs.define(eq=False)
class Replicator:
    """Of one reign. Times are those of a clock that does not jump, in milliseconds, unless they are called times of day."""

    segment: SegmentId
    node: NodeId
    ensemble: Ensemble
    proposal: int
    first: int
    """Its first position. Everything before is decided, and known to the local replica."""
    roll: CrashVector
    rounds: Iterator[int]
    committed: int = attrs.field(init=False)
    """Everything below this position is decided."""
    lost: Rejected | str | None = attrs.field(default=None, init=False)
    """Why the reign is over."""
    flight: InFlightWrite | None = attrs.field(default=None, init=False)
    was_alone: bool = attrs.field(default=False, init=False)
    """The last position had one batch."""
    _began: int = attrs.field(init=False)
    """All rounds of this reign are later."""
    _time_ms: int = attrs.field(default=0, init=False)
    """Of day; values of one coordinator never go back in time."""
    _told: int = attrs.field(init=False)
    """Replicas have been sent that everything of this reign below is decided."""
    _quiet: int = attrs.field(init=False)
    """`committed` at the last tick."""

    def __attrs_post_init__(self) -> None:
        self.committed = self._told = self._quiet = self.first
        self._began = next(self.rounds)

    @property
    def has_unannounced(self) -> bool:
        """Whether something is decided that replicas have not been sent."""
        return self._told < self.committed

    @property
    def needs_ticks(self) -> bool:
        """Whether `tick` may have something to do."""
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
        self._told = self.committed
        self.was_alone = len(item.placements) == 1
        votes = Round(self.ensemble.quorum, self.roll)
        self.flight = InFlightWrite(item, write, next(self.rounds), votes, now_ms, now_ms, now_ms)
        return [PaxosSend(self.ensemble.members, write, self.flight.round)]

    def written(self, node: NodeId, number: int, reply: PaxosWritten) -> InFlightWrite | None:
        """A replica has answered a write. Returns what is decided by that, which is then to be committed."""
        flight = self.flight
        if flight is None or number != flight.round:
            self._count_late_reply(node, number, reply)
            return None
        outcome = flight.votes.count(node, reply)
        if any(record.learned and record.position == flight.item.position for record in reply.records):
            # Also if it is our value: then it was decided with another number, and `_decided` could not say so of ours.
            self.lost = f"position {flight.item.position} was decided by somebody else"
        elif isinstance(outcome, Rejected):
            self.lost = outcome
        elif isinstance(outcome, Accepted):
            return flight
        elif not flight.votes.has_accepted(node):
            flight.failed.add(node)
        return None

    def commit(self, flight: InFlightWrite) -> list[CoordinatorEffect]:
        """A quorum has it. The local replica is told first: who is told next may read there."""
        assert flight.item.position == self.committed, "decided in the order of positions"
        self.flight = None
        self.committed += 1
        return [LearnLocally(self._decided(), len(flight.write.values[0]))]

    def unanswered(self, node: NodeId, number: int) -> None:
        """No answer, or an error instead."""
        if self.flight is not None and number == self.flight.round:
            self.flight.failed.add(node)

    def tick(self, now_ms: int) -> list[CoordinatorEffect]:
        """Some milliseconds have passed."""
        effects: list[CoordinatorEffect] = []
        if self.flight is not None:
            effects = self._send_again(self.flight, now_ms)
        elif self.has_unannounced and self.committed == self._quiet:
            effects = [self.announce()]
        self._quiet = self.committed
        return effects

    def announce(self) -> Announce:
        """Replicas learn who leads, and what is decided, without waiting for the next write."""
        self._told = self.committed
        learn = Learn(segment=self.segment, decided=self._decided(), coordinator=self.node)
        return Announce(self.ensemble.members, learn)

    def _decided(self) -> Decided:
        """What this reign has decided: all with its number, as nobody else's was accepted by a quorum meanwhile. Nothing, at first;
        then the number alone says whose turn it is."""
        return Decided(proposal=self.proposal, first=self.first, stop=self.committed)

    def _send_again(self, flight: InFlightWrite, now_ms: int) -> list[CoordinatorEffect]:
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
        return [PaxosSend(nodes, flight.write, flight.round)] if nodes else []

    def _count_late_reply(self, node: NodeId, number: int, reply: PaxosWritten) -> None:
        """To a write that is decided, or of an earlier reign. A refusal says that somebody else has been elected."""
        self.roll.hear(node, reply.incarnation, reply.incarnations)
        if number > self._began and reply.verdict is Verdict.REJECT and reply.proposal > self.proposal:
            self.lost = Rejected(reply.proposal, reply.coordinator)
