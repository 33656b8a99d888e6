"""Nursery helpers: unwrapped errors, work that survives its caller, and shielded context managers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import TypeVar

import trio

from virtuallog.contract.errors import UnavailableError, VirtualLogError

FoundT = TypeVar("FoundT")
ResultT = TypeVar("ResultT")


@contextmanager
def unwrapped_errors() -> Iterator[None]:
    """Unwrap a one-element ExceptionGroup, so that the caller's exception propagates unchanged."""
    try:
        yield
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise


async def run_in_service(nursery: trio.Nursery, work: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Run `work` in `nursery` and wait for its result. A cancelled caller stops waiting; the work goes on.

    Raises:
        UnavailableError: the nursery ended before the work did: unknown outcome.
        VirtualLogError: what `work` raised. Anything else `work` raises ends the nursery: it is a bug.
    """
    finished = trio.Event()
    results: list[ResultT] = []
    errors: list[VirtualLogError] = []

    async def run() -> None:
        try:
            results.append(await work())
        except VirtualLogError as error:
            errors.append(error)
        finally:
            finished.set()

    nursery.start_soon(run)
    await finished.wait()
    if errors:
        raise errors[0]
    if not results:
        raise UnavailableError("this client was shut down: unknown outcome")
    return results[0]


@asynccontextmanager
async def shielded_context(manager: AbstractAsyncContextManager[FoundT]) -> AsyncIterator[FoundT]:
    """Keep `manager` open until the body ends, even when the body is cancelled.

    A cancellation from outside reaches everything in its scope at once: the body, and the tasks
    that the body still calls during its clean-up. So `manager` runs in a task of its own, which is
    cancelled only once the body is over. `manager` does not see an error of the body. An error of
    one of its own tasks cancels the body, and is raised.
    """
    with unwrapped_errors():
        async with trio.open_nursery() as nursery:
            is_over = trio.Event()
            found = await nursery.start(_hold, manager, is_over)
            try:
                yield found
            finally:
                is_over.set()


async def _hold(
    manager: AbstractAsyncContextManager[FoundT], is_over: trio.Event, *, task_status: trio.TaskStatus[FoundT]
) -> None:
    with trio.CancelScope() as scope:
        async with manager as found:
            scope.shield = True
            task_status.started(found)
            await is_over.wait()
