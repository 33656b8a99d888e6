"""Cancellation of an operation at exactly its n-th suspension: every await of a program becomes a
test case.

An operation suspends when it hands control back to trio. Counting those, instead of guessing with
timeouts, reaches every await once and gives the same result each time.
"""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any

import trio


async def cancel_at(suspension: int, operation: Callable[[], Awaitable[object]]) -> bool:
    """Run `operation` and cancel it at its suspension number `suspension`, counted from 0.

    Returns:
        True if the operation got that far; False if there are no more awaits to try.
    """
    reached = False
    with trio.CancelScope() as scope:

        def cancel(number: int) -> None:
            nonlocal reached
            if number == suspension:
                reached = True
                scope.cancel()

        await _watched(operation().__await__(), cancel)
    return reached


@types.coroutine
def _watched(steps: Generator[Any, Any, object], suspends: Callable[[int], None]) -> Generator[Any, Any, object]:
    """Drive a coroutine as `await` would. Calls `suspends` before each suspension with its number."""
    number = 0
    resume: Callable[[], Any] = steps.__next__
    while True:
        try:
            trap = resume()
        except StopIteration as stop:
            return stop.value
        suspends(number)
        number += 1
        resume = yield from _passed_on(trap, steps)


def _passed_on(trap: Any, steps: Generator[Any, Any, object]) -> Generator[Any, Any, Callable[[], Any]]:
    """Hand `trap` to trio. The result resumes `steps` with trio's answer, a value or an exception."""
    try:
        answer = yield trap
    except BaseException as error:
        return partial(steps.throw, error)
    return partial(steps.send, answer)
