"""Event loop of a command."""

from __future__ import annotations

import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar, TypeVarTuple

import trio

ResultT = TypeVar("ResultT")
ArgumentsT = TypeVarTuple("ArgumentsT")


def run(function: Callable[[*ArgumentsT], Awaitable[ResultT]], *arguments: *ArgumentsT) -> ResultT:
    """Run an async function, and return what it returns. SIGTERM cancels it, so that it removes what it has made for itself, unless the function
    handles the signal.

    Raises:
        KeyboardInterrupt: SIGTERM; or Ctrl-C, at a checkpoint of the function. Anywhere else it could be raised in a finalizer, where it is
            printed and forgotten: the command would go on.
        Exception: the function's.
    """

    async def main() -> ResultT:
        with trio.CancelScope() as scope, _cancelled_on_sigterm(scope):
            return await function(*arguments)
        raise KeyboardInterrupt

    return trio.run(main, restrict_keyboard_interrupt_to_checkpoints=True)


@contextmanager
def _cancelled_on_sigterm(scope: trio.CancelScope) -> Iterator[None]:
    """Not by way of SIGINT, which shells let their background jobs ignore."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    token = trio.lowlevel.current_trio_token()
    former = signal.signal(signal.SIGTERM, lambda *_: token.run_sync_soon(scope.cancel))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former or signal.SIG_DFL)
