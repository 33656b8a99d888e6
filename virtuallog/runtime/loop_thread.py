"""A background thread with an event loop, for blocking and asyncio clients of async objects."""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from typing import Any, Generic, TypeVar

import attrs
import trio

from virtuallog.contract.errors import UnavailableError
from virtuallog.runtime.bridge_errors import ClientClosedError
from virtuallog.runtime.nurseries import unwrapped_errors

OpenedT = TypeVar("OpenedT")
ResultT = TypeVar("ResultT")


@attrs.frozen(eq=False)
class LoopThread(Generic[OpenedT]):
    """An object that is open on an event loop of another thread."""

    opened: OpenedT
    token: trio.lowlevel.TrioToken

    def run(self, function: Callable[..., Awaitable[ResultT]], *arguments: Any) -> ResultT:
        """Run an async function on that loop; returns its result, or raises its error.

        Raises:
            ClientClosedError: the loop has ended; nothing was done.
            UnavailableError: the loop ended meanwhile: unknown outcome.
        """
        try:
            return trio.from_thread.run(function, *arguments, trio_token=self.token)
        except trio.RunFinishedError as error:
            raise ClientClosedError("the block of this client has ended: open a new one") from error
        except trio.Cancelled as error:
            raise UnavailableError("the client was closed during the call") from error


class ThreadRun(Generic[OpenedT]):
    """The run of a new thread, which opens an object and closes it after `end`."""

    def __init__(
        self,
        open_async: Callable[[], AbstractAsyncContextManager[OpenedT]],
        name: str,
        clock: trio.abc.Clock | None = None,
    ) -> None:
        """Start the thread. It is called `name`, and ends with the process. `clock` is that of the loop; None: trio's."""
        self.opened: Future[LoopThread[OpenedT]] = Future()
        """Done once the object is open, or with the error of opening it; cancelled if `end` was called before."""
        self.ended: Future[None] = Future()
        """Done once the loop has ended, with the error that has ended it early, if any. `opened` is done before."""
        self._open_async = open_async
        self._clock = clock
        self._process = os.getpid()
        self._scope = trio.CancelScope()
        self._token: trio.lowlevel.TrioToken | None = None
        """None until the loop runs."""
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Begin to close the object; for any thread, at any time. In a forked process it has no effect."""
        self._is_over = True  # before the look at the token, which the thread sets before its look here
        if self._token is not None and os.getpid() == self._process:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._scope.cancel)

    def join(self) -> None:
        """Wait for the end of the thread."""
        self._thread.join()

    def _run(self) -> None:
        try:
            trio.run(self._hold_open, clock=self._clock)
        except BaseException as error:
            (self.ended if self.opened.done() else self.opened).set_exception(error)
        if not self.opened.done():
            self.opened.cancel()
        if not self.ended.done():
            self.ended.set_result(None)

    async def _hold_open(self) -> None:
        self._token = token = trio.lowlevel.current_trio_token()
        if self._is_over:
            self._scope.cancel()
        with unwrapped_errors(), self._scope:  # an error may come with the cancellation by `end`
            async with self._open_async() as found:
                self.opened.set_result(LoopThread(found, token))
                await trio.sleep_forever()


@contextmanager
def open_in_thread(
    open_async: Callable[[], AbstractAsyncContextManager[OpenedT]], name: str
) -> Iterator[LoopThread[OpenedT]]:
    """Open something on the loop of a new thread, which is called `name`, for the length of the block.

    At the end of the block it is closed. Calls of other threads that still wait are cancelled: unknown outcome. Raises the errors of
    opening it, and at the end of the block the error that has closed it early.
    """
    run = ThreadRun(open_async, name)
    loop = run.opened.result()
    try:
        yield loop
    finally:
        run.end()
        run.join()
    run.ended.result()
