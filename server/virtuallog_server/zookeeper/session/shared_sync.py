"""`sync` for all connections of a server: one at a time, for everybody who had asked before it began.

The database shares tail checks already; this saves a task for each request as well.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import attrs
import trio

from virtuallog.contract.errors import VirtualLogError

Synced: TypeAlias = Callable[[VirtualLogError | None], None]
"""Called once: what everybody had done before the request can be read here; or the error, and nobody knows."""


@attrs.define(eq=False)
class SharedSync:
    """See above."""

    _sync: Callable[[], Awaitable[None]]
    _waiting: list[Synced] = attrs.field(factory=list, init=False)
    _asked: trio.Event = attrs.field(factory=trio.Event, init=False)

    def post(self, done: Synced) -> None:
        """Costs no task. Bounded by whoever posts: each connection has so many requests under way."""
        self._waiting.append(done)
        self._asked.set()

    async def run(self) -> None:
        """Until cancelled: then nobody is told any more, as their connections end with it."""
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
