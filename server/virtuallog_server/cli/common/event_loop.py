"""Event loop of a command."""

from __future__ import annotations

import signal
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

import trio

ResultT = TypeVar("ResultT")
ArgumentsT = TypeVarTuple("ArgumentsT")


def run(function: Callable[[*ArgumentsT], Awaitable[ResultT]], *arguments: *ArgumentsT) -> ResultT:
    """Run an async function, and return what it returns. SIGTERM ends it as Ctrl-C does, so that it removes what it has made for itself, unless the
    function handles the signal.

    Raises:
        KeyboardInterrupt: Ctrl-C or SIGTERM, at a checkpoint of the function. Anywhere else it could be raised in a finalizer, where it is
            printed and forgotten: the command would go on.
        Exception: the function's.
    """
    is_main = threading.current_thread() is threading.main_thread()
    former = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT)) if is_main else None
    try:
        return trio.run(function, *arguments, restrict_keyboard_interrupt_to_checkpoints=True)
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, former or signal.SIG_DFL)
