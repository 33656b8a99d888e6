"""The least that a client of a loglet can be: it coalesces what is waiting and keeps some batches in flight.

It settles nothing: a failed append ends it, and waiting callers get the error. The extra cost of
VirtualLog is the price of sessions, of the chain, and of settling unknown outcomes.
"""

from __future__ import annotations

import random

import outcome
import trio

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.loglet import Loglet

_WINDOW = 8
"""Batches in flight: as many as an appender has."""


class LogletClient:
    """One session of one loglet. `run` it while it is used."""

    def __init__(self, loglet: Loglet) -> None:
        self._loglet = loglet
        self._session = SessionId(random.randbytes(16))
        self._sequence = self._flying = 0
        self._queue: list[tuple[bytes, trio.lowlevel.Task]] = []
        self._work = trio.Event()
        self._ended = False

    async def append(self, payload: bytes) -> int:
        """Append one entry; its offset. Must not be cancelled while the client runs.

        Raises:
            UnavailableError: the client has ended, perhaps because another append failed: its `run` raises what that was.
        """
        if self._ended:
            raise _ended()
        self._queue.append((payload, trio.lowlevel.current_task()))
        self._work.set()
        offset: int = await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
        return offset

    async def run(self) -> None:
        """Send batches until cancelled, or until one fails."""
        try:
            await self._run()
        finally:
            # Callers cannot be cancelled: a program that ends for an error would wait for them for ever.
            self._ended = True
            _tell_of_end([task for _, task in self._queue])

    async def _run(self) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                await self._work.wait()
                self._work = trio.Event()
                # A loglet takes the first batch of a session alone.
                if self._queue and self._flying < (_WINDOW if self._sequence else 1):
                    queue, self._queue = self._queue, []
                    batch = Batch.build(self._session, self._sequence, [payload for payload, _ in queue])
                    opens, self._sequence = not self._sequence, batch.stop_sequence
                    self._flying += 1
                    nursery.start_soon(self._send, batch, [task for _, task in queue], opens)
                    await trio.lowlevel.checkpoint()  # tasks of one turn start in any order

    async def _send(self, batch: Batch, tasks: list[trio.lowlevel.Task], opens: bool) -> None:
        try:
            places = await self._loglet.append(batch, opens=opens)
        except BaseException:
            _tell_of_end(tasks)
            raise
        self._flying -= 1
        self._work.set()
        for task, place in zip(tasks, places, strict=True):
            trio.lowlevel.reschedule(task, outcome.Value(place))


def _tell_of_end(tasks: list[trio.lowlevel.Task]) -> None:
    for task in tasks:
        trio.lowlevel.reschedule(task, outcome.Error(_ended()))


def _ended() -> UnavailableError:
    return UnavailableError("the client of the loglet has ended")
