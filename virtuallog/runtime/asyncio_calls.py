"""Calls that run in another thread, as both sides see them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any, TypeAlias

import attrs
import outcome
import trio

from virtuallog.runtime.bridge_errors import CompletedError

Post: TypeAlias = Callable[[Callable[[Any], None]], bool]
"""Begins a call that calls back once, later, with its result or with its error. Returns False if it cannot, and has done nothing."""


@attrs.define(eq=False)
class BridgeCall:
    """A call, from its request until it has ended on trio's side."""

    function: Callable[..., Awaitable[Any]]
    arguments: tuple[Any, ...]
    context: Context
    done: asyncio.Future[Any]
    """Result for the caller; cancelled with it."""
    post: Post | None = None
    """A way to begin it without a task; None if there is none."""
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    is_posted: bool = attrs.field(default=False, init=False)
    """True if it has no task. Of trio's thread, as is `is_complete`."""
    is_complete: bool = attrs.field(default=False, init=False)
    """True if its end is on the way to asyncio's thread."""
    result: outcome.Maybe[Any] | None = attrs.field(default=None, init=False)
    """None until it has ended, and after it has been cancelled without another outcome."""
    is_over: bool = attrs.field(default=False, init=False)
    on_end: Callable[[], object] | None = attrs.field(default=None, init=False)
    """Called on asyncio's side."""

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
        if isinstance(self.result, outcome.Value):
            error.__cause__ = CompletedError(self.result.value)
        elif isinstance(self.result, outcome.Error):
            error.__cause__ = self.result.error


@attrs.define(eq=False)
class BridgeOpening:
    """The object of a block on its way to asyncio's side."""

    opened: asyncio.Future[Any]

    def finish(self, result: outcome.Maybe[Any] | None) -> None:
        """Hand the object over, unless the block was cancelled."""
        if not self.opened.done():
            assert isinstance(result, outcome.Value)
            self.opened.set_result(result.value)
