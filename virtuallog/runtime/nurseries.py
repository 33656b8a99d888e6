"""What a block stands on, kept up until the block has ended.

A cancellation from outside reaches everything in its scope at the same moment: a block, and the tasks that it asks while it says its
farewells. So what it asks runs in a task of its own, which hears of the cancellation only once the block is over.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import TypeVar

import trio

from virtuallog.contract.errors import UnavailableError, VirtualLogError

# FOLDED from virtuallog.plain_errors: Errors out of nurseries that are none of the caller's business.


@contextmanager
def unwrapped_errors() -> Iterator[None]:
    """Around a nursery that a block of somebody else runs in: an error of his own reaches him as he raised it."""
    try:
        yield
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise


# FOLDED from virtuallog.service_task: Work that must not die with the caller who wanted it.

ResultT = TypeVar("ResultT")


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


FoundT = TypeVar("FoundT")


@asynccontextmanager
async def shielded_context(manager: AbstractAsyncContextManager[FoundT]) -> AsyncIterator[FoundT]:
    """`async with manager`, which ends after the block, also if that is cancelled. An error of the block is not told to `manager`;
    one of its tasks cancels the block, and is raised."""
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
