"""One replica of one log: acceptor and learner.                                                                    Pure."""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs

from loglets.paxos.messages import (
    NOWHERE,
    GetStanding,
    Incarnations,
    Learn,
    Promise,
    Recover,
    Standing,
    Status,
    TrimSealed,
    Write,
)
from virtuallog.chain import SegmentId
from virtuallog.types import NodeId

Ticket: TypeAlias = Any
Asked: TypeAlias = Promise | Write | Learn | Recover | GetStanding | TrimSealed


@attrs.define(eq=False)
class Replica:
    """Requests in, effects out."""

    segment: SegmentId
    node: NodeId
    incarnation: int
    status: Status
    promised: int = 0
    begin: int = 0
    learned: int = 0
    end: int = 0
    seal: int = NOWHERE
    trim: int = 0

    def step(self, request: Asked, ticket: Ticket) -> list[Any]:
        raise NotImplementedError

    def adopt(
        self, status: Status, promised: int = 0, begin: int = 0, trim: int = 0, incarnations: Incarnations = ()
    ) -> list[Any]:
        """Recovery: take on a status. `promised`, `begin` and `trim` only go up."""
        raise NotImplementedError

    def standing(self) -> Standing:
        raise NotImplementedError

    def missing(self, first: int, stop: int) -> list[range]:
        """The positions of [first, stop) that are not learned here, ascending."""
        raise NotImplementedError
