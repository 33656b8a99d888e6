"""Pending reads, refusals and seals, and the leadership check they need (etcd: ReadIndex).

A tail or a refusal must rest on decided positions. Where nothing is written, a quorum must confirm that the coordinator
still leads. A coordinator elected since has a higher promise from some replica of every quorum. So if a quorum reports
no higher promise, no other node was elected before the question was sent.

Standings also tell how far replicas have gone. A position behind the coordinator's end may come from an earlier
coordinator that left it at a minority, or from a recovering replica that filled it with a promise for that position
alone. Such a position is seen here, and is written over or lost to. Only behind it the coordinator's tail is that of the
log. So tails and refusals are given as of that moment: an offer that looks wrong on arrival is held in a `PendingRead`
and judged again once the lead is confirmed.
"""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import OverloadedError, VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.core.proposal_queue import ClientTicket
from virtuallog_loglets.paxos.core.rounds import CrashVector
from virtuallog_loglets.paxos.messages import NOWHERE, Standing, Status

PENDING_MAX: Final = 4096
"""Cap on requests that wait. The wait takes milliseconds, or for ever if a quorum is away: callers
give up and new ones come."""
HELD_BYTES_MAX: Final = 32 << 20
"""Cap on bytes of held offers, equal to the bytes that may wait to be written."""


@attrs.frozen(eq=False)
class OfferedBatch:
    """A batch that has arrived, with its conditions."""

    batch: Batch
    ticket: ClientTicket
    now_ms: int
    """Time of arrival."""
    opens: bool
    expected_tail: int


@attrs.frozen(eq=False)
class PendingRead:
    """A request that is answered once all positions below `barrier` are decided."""

    ticket: ClientTicket
    barrier: int
    outcome: int | VirtualLogError | None
    """The answer; None if the answer is the tail."""
    past: int = NOWHERE
    """A position that must be decided as well; NOWHERE if none."""
    offer: OfferedBatch | None = None
    """Offer to judge again when the lead is confirmed; None if there is none."""

    @property
    def size(self) -> int:
        """Bytes of the held offer."""
        return 0 if self.offer is None else len(self.offer.batch.blob)


@attrs.define(eq=False)
class LeadershipCheck:
    """One question to all replicas: has any of them promised a higher number?"""

    proposal: int
    _quorum: int
    _crash_vector: CrashVector
    pending: list[PendingRead]
    """Requests that arrived before the question was sent; answers say nothing about later ones."""
    _answers: dict[NodeId, Standing] = attrs.field(factory=dict, init=False)
    _since_ms: int | None = attrs.field(default=None, init=False)
    _asked_ms: int = attrs.field(default=0, init=False)

    def count(self, node: NodeId, standing: Standing) -> bool | None:
        """Take one answer. True if a quorum confirms the lead, False if a higher promise exists, None if not known yet."""
        self._crash_vector.hear(node, standing.incarnation, standing.incarnations)
        if standing.promised > self.proposal:
            return False
        self._answers[node] = standing
        return True if len(self._current()) >= self._quorum else None

    def has_answered(self, node: NodeId) -> bool:
        """True if the answer of this replica counts."""
        return node in self._current()

    def is_stale(self, now_ms: int, patience_ms: int) -> bool:
        """True if the check has lasted for `patience_ms`, counted from the first call."""
        if self._since_ms is None:
            self._since_ms = self._asked_ms = now_ms
        return now_ms - self._since_ms >= patience_ms

    def is_due(self, now_ms: int, retry_ms: int) -> bool:
        """True if the question is to be sent again; the caller must send it then."""
        if now_ms - self._asked_ms < retry_ms:
            return False
        self._asked_ms = now_ms
        return True

    @property
    def end(self) -> int:
        """Highest position that any answering replica has."""
        return max(standing.end for standing in self._answers.values())

    def _current(self) -> list[NodeId]:
        """Replicas whose answers count: a replica that does not vote may have forgotten a promise."""
        return [
            node
            for node, standing in self._answers.items()
            if standing.status is Status.VOTING and self._crash_vector.is_current(node, standing.incarnation)
        ]


@attrs.define(eq=False)
class PendingReads:
    """Requests that wait for a leadership check or for a decision, in order of arrival."""

    _doubtful: list[PendingRead] = attrs.field(factory=list, init=False)
    """Requests for the next leadership check."""
    _waiting: list[PendingRead] = attrs.field(factory=list, init=False)
    """Requests that wait only for positions to be decided."""
    confirmation: LeadershipCheck | None = attrs.field(default=None, init=False)
    """The leadership check under way; None if there is none."""
    _held_bytes: int = attrs.field(default=0, init=False)
    """Bytes of held offers, here and in `confirmation`."""

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    @property
    def needs_question(self) -> bool:
        """True if a new leadership check is due.

        One runs at a time; requests that arrive meanwhile share the next.
        """
        return self.confirmation is None and bool(self._doubtful)

    def wait(self, pending: PendingRead) -> None:
        """Keep a request until its barrier is decided.

        Raises:
            OverloadedError: too many requests wait.
        """
        _hold(self._waiting, pending)

    def doubt(self, pending: PendingRead) -> None:
        """Keep a request until the lead is confirmed and its barrier is decided.

        Raises:
            OverloadedError: too many requests or bytes wait for that.
        """
        if self._held_bytes + pending.size > HELD_BYTES_MAX:
            raise OverloadedError(f"{self._held_bytes} bytes wait until a quorum has confirmed the lead")
        _hold(self._doubtful, pending)
        self._held_bytes += pending.size

    def ask(self, proposal: int, quorum: int, crash_vector: CrashVector) -> None:
        """Start a leadership check for all requests that need one."""
        pending, self._doubtful = self._doubtful, []
        self.confirmation = LeadershipCheck(proposal, quorum, crash_vector, pending)

    def confirmed(self, barrier: int) -> list[OfferedBatch]:
        """End the check: the coordinator leads. Requests for the tail wait for `barrier` from now on.

        Args:
            barrier: behind all that was decided when the question was sent.

        Returns:
            The offers to judge again, in their order.
        """
        assert self.confirmation is not None
        asked, self.confirmation = self.confirmation.pending, None
        self._waiting += [attrs.evolve(each, barrier=barrier) for each in asked if each.offer is None]
        self._held_bytes -= sum(each.size for each in asked)
        return [each.offer for each in asked if each.offer is not None]

    def released(self, committed: int) -> list[PendingRead]:
        """Remove and return the requests whose barrier is decided."""
        ready = [each for each in self._waiting if each.barrier <= committed]
        self._waiting = [each for each in self._waiting if each.barrier > committed]
        return ready

    def give_up(self) -> list[ClientTicket]:
        """Remove all requests and return their tickets."""
        asked = [] if self.confirmation is None else self.confirmation.pending
        pending = [*self._waiting, *asked, *self._doubtful]
        self._waiting, self._doubtful, self.confirmation, self._held_bytes = [], [], None, 0
        return [each.ticket for each in pending]


def _hold(where: list[PendingRead], pending: PendingRead) -> None:
    if len(where) >= PENDING_MAX:
        raise OverloadedError(f"{PENDING_MAX} wait for what is being decided")
    where.append(pending)
