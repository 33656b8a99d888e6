"""Work that must not die with the caller who wanted it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from virtuallog.errors import UnavailableError, VirtualLogError

ResultT = TypeVar("ResultT")


async def in_service(nursery: trio.Nursery, work: Callable[[], Awaitable[ResultT]]) -> ResultT:
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
