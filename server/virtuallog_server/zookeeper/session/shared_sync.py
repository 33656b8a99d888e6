"""`sync` for all connections of a server: one at a time, for all requests that came before it began.

The database shares tail checks already; this saves a task for each request as well.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import attrs
import trio

from virtuallog.contract.errors import VirtualLogError

Synced: TypeAlias = Callable[[VirtualLogError | None], None]
"""Called once: with None when everything done before the request can be read here; with an error, the outcome is unknown."""


@attrs.define(eq=False)
class SharedSync:
    """Shares the syncs of one server."""

    _sync: Callable[[], Awaitable[None]]
    _waiting: list[Synced] = attrs.field(factory=list, init=False)
    _asked: trio.Event = attrs.field(factory=trio.Event, init=False)

    def post(self, done: Synced) -> None:
        """Request a sync. Costs no task. The callers bound it: each connection has a bounded number of requests in progress."""
        self._waiting.append(done)
        self._asked.set()

    async def run(self) -> None:
        """Carry out syncs until cancelled. After that no caller is answered, as their connections end as well."""
        while True:
            await self._asked.wait()
            self._asked = trio.Event()
            served, self._waiting = self._waiting, []
            error = await self._attempt()
            for done in served:
                done(error)

    async def _attempt(self) -> VirtualLogError | None:
        try:
            await self._sync()
        except VirtualLogError as error:
            return error
        return None
