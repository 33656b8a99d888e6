"""The coordinator of one log: who stands for election, and what follows. What it does while it leads is in `reign.py`. Pure.

              elect              a quorum has promised            caught_up
    INITIAL ---------> ELECTING ----------------------> CATCHING_UP --------> LEADING ---> CLOSED, once a SEAL is decided
       ^                  |                                 |                    |
       '------------------'---------------------------------'--------------------'   any REJECT, any failure

It leads once everything that a quorum knows of is decided and known to the local replica: only then the sessions of all that
came before are known, and reads go there. It never goes on with the number of a competitor (defect 3 of docs/internals/sources.md).

Source: Mesos, src/log/coordinator.cpp.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from itertools import count

import attrs

from virtuallog.contract.batch import Batch
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import SealedError, UnavailableError, VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog.ordering.rejected_conditions import RejectedConditions
from virtuallog.ordering.session_table import SessionTable
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.core.effects import CatchUp, CoordinatorEffect, PaxosResolve, PaxosSend
from virtuallog_loglets.paxos.core.leader import BatchDeduplicator, LeaderTerm
from virtuallog_loglets.paxos.core.proposal_queue import ClientTicket
from virtuallog_loglets.paxos.core.replication import Replicator
from virtuallog_loglets.paxos.core.rounds import Accepted, CrashVector, Ignored, Rejected, Round
from virtuallog_loglets.paxos.core.session_digest import SessionDigest
from virtuallog_loglets.paxos.messages import NO_NODE, NOWHERE, PaxosWritten, Promise, Promised, Standing
from virtuallog_loglets.paxos.offsets import offset_of


class CoordinatorState(enum.Enum):
    INITIAL = "initial"
    ELECTING = "electing"
    CATCHING_UP = "catching up"
    LEADING = "leading"
    CLOSED = "closed"


@attrs.define(eq=False)
class Coordinator:
    """Requests, answers, turns and ticks in, effects out. Requests of clients only while it leads, or is closed."""

    segment: SegmentId
    node: NodeId
    ensemble: Ensemble
    state: CoordinatorState = attrs.field(default=CoordinatorState.INITIAL, init=False)
    stopped: VirtualLogError | None = attrs.field(default=None, init=False)
    """For good, and why."""
    proposal: int = attrs.field(default=0, init=False)
    """The highest number that was tried here, or was in the way."""
    rival: NodeId = attrs.field(default=NO_NODE, init=False)
    """Who was in the way last; nobody once this one leads."""
    refusals: int = attrs.field(default=0, init=False)
    """How often a higher number was in the way."""
    seal: int = attrs.field(default=NOWHERE, init=False)
    """Position of the SEAL, if CLOSED."""
    reign: LeaderTerm | None = attrs.field(default=None, init=False)
    """While it leads; and once it is CLOSED, if it has closed the log itself."""
    _end: int = attrs.field(default=0, init=False)
    """Highest position that the electing quorum knew of."""
    _rounds: Iterator[int] = attrs.field(factory=lambda: count(1), init=False)
    _roll: CrashVector = attrs.field(factory=CrashVector, init=False)
    _refusals: RejectedConditions = attrs.field(factory=RejectedConditions, init=False)
    """Kept from reign to reign: a copy of a refused call may come at any time."""
    _election: Round | None = attrs.field(default=None, init=False)
    _number: int = attrs.field(default=0, init=False)
    """Of the election's round."""
    _silent: set[NodeId] = attrs.field(factory=set, init=False)
    """Who has not answered in this election, nor will."""

    @property
    def has_work(self) -> bool:
        """Whether `turn` would do something."""
        return self.reign is not None and self.reign.has_work

    @property
    def may_hurry(self) -> bool:
        """See `LeaderTerm.may_hurry`."""
        return self.reign is not None and self.reign.may_hurry

    @property
    def has_write_in_flight(self) -> bool:
        """Whether a position is being written."""
        return self.reign is not None and self.reign.has_write_in_flight

    @property
    def needs_ticks(self) -> bool:
        """Whether `tick` may have something to do."""
        return self.reign is not None and self.reign.needs_ticks

    # -- election -------------------------------------------------------------------------------------------------

    def elect(self, promised: int) -> list[CoordinatorEffect]:
        """Stand, with a number above all that is known here; `promised` is the local replica's."""
        assert self.state is CoordinatorState.INITIAL
        assert self.stopped is None
        self.state = CoordinatorState.ELECTING
        self.proposal = max(self.proposal, promised) + 1
        self._election, self._silent, self._number = Round(self.ensemble.quorum, self._roll), set(), next(self._rounds)
        promise = Promise(segment=self.segment, proposal=self.proposal, coordinator=self.node)
        return [PaxosSend(self.ensemble.members, promise, self._number)]

    def promised(self, node: NodeId, number: int, reply: Promised) -> list[CoordinatorEffect]:
        """A replica has answered the promise."""
        if self.state is not CoordinatorState.ELECTING or number != self._number:
            return []
        assert self._election is not None
        match self._election.count(node, reply):
            case Accepted(answers):
                self._end = max(answer.end for answer in answers)
                self.state = CoordinatorState.CATCHING_UP
                # One above: who has no record at a missing position has just promised our number there.
                return [CatchUp(self._end + 1, self.proposal + 1)]
            case Rejected() as rejection:
                return self._step_down(rejection)
            case Ignored():
                return self.resign("a quorum of the replicas does not vote")
            case None:
                return []

    def caught_up(self, digest: SessionDigest, now_ms: int) -> list[CoordinatorEffect]:
        """The local replica has learned everything through the highest position of the electing quorum. `digest` covers it."""
        assert self.state is CoordinatorState.CATCHING_UP
        assert digest.stop > self._end
        self.state, self.rival = CoordinatorState.LEADING, NO_NODE
        writing = Replicator(
            self.segment, self.node, self.ensemble, self.proposal, self._end + 1, self._roll, self._rounds
        )
        self.reign = LeaderTerm(writing, BatchDeduplicator(_recall(digest, now_ms), self._refusals))
        # Nothing is decided yet, but replicas are told who leads: those who could not be elected send their clients here.
        return [writing.announce()]

    def close(self, position: int) -> list[CoordinatorEffect]:
        """The local replica has learned a SEAL, and everything below."""
        if self.state is CoordinatorState.CLOSED:
            return []
        self.state, self.seal = CoordinatorState.CLOSED, position
        return self._end_reign(UnavailableError("unknown outcome: another coordinator has closed the log"))

    def resign(self, reason: str) -> list[CoordinatorEffect]:
        """Lead no longer, or stand no longer."""
        if self.state is CoordinatorState.CLOSED:
            return []
        self.state = CoordinatorState.INITIAL
        return self._end_reign(UnavailableError(f"unknown outcome: {reason}"))

    def stop(self, error: VirtualLogError) -> list[CoordinatorEffect]:
        """Take no more, for good. What is pending may be in the log or not."""
        self.stopped, self.state = error, CoordinatorState.INITIAL
        return self._end_reign(error)

    # -- what clients want ----------------------------------------------------------------------------------------

    def offer(
        self, batch: Batch, ticket: ClientTicket, now_ms: int, *, opens: bool, expected_tail: int
    ) -> list[CoordinatorEffect]:
        """A checked batch has arrived; it is resolved with its offset once it is decided."""
        if self.reign is None:
            return [self._closed(ticket)]
        return self.reign.offer(batch, ticket, now_ms, opens=opens, expected_tail=expected_tail)

    def append(self, payload: bytes, ticket: ClientTicket) -> list[CoordinatorEffect]:
        """See `LeaderTerm.append`."""
        return [self._closed(ticket)] if self.reign is None else self.reign.append(payload, ticket)

    def truncate(self, to: int, trim: int, digest: bytes, ticket: ClientTicket) -> list[CoordinatorEffect]:
        """See `LeaderTerm.truncate`."""
        if self.reign is None:
            return [self._closed(ticket)]
        return self._after(self.reign, self.reign.truncate(to, trim, digest, ticket))

    def seal_log(self, ticket: ClientTicket) -> list[CoordinatorEffect]:
        """Have a SEAL decided as the last position; resolved with it."""
        if self.reign is None:
            assert self.state is CoordinatorState.CLOSED
            return [PaxosResolve(ticket, self.seal)]
        return self.reign.seal_log(ticket)

    def settle(self, past: int, ticket: ClientTicket) -> list[CoordinatorEffect]:
        """See `LeaderTerm.settle`."""
        if self.reign is None:
            assert self.state is CoordinatorState.CLOSED
            return [PaxosResolve(ticket, offset_of(self.seal))]
        return self._after(self.reign, self.reign.settle(past, ticket))

    # -- writing --------------------------------------------------------------------------------------------------

    def turn(self, now_ms: int, time_ms: int) -> list[CoordinatorEffect]:
        """All that arrived in one scheduler turn has been offered: write it. `time_ms` is the time of day."""
        if self.reign is None:
            return []
        self.reign.writing.ensemble = self.ensemble
        return self.reign.turn(now_ms, time_ms)

    def written(self, node: NodeId, number: int, reply: PaxosWritten) -> list[CoordinatorEffect]:
        """A replica has answered a write."""
        return [] if self.reign is None else self._after(self.reign, self.reign.written(node, number, reply))

    def confirmed(self, node: NodeId, number: int, standing: Standing) -> list[CoordinatorEffect]:
        """A replica has said how it stands."""
        return [] if self.reign is None else self._after(self.reign, self.reign.confirmed(node, number, standing))

    def unanswered(self, node: NodeId, number: int) -> list[CoordinatorEffect]:
        """No answer, or an error instead."""
        if self.reign is not None:
            self.reign.writing.unanswered(node, number)
        elif self.state is CoordinatorState.ELECTING and number == self._number:
            self._silent.add(node)
            if len(self.ensemble.members) - len(self._silent) < self.ensemble.quorum:
                return self.resign("not enough replicas answer")
        return []

    def tick(self, now_ms: int) -> list[CoordinatorEffect]:
        """Some milliseconds have passed."""
        return [] if self.reign is None else self._after(self.reign, self.reign.tick(now_ms))

    # -- the end of a reign ---------------------------------------------------------------------------------------

    def _after(self, reign: LeaderTerm, effects: list[CoordinatorEffect]) -> list[CoordinatorEffect]:
        """What the reign has wanted, and its end if it has met that."""
        lost = reign.writing.lost
        if lost is not None and self.state is CoordinatorState.LEADING:
            return effects + (self._step_down(lost) if isinstance(lost, Rejected) else self.resign(lost))
        if reign.seal != NOWHERE:
            self.state, self.seal = CoordinatorState.CLOSED, reign.seal
        return effects

    def _step_down(self, rejection: Rejected) -> list[CoordinatorEffect]:
        self.refusals += 1
        self.proposal = max(self.proposal, rejection.proposal)
        self.rival = rejection.coordinator if rejection.coordinator != self.node else NO_NODE
        return self.resign(f"proposal {rejection.proposal} is in the way")

    def _end_reign(self, error: VirtualLogError) -> list[CoordinatorEffect]:
        reign, self.reign, self._election = self.reign, None, None
        return [] if reign is None else reign.give_up(error)

    def _closed(self, ticket: ClientTicket) -> PaxosResolve:
        """Whether an earlier copy of this request was placed is not known here."""
        assert self.state is CoordinatorState.CLOSED
        return PaxosResolve(ticket, SealedError())


def _recall(digest: SessionDigest, now_ms: int) -> SessionTable:
    sessions = SessionTable(has_forgotten=digest.has_forgotten)
    for each in digest.sessions():
        places = [(batch.first_sequence, batch.place) for batch in each.last]
        sessions.recall(each.session, each.next_sequence, places, now_ms)
    return sessions
