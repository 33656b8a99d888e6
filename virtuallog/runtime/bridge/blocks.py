"""Blocks and futures of an asyncio loop that are ended from another thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Block:
    """Body of an `async with`, whose task is cancelled if the other side of the block ends first."""

    def __init__(self) -> None:
        """Belong to the running task."""
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._level = task.cancelling()
        self._is_cancelled = False
        self._is_over = False

    def end_early(self) -> None:
        """Cancel the body, if it still runs."""
        if not self._is_over and not self._is_cancelled:
            self._is_cancelled = True
            self._task.cancel()

    async def leave(self, error: BaseException | None) -> bool:
        """Note the end of the body. True if it was cancelled by `end_early`, and has no other error.

        Raises:
            CancelledError: it was cancelled by others, too, and has not seen it yet.
        """
        self._is_over = True
        if not self._is_cancelled:
            return False
        if error is None:  # the cancellation has not arrived yet
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                if self._task.cancelling() > self._level + 1:
                    self._task.uncancel()
                    raise
        return self._task.uncancel() <= self._level and (error is None or isinstance(error, asyncio.CancelledError))


def tell_loop(loop: asyncio.AbstractEventLoop, function: Callable[[], None], lost: Callable[[], None]) -> None:
    """Call a function on an asyncio loop soon, from any thread; or call `lost` if the loop is closed."""
    try:
        loop.call_soon_threadsafe(function)
    except RuntimeError:
        lost()


def resolve(future: asyncio.Future[None]) -> None:
    """Set the result of a future that may be cancelled."""
    if not future.done():
        future.set_result(None)


async def outlast(future: asyncio.Future[None]) -> asyncio.CancelledError | None:
    """Wait for a future. Returns a cancellation that has come meanwhile, which the caller must raise."""
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled
