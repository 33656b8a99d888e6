"""A catch-up in an exploration: the steps of the product's `GapRepair` and `FillAttempt`, as `catch_up` and `fill` take them."""

from __future__ import annotations

import attrs

from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.core.fill_attempt import FillAttempt, FillEffect
from virtuallog_loglets.paxos.core.gap_repair import GapRepair
from virtuallog_loglets.paxos.core.replica import Replica
from virtuallog_loglets.paxos.core.rounds import CrashVector, Rejected
from virtuallog_simulation.explorer.batches import SEGMENT
from virtuallog_simulation.explorer.paxos.disk import INCARNATION


def stores_of(ensemble: Ensemble) -> CrashVector:
    """The stores of all nodes, heard of from the beginning: none is lost, so these news change nothing."""
    return CrashVector(dict.fromkeys(ensemble.members, INCARNATION))


@attrs.define(eq=False)
class PaxosCatchUp:
    """One catch-up of a node."""

    number: int
    """Round of the election that it belongs to, or of its own."""
    first: int
    stop: int
    proposal: int
    is_election: bool
    repair: GapRepair
    awaited: set[int] = attrs.field(factory=set)
    """Nodes whose standings are waited for."""
    is_looking: bool = False
    source: int = 0
    """Node that is read from; 0 if none is."""
    span: tuple[int, int] = (0, 0)
    """Positions that are read or filled, as (first, stop)."""
    attempt: FillAttempt | None = None
    is_filling: bool = False
    """True from the first attempt of a fill to its end; without `attempt` the next one is waited for."""
    attempts: int = 0

    @property
    def name(self) -> tuple[int, ...]:
        return (self.number,)

    def fill(self, node: NodeId, ensemble: Ensemble, replica: Replica, first: int, stop: int) -> list[FillEffect]:
        """Begin to fill [first, stop)."""
        self.proposal, self.span, self.is_filling = max(self.proposal, replica.promised + 1), (first, stop), True
        return self.attempt_fill(node, ensemble)

    def attempt_fill(self, node: NodeId, ensemble: Ensemble) -> list[FillEffect]:
        """Begin an attempt."""
        self.attempts += 1
        self.attempt = FillAttempt(SEGMENT, node, ensemble, self.proposal, *self.span, stores_of(ensemble))
        return self.attempt.begin()

    def failed(self, failure: object) -> None:
        """Take in that an attempt has ended without a decision; None if it is undecided."""
        self.attempt = None
        if isinstance(failure, Rejected):
            self.proposal = max(self.proposal, failure.proposal) + 1
        elif failure is None:
            self.proposal += 1
