"""Trims the log in the background, to what was last allowed. Only the base does so while a database runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import structlog
import trio

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import LogPosition

logger = structlog.get_logger(__name__)


@attrs.define(eq=False)
class LogTrimmer:
    """One trim at a time; what is allowed meanwhile is trimmed by the next one."""

    _prefix_trim: Callable[[LogPosition], Awaitable[LogPosition]]
    _clock: Clock
    _pause: float
    """Seconds between two trims."""
    _allowed: LogPosition = attrs.field(default=LogPosition(0), init=False)
    _wanted: trio.Event = attrs.field(factory=trio.Event, init=False)
    _refusal: str = attrs.field(default="", init=False)
    """Why the last trim failed, in words."""

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
                trimmed = max(trimmed, await self._trim())
                await self._clock.sleep(self._pause)

    async def _trim(self) -> LogPosition:
        """Whatever it fails for says nothing about this replica, which would be stopped by it, and all others with it: the segment
        may be an archive that nobody may write to any more."""
        try:
            trimmed = await self._prefix_trim(self._allowed)
        except VirtualLogError as error:
            self._refused(str(error))
            return LogPosition(0)
        self._refusal = ""
        return trimmed

    def _refused(self, reason: str) -> None:
        if reason != self._refusal:  # said once: it is tried again every second
            logger.warning("the log could not be trimmed", position=self._allowed, reason=reason)
        self._refusal = reason
