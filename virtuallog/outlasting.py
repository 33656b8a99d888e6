"""What a block stands on, kept up until the block has ended.

A cancellation from outside reaches everything in its scope at the same moment: a block, and the tasks that it asks while it says its
farewells. So what it asks runs in a task of its own, which hears of the cancellation only once the block is over.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

import trio

from virtuallog.plain_errors import plain_errors

FoundT = TypeVar("FoundT")


@asynccontextmanager
async def outlasting(manager: AbstractAsyncContextManager[FoundT]) -> AsyncIterator[FoundT]:
    """`async with manager`, which ends after the block, also if that is cancelled. An error of the block is not told to `manager`;
    one of its tasks cancels the block, and is raised."""
    with plain_errors():
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
