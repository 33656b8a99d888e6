"""A thread that does blocking work for trio tasks, in order: the cheap way to wait for a disk.

`trio.to_thread` costs some 150 us more for each call: it looks for an idle thread, a limiter, a
context. Here a job goes over in a `SimpleQueue`. Its result comes back with one call into the event
loop, which wakes the waiting task, or is all there is to do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

import outcome
import trio

ResultT = TypeVar("ResultT")


class Worker:
    """One thread. Jobs run one after the other, in the order of the calls."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[tuple[Callable[[], Any], trio.lowlevel.TrioToken, Callable[[Any], None]] | None]
        self._jobs = SimpleQueue()
        self._posted = 0
        self._ended = 0
        # A daemon: a hanging disk must not keep a process from ending.
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def do(self, job: Callable[[], ResultT]) -> ResultT:
        """Run `job` in the thread. On return it has ended.

        A cancellation takes effect before the job is handed over, or not at all. So a component
        that writes through one worker knows at every point what has been done, and in which order.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        self.post(job, partial(trio.lowlevel.reschedule, trio.lowlevel.current_task()))
        result: ResultT = await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
        return result

    def post(self, job: Callable[[], ResultT], done: Callable[[outcome.Outcome[ResultT]], None]) -> None:
        """Run `job` in the thread, then `done` on the event loop with its outcome. `done` must not raise."""
        self._posted += 1
        self._jobs.put((job, trio.lowlevel.current_trio_token(), done))

    @property
    def is_idle(self) -> bool:
        """True if all jobs have ended; the last outcomes may still be on their way."""
        return self._posted == self._ended

    def stop(self) -> None:
        """End the thread after its jobs, and wait for that."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            self._perform(*item)
            del item  # and what `_perform` held: an idle thread must not keep its last result alive

    def _perform(self, job: Callable[[], Any], token: trio.lowlevel.TrioToken, done: Callable[[Any], None]) -> None:
        result = outcome.capture(job)
        self._ended += 1
        with suppress(trio.RunFinishedError):  # the event loop has ended: no task waits
            token.run_sync_soon(done, result)
