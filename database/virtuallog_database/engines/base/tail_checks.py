"""Tail checks shared by many callers (OSDI'20, section 4: reads queue behind one outstanding tail
check).

A result is valid for callers that asked before the check was sent. Later callers wait for the next
one: their own write may have been completed elsewhere after the tail was read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import trio

from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.types import LogPosition, Tail


@attrs.define(eq=False)
class _Round:
    finished: trio.Event = attrs.field(factory=trio.Event)
    result: LogPosition | VirtualLogError = attrs.field(factory=lambda: UnavailableError("the replica has stopped"))


@attrs.define(eq=False)
class TailChecks:
    """Runs one tail check at a time."""

    _check_tail: Callable[[], Awaitable[Tail]]
    _next: _Round | None = attrs.field(default=None, init=False)
    """The round that the next check serves. None if no caller waits."""
    _current: _Round | None = attrs.field(default=None, init=False)
    _work: trio.Event = attrs.field(factory=trio.Event, init=False)
    _stopped: bool = attrs.field(default=False, init=False)
    sent: int = attrs.field(default=0, init=False)

    async def check(self) -> LogPosition:
        """The tail of the log at some moment after this call. A cancelled caller only stops
        waiting.

        Raises:
            VirtualLogError: the error of the check.
        """
        if self._stopped:
            raise UnavailableError("the replica has stopped")
        if self._next is None:
            self._next = _Round()
            self._work.set()
        own = self._next
        await own.finished.wait()
        if isinstance(own.result, VirtualLogError):
            raise own.result
        return own.result

    async def run(self) -> None:
        """Send checks until cancelled."""
        while True:
            await self._work.wait()
            self._work = trio.Event()
            self._current, self._next = self._next, None
            assert self._current is not None
            self.sent += 1
            try:
                self._current.result = LogPosition((await self._check_tail()).tail)
            except VirtualLogError as error:
                self._current.result = error
            self._current.finished.set()

    def stop(self) -> None:
        """Stop: all waiting callers get UnavailableError."""
        self._stopped = True
        for pending in (self._current, self._next):
            if pending is not None:
                pending.finished.set()
