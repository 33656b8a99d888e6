"""Something that a thread opens and that may break, and functions to call there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import attrs
import trio

from virtuallog.runtime.bridge.asyncio_bridge import Bridged, open_bridge
from virtuallog.runtime.nurseries import unwrapped_errors


@attrs.define
class Room:
    """Something open on trio's side."""

    broken: trio.Event = attrs.field(factory=trio.Event)
    is_open: bool = True
    token: trio.lowlevel.TrioToken = attrs.field(factory=trio.lowlevel.current_trio_token)


@asynccontextmanager
async def open_room() -> AsyncIterator[Room]:
    """A room, until it breaks."""
    room = Room()

    async def fail() -> None:
        await room.broken.wait()
        raise ValueError("broken")

    try:
        with unwrapped_errors():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fail)
                yield room
                nursery.cancel_scope.cancel()
    finally:
        room.is_open = False


def open_room_bridge(outstanding_max: int = 8) -> AbstractAsyncContextManager[Bridged[Room]]:
    return open_bridge(open_room, "room", outstanding_max=outstanding_max)


@attrs.define
class Step:
    """A trio function that tells asyncio when it has begun, and returns when it may."""

    may_end: trio.Event = attrs.field(factory=trio.Event)
    begun: asyncio.Event = attrs.field(factory=asyncio.Event)
    loop: asyncio.AbstractEventLoop = attrs.field(factory=asyncio.get_running_loop)
    was_cancelled: bool = False
    last: Callable[[], Awaitable[None]] | None = None
    """What a cancelled one still does."""

    async def run(self) -> str:
        self.loop.call_soon_threadsafe(self.begun.set)
        try:
            await self.may_end.wait()
        except trio.Cancelled:
            self.was_cancelled = True
            if self.last is not None:
                with trio.CancelScope(shield=True):
                    await self.last()
            raise
        return "done"


async def double(number: int) -> int:
    await trio.lowlevel.checkpoint()
    return 2 * number


async def fail_with(error: Exception) -> None:
    raise error


async def refuse() -> None:
    await fail_with(KeyError("refused"))
