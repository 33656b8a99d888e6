"""Errors of calls from one event loop to another."""

from __future__ import annotations

from typing import Any

import attrs

from virtuallog.contract.errors import TerminalError, VirtualLogError


@attrs.define
class CompletedError(VirtualLogError):
    """The call had been carried out before its cancellation arrived. `__cause__` of a CancelledError."""

    result: Any

    def __str__(self) -> str:
        return f"the call was carried out before its cancellation, with the result {self.result!r:.200}"


@attrs.define
class ClientClosedError(TerminalError):
    """The client, blocking or of asyncio, is closed or has failed. Nothing has been done."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@attrs.define
class WrongLoopError(TerminalError):
    """The client belongs to another event loop, or to the process before a fork. Nothing has been done."""

    reason: str = "a client of asyncio is for the event loop in which it was opened: open one in each loop and process"

    def __str__(self) -> str:
        return self.reason
