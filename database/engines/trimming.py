"""Trims the log in the background, to what was last allowed. Only the base does so while a database runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import attrs
import trio

from virtuallog.errors import RetryableError
from virtuallog.ports import Clock
from virtuallog.types import LogPosition


@attrs.define(eq=False)
class Trimming:
    """One trim at a time; what is allowed meanwhile is trimmed by the next one."""

    _prefix_trim: Callable[[LogPosition], Awaitable[LogPosition]]
    _clock: Clock
    _pause: float
    """Seconds between two trims."""
    _allowed: LogPosition = attrs.field(default=LogPosition(0), init=False)
    _wanted: trio.Event = attrs.field(factory=trio.Event, init=False)

    def allow(self, position: LogPosition) -> None:
        """Everything below `position` may go. Never taken back."""
        if position > self._allowed:
            self._allowed = position
            self._wanted.set()

    async def run(self) -> None:
        """Until cancelled. A trim that fails is made again: it is only ever a hint, and loses nothing."""
        trimmed = LogPosition(0)
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            while self._allowed > trimmed:
                with suppress(RetryableError):
                    trimmed = await self._prefix_trim(self._allowed)
                await self._clock.sleep(self._pause)
