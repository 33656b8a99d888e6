"""Tests in an asyncio loop, and a log in memory behind a bridge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import ParamSpec

import attrs
import trio

from tests.virtuallog.client.world import World, world
from virtuallog.aio import AsyncioLog
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.runtime.bridge.asyncio_bridge import OUTSTANDING_MAX, AsyncioBridge, open_bridge
from virtuallog_loglets.memory import MemoryLoglet

ParametersT = ParamSpec("ParametersT")

PATIENCE_SECONDS = 30
"""Only a test that hangs takes so long."""


def in_asyncio(story: Callable[ParametersT, Awaitable[None]]) -> Callable[ParametersT, None]:
    """Run an async test in an asyncio loop of its own."""

    @wraps(story)
    def test(*arguments: ParametersT.args, **named: ParametersT.kwargs) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await story(*arguments, **named)

        asyncio.run(bounded())

    return test


@attrs.define
class Gate:
    """A loglet whose appends wait at a gate, before or behind the log."""

    inner: MemoryLoglet
    is_behind: bool
    arrived: Callable[[], None]
    """Called when an append waits at the gate."""
    opened: trio.Event = attrs.field(factory=trio.Event)
    appends: int = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    async def append(self, *arguments: object, **named: object) -> range:
        self.appends += 1
        if self.is_behind:
            places = await self.inner.append(*arguments, **named)  # type: ignore[arg-type]
            await self._pass()
            return places
        await self._pass()
        return await self.inner.append(*arguments, **named)  # type: ignore[arg-type]

    async def _pass(self) -> None:
        self.arrived()
        await self.opened.wait()


@attrs.define
class AsyncioWorld:
    """A log in memory for asyncio."""

    log: AsyncioLog
    bridge: AsyncioBridge
    world: World

    async def gate(self, *, is_behind: bool = False) -> tuple[Gate, asyncio.Event]:
        """Put a gate before the active loglet; the event is set when an append has arrived there."""
        loop, arrived = asyncio.get_running_loop(), asyncio.Event()

        async def build() -> Gate:
            trio_log, segment = self.log._log, self.world.register.chain.last
            inner = trio_log.view.loglet(segment)
            assert isinstance(inner, MemoryLoglet)
            made = Gate(inner, is_behind, lambda: _tell(loop, arrived))
            trio_log.view._loglets[segment.id] = made  # type: ignore[assignment]
            return made

        return await self.bridge.call(build), arrived


def _tell(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    loop.call_soon_threadsafe(event.set)


@asynccontextmanager
async def asyncio_world(outstanding_max: int = OUTSTANDING_MAX) -> AsyncIterator[AsyncioWorld]:
    """A client of a log in memory, on a thread of its own."""
    worlds = list[World]()

    @asynccontextmanager
    async def opens() -> AsyncIterator[VirtualLog]:
        async with world() as found:
            worlds.append(found)
            yield found.client()

    async with open_bridge(opens, "log", outstanding_max=outstanding_max) as found:
        yield AsyncioWorld(AsyncioLog(found.opened, found.bridge), found.bridge, worlds[0])
