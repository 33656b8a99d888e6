"""Keeps messages between replicas back, as a test wants it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from virtuallog.contract.ports import Request
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.messages import NOTHING_DECIDED, Learn, PaxosRecover, PaxosWrite, Promise


@attrs.define(eq=False)
class Caught:
    """Requests on their way to a replica, or its answers. What is not released is lost."""

    request: type[Request[Any]]
    to: NodeId | None
    sender: NodeId | None
    answers: bool
    times: int | None
    """Number of messages to intercept. None if all of them, until it is released or lifted."""
    kept: list[Callable[[], None]] = attrs.field(factory=list)

    def wants(self, node: NodeId, request: Request[Any]) -> bool:
        return (
            isinstance(request, self.request)
            and self.to in {None, node}
            and self.sender in {None, _sender(request)}
            and (self.times is None or len(self.kept) < self.times)
        )

    def lift(self) -> None:
        """Catch nothing any more. What was caught stays lost."""
        self.times = 0

    def release(self) -> None:
        """The same, and all that was caught arrives now."""
        self.lift()
        kept, self.kept = self.kept, []
        for arrive in kept:
            arrive()


def _sender(request: Request[Any]) -> NodeId | None:
    if isinstance(request, Promise | PaxosWrite | Learn):
        return request.coordinator
    return request.node if isinstance(request, PaxosRecover) else None


def undecided(request: Request[Any]) -> Request[Any]:
    """The same request, telling of no decision."""
    if isinstance(request, Learn):
        return attrs.evolve(request, decided=NOTHING_DECIDED, records=())
    return attrs.evolve(request, decided=NOTHING_DECIDED) if isinstance(request, PaxosWrite) else request
