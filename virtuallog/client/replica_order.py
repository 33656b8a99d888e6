"""In which order a client asks servers that hold the same: the near one first, one that failed last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from virtuallog.contract.ports import Clock, Environment
from virtuallog.contract.types import NodeId

NEAR_AGAIN_SECONDS: Final = 5.0
"""After a failure the near server is asked first again: it costs least, and may only have been starting."""


@attrs.define(eq=False)
class ReplicaOrder:
    """The servers of one loglet, as one client sees them."""

    _clock: Clock
    _near: NodeId | None
    _order: list[NodeId]
    _failed_at: float | None = attrs.field(default=None, init=False)
    """When the near one did, until it is asked first again."""

    @classmethod
    def of(cls, servers: Sequence[NodeId], environment: Environment) -> ReplicaOrder:
        near = environment.near
        return cls(environment.clock, near, list(servers) if near is None else _from(near, servers))

    def order(self) -> list[NodeId]:
        """Whom to ask now, one after the other."""
        if self._failed_at is not None and self._clock.monotonic() >= self._failed_at + NEAR_AGAIN_SECONDS:
            self._failed_at = None
            self._order.sort(key=lambda server: server != self._near)
        return list(self._order)

    def failed(self, server: NodeId) -> None:
        """Ask this one last from now on."""
        self._order.remove(server)
        self._order.append(server)
        if server == self._near:
            self._failed_at = self._clock.monotonic()


def _from(near: NodeId, servers: Sequence[NodeId]) -> list[NodeId]:
    """In a circle from the near one: clients that are near different nodes stay spread if their own holds nothing, or fails."""
    return sorted(servers, key=lambda server: (server < near, server))
