"""The history of Patroni's leader key, an ephemeral of the primary's Patroni, as a watch tells it."""

from __future__ import annotations

import time
from typing import Any, Final

import attrs

from tests.clients.observer import Observer
from tests.clients.patroni.member import SCOPE

LEADER: Final = f"/service/{SCOPE}/leader"
STATUS: Final = f"/service/{SCOPE}/status"
"""Written by the leader's Patroni each time that it looks at its cluster, if rows were written."""


@attrs.frozen
class Term:
    """One life of the key."""

    seen: float
    """When the watch told of it."""
    member: str
    created: int
    """zxid of its creation: a key that was deleted and created again has another one."""


@attrs.define(eq=False)
class LeaderKey:
    """Follow the key from now on."""

    observer: Observer
    terms: list[Term] = attrs.field(factory=list)

    async def follow(self) -> None:
        await self.observer.call(self.observer.client.DataWatch, LEADER, self._observe)

    async def looks(self) -> int:
        """Number of times that leaders' Patronis have looked at their cluster."""
        client = self.observer.client
        found = await self.observer.call(client.retry, client.exists, STATUS)
        return int(found.version) if found is not None else 0

    def _observe(self, data: bytes | None, stat: Any) -> None:
        if data is not None and (not self.terms or self.terms[-1].created != stat.czxid):
            self.terms.append(Term(time.monotonic(), data.decode(), stat.czxid))
