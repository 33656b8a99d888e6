"""A call that changes nothing, carried out once for all tasks that ask within one turn of asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import attrs
import outcome

from virtuallog.runtime.bridge.asyncio_bridge import AsyncioBridge
from virtuallog.runtime.bridge.calls import BridgeCall

AnswerT = TypeVar("AnswerT")


@attrs.define(eq=False)
class _Asked(Generic[AnswerT]):
    """One call, and the tasks that wait for it."""

    call: BridgeCall
    turn: int
    waiting: list[asyncio.Future[AnswerT]] = attrs.field(factory=list)
    left: int = 0
    """Tasks that were cancelled."""

    def answer(self) -> None:
        """Tell all tasks. An error has one copy of its traceback for all."""
        if isinstance(self.call.result, outcome.Error):
            self.call.done.exception()  # retrieved
        for future in self.waiting:
            if not future.done() and self.call.result is not None:
                if isinstance(self.call.result, outcome.Value):
                    future.set_result(self.call.result.value)
                else:
                    future.set_exception(self.call.result.error)


class SharedCall(Generic[AnswerT]):
    """A function on trio's side whose answer is valid for every task that asked before it began."""

    def __init__(self, bridge: AsyncioBridge, function: Callable[[], Awaitable[AnswerT]]) -> None:
        """Make no call yet."""
        self._bridge = bridge
        self._function = function
        self._asked: _Asked[AnswerT] | None = None

    async def ask(self) -> AnswerT:
        """See `AsyncioBridge.call`. The function is cancelled with the last of its callers; one that leaves earlier does not wait."""
        bridge = self._bridge
        bridge.check()
        if not bridge.slots.try_take():
            await bridge.wait_for_slot()
        try:
            asked = self._asked
            if asked is None or asked.turn != bridge.turn:
                asked = self._asked = _Asked(bridge.begin(self._function), bridge.turn)
                asked.call.on_end = asked.answer
            future: asyncio.Future[AnswerT] = bridge.loop.create_future()
            asked.waiting.append(future)
            try:
                return await future
            except asyncio.CancelledError as error:
                asked.left += 1
                if asked.call.is_over:
                    asked.call.keep_outcome(error)
                elif asked.left == len(asked.waiting):
                    self._asked = None  # a task that asks now begins another call
                    await bridge.cancel(asked.call, error)
                raise
        finally:
            bridge.slots.give_back()
