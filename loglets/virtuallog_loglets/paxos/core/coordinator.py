"""The coordinator of one log: election, and the states around it. Its work while it leads is in `leader_term.py`.

              elect              a quorum has promised            caught_up
    INITIAL ---------> ELECTING ----------------------> CATCHING_UP --------> LEADING ---> CLOSED, once a SEAL is decided
       ^                  |                                 |                    |
       '------------------'---------------------------------'--------------------'   any REJECT, any failure

It leads once everything that a quorum knows of is decided and learned by the local replica. Only then are the sessions
of all earlier appends known, and reads go to that replica. It never continues with the number of a competitor (defect 3
of docs/internals/sources.md).

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
from virtuallog.exactly_once.rejected_conditions import RejectedConditions
from virtuallog.exactly_once.session_table import SessionTable
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.core.effects import CatchUp, CoordinatorEffect, PaxosResolve, PaxosSend
from virtuallog_loglets.paxos.core.leader_term import BatchDeduplicator, LeaderTerm
from virtuallog_loglets.paxos.core.position_digest import PositionDigest
from virtuallog_loglets.paxos.core.proposal_queue import ClientTicket
from virtuallog_loglets.paxos.core.replication import Replicator
from virtuallog_loglets.paxos.core.rounds import Accepted, CrashVector, Ignored, Rejected, Round
from virtuallog_loglets.paxos.messages import NO_NODE, NOWHERE, PaxosWritten, Promise, Promised, Standing
from virtuallog_loglets.paxos.offsets import offset_of


class CoordinatorState(enum.Enum):
    """State of a coordinator; see the diagram of the module."""

    INITIAL = "initial"
    ELECTING = "electing"
    CATCHING_UP = "catching up"
    LEADING = "leading"
    CLOSED = "closed"


@attrs.define(eq=False)
class Coordinator:
    """Core: takes requests, answers, turns and ticks, returns effects.

    Takes client requests only while it leads or is CLOSED.
    """

    segment: SegmentId
    node: NodeId
    ensemble: Ensemble
    state: CoordinatorState = attrs.field(default=CoordinatorState.INITIAL, init=False)
    stopped: VirtualLogError | None = attrs.field(default=None, init=False)
    """Reason why it has stopped for good; None if it has not."""
    proposal: int = attrs.field(default=0, init=False)
    """Highest number that was tried here or that a replica named in a REJECT."""
    known_leader: NodeId = attrs.field(default=NO_NODE, init=False)
    """Node that owned the number of the last REJECT; NO_NODE once this coordinator leads."""
    refusals: int = attrs.field(default=0, init=False)
    """Count of REJECTs that ended an election or a term."""
    seal: int = attrs.field(default=NOWHERE, init=False)
    """Position of the SEAL if CLOSED, NOWHERE otherwise."""
    term: LeaderTerm | None = attrs.field(default=None, init=False)
    """Current term: set while it leads, and when it is CLOSED by itself. None otherwise."""
    _end: int = attrs.field(default=0, init=False)
    """Highest position that the electing quorum knew of."""
    _rounds: Iterator[int] = attrs.field(factory=lambda: count(1), init=False)
    _crash_vector: CrashVector = attrs.field(factory=CrashVector, init=False)
    _refusals: RejectedConditions = attrs.field(factory=RejectedConditions, init=False)
    """Refused conditions, kept across terms: a copy of a refused call may arrive at any time."""
    _election: Round | None = attrs.field(default=None, init=False)
    _number: int = attrs.field(default=0, init=False)
    """Round number of the election."""
    _silent: set[NodeId] = attrs.field(factory=set, init=False)
    """Replicas that failed to answer in this election."""

    @property
    def has_work(self) -> bool:
        """True if `turn` would do something."""
        return self.term is not None and self.term.has_work

    @property
    def may_hurry(self) -> bool:
        """True if a batch should be written before the scheduler turn ends; see `LeaderTerm.may_hurry`."""
        return self.term is not None and self.term.may_hurry

    @property
    def has_write_in_flight(self) -> bool:
        """True if a position is being written."""
        return self.term is not None and self.term.has_write_in_flight

    @property
    def needs_ticks(self) -> bool:
        """True if `tick` may have something to do."""
        return self.term is not None and self.term.needs_ticks

    # -- election -------------------------------------------------------------------------------------------------

    def elect(self, promised: int) -> list[CoordinatorEffect]:
        """Start an election with a number above all known here; `promised` is the implicit promise of the local replica."""
        assert self.state is CoordinatorState.INITIAL
        assert self.stopped is None
        self.state = CoordinatorState.ELECTING
        self.proposal = max(self.proposal, promised) + 1
        self._election, self._silent, self._number = (
            Round(self.ensemble.quorum, self._crash_vector),
            set(),
            next(self._rounds),
        )
        promise = Promise(segment=self.segment, proposal=self.proposal, coordinator=self.node)
        return [PaxosSend(self.ensemble.members, promise, self._number)]

    def promised(self, node: NodeId, number: int, reply: Promised) -> list[CoordinatorEffect]:
        """Take a replica's answer to the promise."""
        if self.state is not CoordinatorState.ELECTING or number != self._number:
            return []
        assert self._election is not None
        match self._election.count(node, reply):
            case Accepted(answers):
                self._end = max(answer.end for answer in answers)
                self.state = CoordinatorState.CATCHING_UP
                # One above: a replica without a record at a missing position has just promised our number there.
                return [CatchUp(self._end + 1, self.proposal + 1)]
            case Rejected() as rejection:
                return self._step_down(rejection)
            case Ignored():
                return self.resign("a quorum of the replicas does not vote")
            case None:
                return []

    def caught_up(self, digest: PositionDigest, now_ms: int) -> list[CoordinatorEffect]:
        """Begin to lead: the local replica has learned everything through the highest position of the electing quorum.

        Args:
            digest: sessions of all these positions.
            now_ms: time of a clock that does not jump, in milliseconds.
        """
        assert self.state is CoordinatorState.CATCHING_UP
        assert digest.stop > self._end
        self.state, self.known_leader = CoordinatorState.LEADING, NO_NODE
        replicator = Replicator(
            self.segment, self.node, self.ensemble, self.proposal, self._end + 1, self._crash_vector, self._rounds
        )
        self.term = LeaderTerm(replicator, BatchDeduplicator(SessionTable.of_digest(digest, now_ms), self._refusals))
        # Nothing is decided yet. Replicas learn who leads, so that other candidates send their clients here.
        return [replicator.announce()]

    def close(self, position: int) -> list[CoordinatorEffect]:
        """Close: the local replica has learned a SEAL and everything below."""
        if self.state is CoordinatorState.CLOSED:
            return []
        self.state, self.seal = CoordinatorState.CLOSED, position
        return self._end_term(UnavailableError("unknown outcome: another coordinator has closed the log"))

    def resign(self, reason: str) -> list[CoordinatorEffect]:
        """Give up leading, or the election."""
        if self.state is CoordinatorState.CLOSED:
            return []
        self.state = CoordinatorState.INITIAL
        return self._end_term(UnavailableError(f"unknown outcome: {reason}"))

    def stop(self, error: VirtualLogError) -> list[CoordinatorEffect]:
        """Stop for good. Pending requests fail with `error`; they may be in the log or not."""
        self.stopped, self.state = error, CoordinatorState.INITIAL
        return self._end_term(error)

    # -- requests of clients --------------------------------------------------------------------------------------

    def offer(
        self, batch: Batch, ticket: ClientTicket, now_ms: int, *, opens: bool, expected_tail: int
    ) -> list[CoordinatorEffect]:
        """Take a checked batch; it is resolved with its offset once it is decided."""
        if self.term is None:
            return [self._closed(ticket)]
        return self.term.offer(batch, ticket, now_ms, opens=opens, expected_tail=expected_tail)

    def append(self, payload: bytes, ticket: ClientTicket) -> list[CoordinatorEffect]:
        """Append bytes without a session; see `LeaderTerm.append`."""
        return [self._closed(ticket)] if self.term is None else self.term.append(payload, ticket)

    def truncate(self, to: int, trim: int, digest: bytes, ticket: ClientTicket) -> list[CoordinatorEffect]:
        """Have a TRUNCATE decided; see `LeaderTerm.truncate`."""
        if self.term is None:
            return [self._closed(ticket)]
        return self._after(self.term, self.term.truncate(to, trim, digest, ticket))

    def seal_log(self, ticket: ClientTicket) -> list[CoordinatorEffect]:
        """Have a SEAL decided as the last position; resolved with that position."""
        if self.term is None:
            assert self.state is CoordinatorState.CLOSED
            return [PaxosResolve(ticket, self.seal)]
        return self.term.seal_log(ticket)

    def settle(self, past: int, ticket: ClientTicket) -> list[CoordinatorEffect]:
        """Have all known positions decided; see `LeaderTerm.settle`."""
        if self.term is None:
            assert self.state is CoordinatorState.CLOSED
            return [PaxosResolve(ticket, offset_of(self.seal))]
        return self._after(self.term, self.term.settle(past, ticket))

    # -- writing --------------------------------------------------------------------------------------------------

    def turn(self, now_ms: int, time_ms: int) -> list[CoordinatorEffect]:
        """Write what was offered during one scheduler turn. `time_ms` is the time of day."""
        if self.term is None:
            return []
        self.term.replicator.ensemble = self.ensemble
        return self.term.turn(now_ms, time_ms)

    def written(self, node: NodeId, number: int, reply: PaxosWritten) -> list[CoordinatorEffect]:
        """Take a replica's answer to a write."""
        return [] if self.term is None else self._after(self.term, self.term.written(node, number, reply))

    def confirmed(self, node: NodeId, number: int, standing: Standing) -> list[CoordinatorEffect]:
        """Take a replica's answer to `GetStanding`."""
        return [] if self.term is None else self._after(self.term, self.term.confirmed(node, number, standing))

    def unanswered(self, node: NodeId, number: int) -> list[CoordinatorEffect]:
        """Note that a replica did not answer, or answered with an error."""
        if self.term is not None:
            self.term.replicator.unanswered(node, number)
        elif self.state is CoordinatorState.ELECTING and number == self._number:
            self._silent.add(node)
            if len(self.ensemble.members) - len(self._silent) < self.ensemble.quorum:
                return self.resign("not enough replicas answer")
        return []

    def tick(self, now_ms: int) -> list[CoordinatorEffect]:
        """Retry and time out: some milliseconds have passed."""
        return [] if self.term is None else self._after(self.term, self.term.tick(now_ms))

    # -- the end of a term ----------------------------------------------------------------------------------------

    def _after(self, term: LeaderTerm, effects: list[CoordinatorEffect]) -> list[CoordinatorEffect]:
        """Effects of the term, and those of its end if it was lost or closed the log."""
        lost = term.replicator.lost
        if lost is not None and self.state is CoordinatorState.LEADING:
            return effects + (self._step_down(lost) if isinstance(lost, Rejected) else self.resign(lost))
        if term.seal != NOWHERE:
            self.state, self.seal = CoordinatorState.CLOSED, term.seal
        return effects

    def _step_down(self, rejection: Rejected) -> list[CoordinatorEffect]:
        self.refusals += 1
        self.proposal = max(self.proposal, rejection.proposal)
        self.known_leader = rejection.coordinator if rejection.coordinator != self.node else NO_NODE
        return self.resign(f"proposal {rejection.proposal} is in the way")

    def _end_term(self, error: VirtualLogError) -> list[CoordinatorEffect]:
        term, self.term, self._election = self.term, None, None
        return [] if term is None else term.give_up(error)

    def _closed(self, ticket: ClientTicket) -> PaxosResolve:
        """SealedError that leaves open whether an earlier copy of the request was placed."""
        assert self.state is CoordinatorState.CLOSED
        return PaxosResolve(ticket, SealedError())
