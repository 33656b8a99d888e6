"""Who waits to be told something that is not the place of what he appended: a tail, a refusal, where a SEAL is.      Pure.

What is told must be decided. And where nothing is written, it must be confirmed that the coordinator still leads: whoever was elected since
has a higher promise from some replica of any quorum. So when a quorum denies that, nothing was decided behind the coordinator's back before
the question was sent, and its tail is that of the log. Needed for a tail, and to refuse somebody who expects a later one, or
whose session seems to have a hole, or to be forgotten.

Standings tell as well how far replicas have gone: a position that a minority has from an earlier coordinator is seen here.
"""

from __future__ import annotations

from typing import Final

import attrs

from loglets.paxos.agenda import Ticket
from loglets.paxos.messages import NOWHERE, Standing, Status
from loglets.paxos.rounds import Roll
from virtuallog.errors import OverloadedError, VirtualLogError
from virtuallog.types import NodeId

PENDING_MAX: Final = 4096
"""That takes milliseconds, or for ever if a quorum is away: then their callers give up one after the other, and new ones come."""


@attrs.frozen(eq=False)
class Pending:
    """Is told once all below `barrier` is decided."""

    ticket: Ticket
    barrier: int
    outcome: int | VirtualLogError | None
    """None: the tail."""
    past: int = NOWHERE
    """A position that has to be decided as well."""


@attrs.define(eq=False)
class Confirmation:
    """One question to all: is there a higher promise?"""

    proposal: int
    _quorum: int
    _roll: Roll
    pending: list[Pending]
    """Those who came before it was sent: an earlier answer would say nothing to them."""
    _answers: dict[NodeId, Standing] = attrs.field(factory=dict, init=False)
    _since_ms: int | None = attrs.field(default=None, init=False)
    _asked_ms: int = attrs.field(default=0, init=False)

    def count(self, node: NodeId, standing: Standing) -> bool | None:
        """True: a quorum has denied it. False: there is. None: not known yet."""
        self._roll.hear(node, standing.incarnation, standing.incarnations)
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
            if standing.status is Status.VOTING and self._roll.is_current(node, standing.incarnation)
        ]


@attrs.define(eq=False)
class Audience:
    """In order of arrival."""

    _doubtful: list[Pending] = attrs.field(factory=list, init=False)
    """Whom to ask for next."""
    _waiting: list[Pending] = attrs.field(factory=list, init=False)
    """What they are told is true once it is decided."""
    confirmation: Confirmation | None = attrs.field(default=None, init=False)

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    @property
    def needs_question(self) -> bool:
        """One at a time: who comes meanwhile shares the next one."""
        return self.confirmation is None and bool(self._doubtful)

    def wait(self, pending: Pending) -> None:
        """Until it is decided.

        Raises:
            OverloadedError: too many do.
        """
        _hold(self._waiting, pending)

    def doubt(self, pending: Pending) -> None:
        """The same, and that it still leads must be confirmed."""
        _hold(self._doubtful, pending)

    def ask(self, proposal: int, quorum: int, roll: Roll) -> None:
        pending, self._doubtful = self._doubtful, []
        self.confirmation = Confirmation(proposal, quorum, roll, pending)

    def confirmed(self, barrier: int) -> None:
        """It leads; who wants the tail waits for `barrier`."""
        assert self.confirmation is not None
        self._waiting += [
            attrs.evolve(each, barrier=barrier) if each.outcome is None else each for each in self.confirmation.pending
        ]
        self.confirmation = None

    def released(self, committed: int) -> list[Pending]:
        """Those who need not wait any longer."""
        ready = [each for each in self._waiting if each.barrier <= committed]
        self._waiting = [each for each in self._waiting if each.barrier > committed]
        return ready

    def give_up(self) -> list[Ticket]:
        asked = [] if self.confirmation is None else self.confirmation.pending
        everybody = [*self._waiting, *asked, *self._doubtful]
        self._waiting, self._doubtful, self.confirmation = [], [], None
        return [each.ticket for each in everybody]


def _hold(where: list[Pending], pending: Pending) -> None:
    if len(where) >= PENDING_MAX:
        raise OverloadedError(f"{PENDING_MAX} wait for what is being decided")
    where.append(pending)
