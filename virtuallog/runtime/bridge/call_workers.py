"""Tasks on trio's side that carry out calls of another thread.

    pipe -> leader --- hands over the lead ---> an idle worker, or a new one
              '------- carries out the call, then is idle

One worker, the leader, waits for the pipe. It carries out a call itself, in the same step, after another worker has taken over the
lead. So a call seldom needs a new task, and no further turn of the loop.

A worker keeps its cancel scope until a call of its own is cancelled or fails: a scope for each call would cost more than the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import outcome
import trio

from virtuallog.contract.errors import UnavailableError
from virtuallog.runtime.bridge.calls import BridgeCall
from virtuallog.runtime.bridge.wake_pipe import WakePipe

IDLE_MAX: Final = 64
"""Workers that wait for their next call. A further one ends."""
Complete: TypeAlias = Callable[[BridgeCall, outcome.Maybe[Any] | None], None]
_CLOSED: Final = "the client was closed: unknown outcome"


class CallWorkers:
    """The workers of one nursery."""

    def __init__(
        self,
        nursery: trio.Nursery,
        pipe: WakePipe,
        take: Callable[[], list[BridgeCall]],
        complete: Complete,
    ) -> None:
        """Start the first worker. They end with the nursery.

        Args:
            nursery: where they run.
            pipe: wakes the leader.
            take: takes all that has come, and returns the calls among it.
            complete: takes the outcome of a call, None for a cancellation. Called once for each.
        """
        self._nursery = nursery
        self._pipe = pipe
        self._take = take
        self._complete = complete
        self._idle: list[trio.lowlevel.Task] = []
        nursery.start_soon(self._work, None)

    async def _work(self, call: BridgeCall | None) -> None:
        """Carry out this call, or lead if it is None; and so on."""
        while True:
            result: outcome.Maybe[Any] | None = outcome.Error(UnavailableError(_CLOSED))
            try:
                with trio.CancelScope() as scope:
                    while not scope.cancel_called:
                        call = call or await self._lead()
                        done = outcome.Value(await call.carry_out(scope))
                        call.scope = None
                        self._complete(call, done)
                        call = None
                        if len(self._idle) >= IDLE_MAX:
                            return
                        if not scope.cancel_called:
                            call = await self._wait_for_call()
                result = None
            except Exception as error:
                result = outcome.Error(error)
            except BaseExceptionGroup as group:  # an error that came together with the end of the client
                cancelled, errors = group.split(trio.Cancelled)
                if cancelled is None or not isinstance(errors, ExceptionGroup):
                    raise
                result = outcome.Error(errors)
                raise cancelled from None
            finally:  # without another result the client is being closed
                if call is not None:
                    call.scope = None
                    self._complete(call, result)
            call = await self._wait_for_call()

    async def _lead(self) -> BridgeCall:
        """Wait for calls. Returns one of them, when another worker leads."""
        while True:
            await trio.lowlevel.wait_readable(self._pipe.fileno())
            self._pipe.clear()
            if calls := self._take():
                self._assign(None)
                for call in calls[1:]:
                    self._assign(call)
                return calls[0]

    def _assign(self, call: BridgeCall | None) -> None:
        """Give a worker a call, or the lead."""
        if self._idle:
            trio.lowlevel.reschedule(self._idle.pop(), outcome.Value(call))
        else:
            self._nursery.start_soon(self._work, call)

    async def _wait_for_call(self) -> BridgeCall | None:
        """Be idle. Returns a call, or None for the lead."""
        task = trio.lowlevel.current_task()
        self._idle.append(task)
        call: BridgeCall | None = await trio.lowlevel.wait_task_rescheduled(partial(self._stop_idling, task))
        return call

    def _stop_idling(self, task: trio.lowlevel.Task, _: object) -> trio.lowlevel.Abort:
        self._idle.remove(task)
        return trio.lowlevel.Abort.SUCCEEDED
