"""Trims the log in the background up to the allowed position. Only the base engine trims while a
database runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import trio

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import LogPosition
from virtuallog.runtime import log as logger


@attrs.define(eq=False)
class LogTrimmer:
    """Runs one trim at a time; positions allowed meanwhile are covered by the next one."""

    _prefix_trim: Callable[[LogPosition], Awaitable[LogPosition]]
    _clock: Clock
    _pause: float
    """Seconds between two trims."""
    _allowed: LogPosition = attrs.field(default=LogPosition(0), init=False)
    _wanted: trio.Event = attrs.field(factory=trio.Event, init=False)
    _refusal: str = attrs.field(default="", init=False)
    """Reason of the last trim's failure; empty if it succeeded."""

    def allow(self, position: LogPosition) -> None:
        """Allow trimming everything below `position`. Never taken back."""
        if position > self._allowed:
            self._allowed = position
            self._wanted.set()

    async def run(self) -> None:
        """Trim until cancelled. A failed trim is repeated: a trim is only a hint, and its failure
        loses nothing."""
        trimmed = LogPosition(0)
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            while self._allowed > trimmed:
                trimmed = max(trimmed, await self._trim())
                await self._clock.sleep(self._pause)

    async def _trim(self) -> LogPosition:
        """Trim once; returns the position trimmed to. All errors are retried, as none of them is
        about this replica: the segment may be a read-only archive. Otherwise such an error would
        stop this replica, and all others with it."""
        try:
            trimmed = await self._prefix_trim(self._allowed)
        except VirtualLogError as error:
            self._refused(str(error))
            return LogPosition(0)
        self._refusal = ""
        return trimmed

    def _refused(self, reason: str) -> None:
        if reason != self._refusal:  # logged once: the trim is tried again every second
            logger.warning("the log could not be trimmed", position=self._allowed, reason=reason)
        self._refusal = reason
