"""Calls that run in another thread, as both sides see them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, Protocol

import attrs
import outcome
import trio

from virtuallog.runtime.bridge_errors import CompletedError


class Crossing(Protocol):
    """A request under way on trio's side."""

    def finish(self, result: outcome.Maybe[Any] | None) -> None:
        """Hand out its outcome, None for a cancellation; on asyncio's side."""


@attrs.define(eq=False)
class BridgeCall:
    """A call, from its request until it has ended on trio's side."""

    function: Callable[..., Awaitable[Any]]
    arguments: tuple[Any, ...]
    context: Context
    done: asyncio.Future[Any]
    """Result for the caller; cancelled with it."""
    scope: trio.CancelScope | None = attrs.field(default=None, init=False)
    """None unless it is being carried out. Of trio's thread, as is `is_stopped`."""
    is_stopped: bool = attrs.field(default=False, init=False)
    """True if it was cancelled."""
    result: outcome.Maybe[Any] | None = attrs.field(default=None, init=False)
    """None until it has ended, and after it has been cancelled without another outcome."""
    is_over: bool = attrs.field(default=False, init=False)
    on_end: Callable[[], object] | None = attrs.field(default=None, init=False)
    """Called on asyncio's side."""

    def stop(self) -> None:
        """Cancel it; on trio's side."""
        self.is_stopped = True
        if self.scope is not None:
            self.scope.cancel()

    async def carry_out(self, scope: trio.CancelScope) -> Any:
        """Carry it out on trio's side, with the caller's context variables; `stop` cancels this scope."""
        self.scope = scope
        if self.is_stopped:
            scope.cancel()
        return await InContext(self.context, self._run())

    async def _run(self) -> Any:
        return await self.function(*self.arguments)

    def finish(self, result: outcome.Maybe[Any] | None) -> None:
        """Note the outcome, None for a cancellation, and tell the caller."""
        self.result, self.is_over = result, True
        if not self.done.done():
            if isinstance(result, outcome.Value):
                self.done.set_result(result.value)
            elif isinstance(result, outcome.Error):
                self.done.set_exception(result.error)
        if self.on_end is not None:
            self.on_end()

    def keep_outcome(self, error: BaseException) -> None:
        """Make the outcome the cause of a cancellation."""
        error.__cause__ = cause_of(self.result)


@attrs.frozen
class InContext:
    """A coroutine that sees other context variables than the task that awaits this."""

    context: Context
    coroutine: Coroutine[Any, Any, Any]

    def __await__(self) -> Generator[Any, Any, Any]:
        value: Any = None
        while True:  # trio sends outcomes only, and throws nothing
            try:
                message = self.context.run(self.coroutine.send, value)
            except StopIteration as end:
                return end.value
            value = yield message


def cause_of(result: outcome.Maybe[Any] | None) -> BaseException | None:
    """The `__cause__` of a cancellation whose call has this outcome."""
    if isinstance(result, outcome.Value):
        return CompletedError(result.value)
    return result.error if isinstance(result, outcome.Error) else None


@attrs.define(eq=False)
class BridgeOpening:
    """The object of a block on its way to asyncio's side."""

    opened: asyncio.Future[Any]

    def finish(self, result: outcome.Maybe[Any] | None) -> None:
        """Hand the object over, unless the block was cancelled."""
        if not self.opened.done():
            assert isinstance(result, outcome.Value)
            self.opened.set_result(result.value)
