"""Event loop of a command."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

import trio

ResultT = TypeVar("ResultT")
ArgumentsT = TypeVarTuple("ArgumentsT")


def run(function: Callable[[*ArgumentsT], Awaitable[ResultT]], *arguments: *ArgumentsT) -> ResultT:
    """Run an async function, and return what it returns.

    Raises:
        KeyboardInterrupt: Ctrl-C, at a checkpoint of the function. Anywhere else it could be raised in a finalizer, where it is
            printed and forgotten: the command would go on.
        Exception: the function's.
    """
    return trio.run(function, *arguments, restrict_keyboard_interrupt_to_checkpoints=True)
