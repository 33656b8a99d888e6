"""Read order of replicas: the near one first, recently failed ones last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from virtuallog.contract.ports import Clock, Environment
from virtuallog.contract.types import NodeId

NEAR_AGAIN_SECONDS: Final = 5.0
"""Time after a failure until the near server comes first again: it costs least, and may only have been starting."""


@attrs.define(eq=False)
class ReplicaOrder:
    """Order in which one client asks the servers of one loglet."""

    _clock: Clock
    _near: NodeId | None
    _order: list[NodeId]
    _failed_at: float | None = attrs.field(default=None, init=False)
    """Time at which the near server failed; None once it comes first again."""

    @classmethod
    def of(cls, servers: Sequence[NodeId], environment: Environment) -> ReplicaOrder:
        """The order for a client in `environment`; as given if no node is near."""
        near = environment.near
        return cls(environment.clock, near, list(servers) if near is None else _from(near, servers))

    def order(self) -> list[NodeId]:
        """The servers, in the order to ask them now."""
        if self._failed_at is not None and self._clock.monotonic() >= self._failed_at + NEAR_AGAIN_SECONDS:
            self._failed_at = None
            self._order.sort(key=lambda server: server != self._near)
        return list(self._order)

    def failed(self, server: NodeId) -> None:
        """Put a server last, after it has failed."""
        self._order.remove(server)
        self._order.append(server)
        if server == self._near:
            self._failed_at = self._clock.monotonic()


def _from(near: NodeId, servers: Sequence[NodeId]) -> list[NodeId]:
    """Servers in a circle from the near one: clients near different nodes stay spread when their own node fails."""
    return sorted(servers, key=lambda server: (server < near, server))
