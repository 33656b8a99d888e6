"""kazoo, for tests that look at what other clients have left behind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import trio
from kazoo.client import KazooClient
from kazoo.retry import KazooRetry

PATIENCE_SECONDS: Final = 60.0
SESSION_SECONDS: Final = 30.0


@attrs.frozen(eq=False)
class Observer:
    """A client of its own. Repeats what a lost connection has interrupted, so it had better only read."""

    client: Any

    async def call(self, operation: Callable[..., Any], *arguments: Any) -> Any:
        """Result of an operation of the client, such as `observer.client.get`."""
        return await trio.to_thread.run_sync(operation, *arguments)

    async def sync(self) -> None:
        """Make all that was answered to other clients before visible here."""
        await self.call(self.client.sync, "/")


@asynccontextmanager
async def observing(hosts: str) -> AsyncIterator[Observer]:
    """A client that is connected to one of these servers, for the length of the block."""
    patient = KazooRetry(max_tries=-1, max_delay=1.0, ignore_expire=False)
    client = KazooClient(hosts, timeout=SESSION_SECONDS, command_retry=patient)
    try:
        await trio.to_thread.run_sync(client.start, PATIENCE_SECONDS)
        yield Observer(client)
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(client.stop)
            await trio.to_thread.run_sync(client.close)
