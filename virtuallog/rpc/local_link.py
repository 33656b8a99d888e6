"""Calls to the own node, handed over as they are, if the own node is the one meant.

Only an answer that comes at once waits for a turn of its own: `done` is never called from within
`post`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import attrs
import trio

from virtuallog.contract.errors import OverloadedError, VirtualLogError
from virtuallog.contract.ports import Done, Handlers, Request
from virtuallog.rpc.dispatch import dispatch
from virtuallog.rpc.protocol.pending_calls import PendingCalls
from virtuallog.rpc.protocol.questions import QUESTIONS_MAX


@attrs.define(eq=False)
class DeferredCalls:
    """Runs functions in order, from a task of its own."""

    _queue: deque[Callable[[], None]] = attrs.field(factory=deque, init=False)
    _wake: trio.Event = attrs.field(factory=trio.Event, init=False)

    def put(self, function: Callable[[], None]) -> None:
        """Queue a function. Bounded by the callers: each function belongs to a call that was just
        posted."""
        self._queue.append(function)
        self._wake.set()

    def report(self, done: Done, outcome: Any) -> None:
        self.put(partial(done, outcome))

    async def run(self) -> None:
        """Run queued functions in turns. One queued while a turn runs waits for the next, so that
        other tasks get theirs."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            for _ in range(len(self._queue)):
                self._queue.popleft()()
            await trio.lowlevel.checkpoint()


@attrs.define(eq=False)
class LocalLink:
    """The link to the own node, as `NodeLink` is for other nodes."""

    _handlers: Handlers
    _refusal: Callable[[], VirtualLogError | None] = lambda: None
    """Called at each post: the reason why the own node is not the one meant; None if it is."""
    turns: DeferredCalls = attrs.field(factory=DeferredCalls, init=False)
    """Runs `done` of calls answered within `post`. Its task is not run here."""
    _calls: PendingCalls = attrs.field(factory=PendingCalls, init=False)
    _numbers: count[int] = attrs.field(factory=count, init=False)
    _is_posting: bool = attrs.field(default=False, init=False)

    @property
    def next_deadline(self) -> float:
        return self._calls.next_deadline

    def post(self, request: Request[Any], done: Done, now: float, timeout_seconds: float) -> None:
        """`Services.post`, for the own node, at the time `now`."""
        if (refusal := self._refusal()) is not None:
            self.turns.report(done, refusal)
            return
        if len(self._calls) >= QUESTIONS_MAX:
            self.turns.report(done, OverloadedError(f"{QUESTIONS_MAX} calls within this node are without an answer"))
            return
        number = next(self._numbers)
        self._calls.add(number, request, done, now, timeout_seconds)
        outer, self._is_posting = self._is_posting, True  # a handler may post, too
        dispatch(self._handlers, request, partial(self._answered, number))
        self._is_posting = outer

    def _answered(self, number: int, outcome: Any) -> None:
        if self._is_posting:
            self.turns.put(partial(self._calls.settle, number, outcome))
        else:
            self._calls.settle(number, outcome)

    def expire(self, now: float) -> None:
        self._calls.expire(now)
