"""A background thread with an event loop, for blocking clients of async objects."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from typing import Any, Generic, TypeVar

import attrs
import trio

from virtuallog.contract.errors import TerminalError, UnavailableError

OpenedT = TypeVar("OpenedT")
ResultT = TypeVar("ResultT")


@attrs.define
class ClosedClientError(TerminalError):
    """The block that has opened a blocking client has ended. Nothing was done."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@attrs.frozen(eq=False)
class LoopThread(Generic[OpenedT]):
    """An object that is open on an event loop of another thread."""

    opened: OpenedT
    token: trio.lowlevel.TrioToken

    def run(self, function: Callable[..., Awaitable[ResultT]], *arguments: Any) -> ResultT:
        """Run an async function on that loop; returns its result, or raises its error.

        Raises:
            ClosedClientError: the loop has ended; nothing was done.
            UnavailableError: the loop ended meanwhile: unknown outcome.
        """
        try:
            return trio.from_thread.run(function, *arguments, trio_token=self.token)
        except trio.RunFinishedError as error:
            raise ClosedClientError("the block of this client has ended: open a new one") from error
        except trio.Cancelled as error:
            raise UnavailableError("the client was closed during the call") from error


@contextmanager
def open_in_thread(
    open_async: Callable[[], AbstractAsyncContextManager[OpenedT]], name: str
) -> Iterator[LoopThread[OpenedT]]:
    """Open something on the loop of a new thread, which is called `name`, for the length of the block.

    At the end of the block it is closed. Calls of other threads that still wait are cancelled: unknown outcome. Raises the errors of
    opening it.
    """
    opened: Future[tuple[LoopThread[OpenedT], Callable[[], None]]] = Future()

    async def hold_open() -> None:
        with trio.CancelScope() as scope:
            async with open_async() as found:
                token = trio.lowlevel.current_trio_token()
                opened.set_result((LoopThread(found, token), lambda: token.run_sync_soon(scope.cancel)))
                await trio.sleep_forever()

    def run() -> None:
        try:
            trio.run(hold_open)
        except BaseException as error:
            if opened.done():
                raise
            opened.set_exception(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    loop, end = opened.result()
    try:
        yield loop
    finally:
        with suppress(trio.RunFinishedError):  # the loop has ended by itself
            end()
        thread.join()
