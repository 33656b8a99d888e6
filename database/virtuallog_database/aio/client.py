"""Reads, writes, watches and sessions on one replica of the database, for asyncio.

A local read takes a way to the loop of the replica. `run` does many of them with one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

import attrs

from virtuallog.runtime.bridge.asyncio_bridge import AsyncioBridge, open_bridge
from virtuallog_database.aio.state import AsyncioStateStorage
from virtuallog_database.aio.tables import AsyncioTables
from virtuallog_database.aio.watch_stream import AsyncioWatchStream
from virtuallog_database.client.client import DatabaseClient, Node, Session
from virtuallog_database.client.transaction import Transaction
from virtuallog_database.client.watch_stream import BACKLOG_MAX
from virtuallog_database.tree.commands import ANY_VERSION, OPEN_ACL, Acl, Mode
from virtuallog_database.tree.results import Stat

ResultT = TypeVar("ResultT")
ParametersT = ParamSpec("ParametersT")


@attrs.define(eq=False)
class AsyncioDatabaseClient:
    """A DatabaseClient for asyncio. Many tasks may call all methods at once. A cancelled write may still happen."""

    _client: DatabaseClient
    _bridge: AsyncioBridge

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        mode: Mode = Mode.PERSISTENT,
        acl: tuple[Acl, ...] = OPEN_ACL,
        ttl_ms: int = 0,
    ) -> str:
        """See `DatabaseClient.create`."""
        return await self._bridge.call(partial(self._client.create, path, data, mode=mode, acl=acl, ttl_ms=ttl_ms))

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """See `DatabaseClient.set`."""
        return await self._bridge.call(self._client.set, path, data, version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """See `DatabaseClient.delete`."""
        await self._bridge.call(self._client.delete, path, version)

    async def set_acl(self, path: str, acl: tuple[Acl, ...], version: int = ANY_VERSION) -> Stat:
        """See `DatabaseClient.set_acl`."""
        return await self._bridge.call(self._client.set_acl, path, acl, version)

    @property
    def variables(self) -> AsyncioStateStorage:
        """See `DatabaseClient.variables`."""
        return AsyncioStateStorage(self._client.variables, self._bridge)

    @property
    def tables(self) -> AsyncioTables:
        """See `DatabaseClient.tables`."""
        return AsyncioTables(self._client.tables, self._bridge)

    def transaction(self) -> AsyncioTransaction:
        """See `DatabaseClient.transaction`."""
        return AsyncioTransaction(self._client.transaction(), self._bridge)

    async def get(self, path: str, *, linearizable: bool = False) -> Node:
        """See `DatabaseClient.get`."""
        return await self._bridge.call(partial(self._client.get, path, linearizable=linearizable))

    async def exists(self, path: str, *, linearizable: bool = False) -> Stat | None:
        """See `DatabaseClient.exists`."""
        return await self._bridge.call(partial(self._client.exists, path, linearizable=linearizable))

    async def children(self, path: str, *, linearizable: bool = False) -> list[str]:
        """See `DatabaseClient.children`."""
        return await self._bridge.call(partial(self._client.children, path, linearizable=linearizable))

    async def acl(self, path: str, *, linearizable: bool = False) -> tuple[Acl, ...]:
        """See `DatabaseClient.acl`."""
        return await self._bridge.call(partial(self._client.acl, path, linearizable=linearizable))

    async def sync(self) -> None:
        """See `DatabaseClient.sync`."""
        await self._bridge.call(self._client.sync)

    def watch(self, path: str, *, recursive: bool = False, backlog: int = BACKLOG_MAX) -> AsyncioWatchStream:
        """See `DatabaseClient.watch`."""
        return AsyncioWatchStream(self._client.watch(path, recursive=recursive, backlog=backlog), self._bridge)

    @asynccontextmanager
    async def session(self, timeout_seconds: float = 10.0) -> AsyncIterator[AsyncioSession]:
        """See `DatabaseClient.session`. The other loop sends the heartbeats: an asyncio loop that stands still loses no session."""
        async with self._bridge.hold(partial(self._client.session, timeout_seconds)) as session:
            yield AsyncioSession(session, self._bridge, session)

    async def run(
        self,
        function: Callable[Concatenate[DatabaseClient, ParametersT], Awaitable[ResultT]],
        *arguments: ParametersT.args,
        **named: ParametersT.kwargs,
    ) -> ResultT:
        """Run a trio function of the DatabaseClient on its loop; returns its result, or raises its error."""
        return await self._bridge.call(partial(function, self._client, *arguments, **named))


@attrs.define(eq=False)
class AsyncioSession(AsyncioDatabaseClient):
    """A Session for asyncio; made by `AsyncioDatabaseClient.session`."""

    _session: Session

    @property
    def id(self) -> int:
        """See `Session.id`."""
        return self._session.id

    @property
    def expired(self) -> bool:
        """See `Session.expired`."""
        return self._session.expired

    async def wait_expired(self) -> None:
        """See `Session.wait_expired`."""
        await self._bridge.wait(self._session.wait_expired)

    async def create_ephemeral(self, path: str, data: bytes = b"", *, sequential: bool = False) -> str:
        """See `Session.create_ephemeral`."""
        return await self._bridge.call(partial(self._session.create_ephemeral, path, data, sequential=sequential))

    async def close(self) -> None:
        """See `Session.close`."""
        await self._bridge.call(self._session.close)


@attrs.define(eq=False)
class AsyncioTransaction:
    """A Transaction for asyncio; made by `AsyncioDatabaseClient.transaction`."""

    _transaction: Transaction
    _bridge: AsyncioBridge

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        mode: Mode = Mode.PERSISTENT,
        acl: tuple[Acl, ...] = OPEN_ACL,
        ttl_ms: int = 0,
    ) -> AsyncioTransaction:
        """See `Transaction.create`."""
        self._transaction.create(path, data, mode=mode, acl=acl, ttl_ms=ttl_ms)
        return self

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> AsyncioTransaction:
        """See `Transaction.set`."""
        self._transaction.set(path, data, version)
        return self

    def delete(self, path: str, version: int = ANY_VERSION) -> AsyncioTransaction:
        """See `Transaction.delete`."""
        self._transaction.delete(path, version)
        return self

    def check(self, path: str, version: int) -> AsyncioTransaction:
        """See `Transaction.check`."""
        self._transaction.check(path, version)
        return self

    async def commit(self) -> list[Any]:
        """See `Transaction.commit`."""
        return await self._bridge.call(self._transaction.commit)


@asynccontextmanager
async def open_client(
    opens: Callable[[], AbstractAsyncContextManager[DatabaseClient]], name: str
) -> AsyncIterator[AsyncioDatabaseClient]:
    """Open a client on the loop of a new thread, which is called `name`, as `open_bridge` does."""
    async with open_bridge(opens, name) as found:
        yield AsyncioDatabaseClient(found.opened, found.bridge)
