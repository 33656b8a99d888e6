"""Whether a coordinator still leads: it asks a quorum, and nobody has promised a higher number.                     Pure.

Whoever was elected since has a higher promise from some replica of any quorum. So when a quorum denies it, nothing was decided behind the
coordinator's back before the question was sent, and its tail is that of the log. Needed where nothing is written: for a tail
that is told, and for a refusal of somebody who expects a later one.

Standings tell as well how far replicas have gone: a position that a minority has from an earlier coordinator is seen here.
"""

from __future__ import annotations

from typing import Any

import attrs

from loglets.paxos.messages import NOWHERE, Standing, Status
from loglets.paxos.rounds import Roll
from virtuallog.errors import VirtualLogError
from virtuallog.types import NodeId


@attrs.frozen(eq=False)
class Pending:
    """Somebody who is answered once all below `barrier` is decided."""

    ticket: Any
    barrier: int
    outcome: int | VirtualLogError | None
    """None: the tail."""
    past: int = NOWHERE
    """A position that has to be decided as well."""


@attrs.define(eq=False)
class Confirmation:
    """One question to all."""

    proposal: int
    _quorum: int
    _roll: Roll
    pending: list[Pending]
    """Those who came before it was sent."""
    _answers: dict[NodeId, Standing] = attrs.field(factory=dict, init=False)
    _since_ms: int | None = attrs.field(default=None, init=False)

    def count(self, node: NodeId, standing: Standing) -> bool | None:
        """True: a quorum has confirmed it. False: somebody leads with a higher number. None: not known yet."""
        self._roll.hear(node, standing.incarnation, standing.incarnations)
        if standing.promised > self.proposal:
            return False
        self._answers[node] = standing
        return True if len(self._current()) >= self._quorum else None

    def has_confirmed(self, node: NodeId) -> bool:
        return node in self._current()

    def is_stale(self, now_ms: int, patience_ms: int) -> bool:
        """Whether it has been asked for so long; counted from the first call."""
        self._since_ms = now_ms if self._since_ms is None else self._since_ms
        return now_ms - self._since_ms >= patience_ms

    @property
    def end(self) -> int:
        """The highest position that any of them has."""
        return max(standing.end for standing in self._answers.values())

    def _current(self) -> list[NodeId]:
        """Whose answer counts. A replica that does not vote has forgotten what it had promised."""
        return [
            node
            for node, standing in self._answers.items()
            if standing.status is Status.VOTING and self._roll.is_current(node, standing.incarnation)
        ]
