"""Who waits to be told something that is not the place of what he appended: a tail, a refusal, where a SEAL is.      Pure.

What is told must be decided. And where nothing is written, it must be confirmed that the coordinator still leads: whoever was elected since
has a higher promise from some replica of any quorum. So when a quorum denies that, nobody else was elected before the question was sent.

Standings tell as well how far replicas have gone. A position behind the coordinator's end, which an earlier coordinator left at a minority or which
a replica that recovers has filled with a promise for that position alone, is seen here, and written over or lost to. Only behind it the
coordinator's tail is that of the log. So a tail is told, and an offer is refused, as of that moment: offers that
look wrong when they arrive are held (`Held`), and judged once more when the lead is confirmed.
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
"""That takes milliseconds, or for ever if a quorum is away: then their callers give up one after the other, and new ones come."""


HELD_BYTES_MAX: Final = 32 << 20
"""Of the offers that wait for a confirmation, as many bytes as may wait to be written."""


@attrs.frozen(eq=False)
class OfferedBatch:
    """A batch that has arrived, and what its client asks for."""

    batch: Batch
    ticket: ClientTicket
    now_ms: int
    """When it arrived."""
    opens: bool
    expected_tail: int


@attrs.frozen(eq=False)
class PendingRead:
    """Is told once all below `barrier` is decided."""

    ticket: ClientTicket
    barrier: int
    outcome: int | VirtualLogError | None
    """None: the tail."""
    past: int = NOWHERE
    """A position that has to be decided as well."""
    offer: OfferedBatch | None = None
    """To be judged once more when the lead is confirmed."""

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        return 0 if self.offer is None else len(self.offer.batch.blob)


@attrs.define(eq=False)
class LeadershipCheck:
    """One question to all: is there a higher promise?"""

    proposal: int
    _quorum: int
    _crash_vector: CrashVector
    pending: list[PendingRead]
    """Those who came before it was sent: an earlier answer would say nothing to them."""
    _answers: dict[NodeId, Standing] = attrs.field(factory=dict, init=False)
    _since_ms: int | None = attrs.field(default=None, init=False)
    _asked_ms: int = attrs.field(default=0, init=False)

    def count(self, node: NodeId, standing: Standing) -> bool | None:
        """True: a quorum has denied it. False: there is. None: not known yet."""
        self._crash_vector.hear(node, standing.incarnation, standing.incarnations)
        if standing.promised > self.proposal:
            return False
        self._answers[node] = standing
        return True if len(self._current()) >= self._quorum else None

    def has_answered(self, node: NodeId) -> bool:
        """In a way that counts."""
        return node in self._current()

    def is_stale(self, now_ms: int, patience_ms: int) -> bool:
        """Whether it has been asked for so long; counted from the first call."""
        if self._since_ms is None:
            self._since_ms = self._asked_ms = now_ms
        return now_ms - self._since_ms >= patience_ms

    def is_due(self, now_ms: int, retry_ms: int) -> bool:
        """Whether to ask again, which is then done."""
        if now_ms - self._asked_ms < retry_ms:
            return False
        self._asked_ms = now_ms
        return True

    @property
    def end(self) -> int:
        """The highest position that any of them has."""
        return max(standing.end for standing in self._answers.values())

    def _current(self) -> list[NodeId]:
        """A replica that does not vote has forgotten what it had promised."""
        return [
            node
            for node, standing in self._answers.items()
            if standing.status is Status.VOTING and self._crash_vector.is_current(node, standing.incarnation)
        ]


@attrs.define(eq=False)
class PendingReads:
    """In order of arrival."""

    _doubtful: list[PendingRead] = attrs.field(factory=list, init=False)
    """Whom to ask for next."""
    _waiting: list[PendingRead] = attrs.field(factory=list, init=False)
    """What they are told is true once it is decided."""
    confirmation: LeadershipCheck | None = attrs.field(default=None, init=False)
    _held_bytes: int = attrs.field(default=0, init=False)
    """Of offers, here and in the confirmation."""

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    @property
    def needs_question(self) -> bool:
        """One at a time: who comes meanwhile shares the next one."""
        return self.confirmation is None and bool(self._doubtful)

    def wait(self, pending: PendingRead) -> None:
        """Until it is decided.

        Raises:
            OverloadedError: too many do.
        """
        _hold(self._waiting, pending)

    def doubt(self, pending: PendingRead) -> None:
        """The same, and that it still leads must be confirmed.

        Raises:
            OverloadedError: too many wait for that, or too many bytes.
        """
        if self._held_bytes + pending.size > HELD_BYTES_MAX:
            raise OverloadedError(f"{self._held_bytes} bytes wait until a quorum has confirmed the lead")
        _hold(self._doubtful, pending)
        self._held_bytes += pending.size

    def ask(self, proposal: int, quorum: int, crash_vector: CrashVector) -> None:
        pending, self._doubtful = self._doubtful, []
        self.confirmation = LeadershipCheck(proposal, quorum, crash_vector, pending)

    def confirmed(self, barrier: int) -> list[OfferedBatch]:
        """It leads, and `barrier` is behind all that was decided when the question was sent. Who wants the tail waits for it; returns
        the offers that are to be judged once more, in their order."""
        assert self.confirmation is not None
        asked, self.confirmation = self.confirmation.pending, None
        self._waiting += [attrs.evolve(each, barrier=barrier) for each in asked if each.offer is None]
        self._held_bytes -= sum(each.size for each in asked)
        return [each.offer for each in asked if each.offer is not None]

    def released(self, committed: int) -> list[PendingRead]:
        """Those who need not wait any longer."""
        ready = [each for each in self._waiting if each.barrier <= committed]
        self._waiting = [each for each in self._waiting if each.barrier > committed]
        return ready

    def give_up(self) -> list[ClientTicket]:
        asked = [] if self.confirmation is None else self.confirmation.pending
        pending = [*self._waiting, *asked, *self._doubtful]
        self._waiting, self._doubtful, self.confirmation, self._held_bytes = [], [], None, 0
        return [each.ticket for each in pending]


def _hold(where: list[PendingRead], pending: PendingRead) -> None:
    if len(where) >= PENDING_MAX:
        raise OverloadedError(f"{PENDING_MAX} wait for what is being decided")
    where.append(pending)
