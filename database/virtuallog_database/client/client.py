"""Reads, writes, watches and sessions on one replica of the database. Writes go through the log.

The replica that the program holds keeps a session alive
(`virtuallog_database.replica.session_expiry`). So a session lives as long as the process and its
way to the log do. A program that stands still longer than the timeout has lost its session, and
learns so at its next write.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import attrs
import trio

from virtuallog.contract.errors import InvalidSettingError, StorageError, UnavailableError
from virtuallog.runtime.nurseries import unwrapped_errors
from virtuallog_database.client.database_handle import DatabaseHandle
from virtuallog_database.client.errors import NoNodeError, SessionExpiredError, refusal
from virtuallog_database.client.transaction import Transaction
from virtuallog_database.client.watch_stream import BACKLOG_MAX, WatchStream
from virtuallog_database.replica.database import Database
from virtuallog_database.replica.session_ids import draw_password, draw_session_id
from virtuallog_database.state.storages.virtual_log import VirtualLogStorage
from virtuallog_database.table.client import Tables
from virtuallog_database.tree.commands import (
    ANY_VERSION,
    OPEN_ACL,
    Acl,
    CloseSession,
    Create,
    CreateSession,
    Delete,
    Mode,
    Operation,
    Origin,
    SetAcl,
    SetData,
)
from virtuallog_database.tree.results import Attached, Created, Error, RefusedError, Result, Stat
from virtuallog_database.tree.watches import WatchMode

TIMEOUT_SECONDS: Final = (2.0, 86_400.0)
"""Shortest and longest timeout. The shortest is ZooKeeper's: touches of a session must reach the log
each sixth of it. The longest is a day: so long a lock may outlive the program that held it."""
HEARTBEATS: Final = 4
"""Heartbeats in one timeout. A program that stands still for three quarters of it keeps its session."""
CLOSE_SECONDS: Final = 2.0
"""Time that the end of a block waits until its session is closed. Past it, the session expires."""


class Node(NamedTuple):
    """Data and stat of a znode, as read."""

    data: bytes
    stat: Stat


@attrs.define(eq=False)
class DatabaseClient:
    """Client without a session: it cannot create ephemerals. Many tasks may call all methods at
    once."""

    _handle: DatabaseHandle

    # -- writes: in the log, and applied here, on return ------------------------------------------------------------------
    # All raise a DatabaseError if the database refuses; then nothing was done. UnavailableError:
    # unknown outcome.
    # A cancelled write may still happen.

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        mode: Mode = Mode.PERSISTENT,
        acl: tuple[Acl, ...] = OPEN_ACL,
        ttl_ms: int = 0,
    ) -> str:
        """Create a znode. Returns its path, which ends with a number if the mode is sequential.

        Raises: NodeExistsError, NoNodeError (no parent), NoChildrenForEphemeralsError, NoAuthError,
            InvalidAclError, QuotaExceededError, BadArgumentsError.
        """
        created = await self._write(path, Create(path, data, acl, mode, ttl_ms))
        assert isinstance(created, Created)
        return created.path

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace the data of a znode; returns its new stat.

        Raises: NoNodeError, BadVersionError, NoAuthError, QuotaExceededError.
        """
        stat: Stat = await self._write(path, SetData(path, data, version))
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a znode without children.

        Raises: NoNodeError, BadVersionError, NotEmptyError, NoAuthError.
        """
        await self._write(path, Delete(path, version))

    async def set_acl(self, path: str, acl: tuple[Acl, ...], version: int = ANY_VERSION) -> Stat:
        """Replace the ACL of a znode; `version` counts changes of the ACL.

        Raises: NoNodeError, BadVersionError, InvalidAclError, NoAuthError.
        """
        stat: Stat = await self._write(path, SetAcl(path, acl, version))
        return stat

    @property
    def variables(self) -> VirtualLogStorage:
        """Storage of named values beside the tree, for `State`, `Registrar` and others (`virtuallog_database.state`)."""
        return VirtualLogStorage(self._handle)

    @property
    def tables(self) -> Tables:
        """Typed tables with indices and serializable transactions, beside the tree (`virtuallog.table`)."""
        return Tables(self._handle)

    def transaction(self) -> Transaction:
        """Several writes, all or none: `await client.transaction().check("/a", 3).set("/b",
        b"2").commit()`."""
        return Transaction(self._execute)

    # -- reads: of this replica ---------------------------------------------------------------------------------------
    # Local reads answer from what this replica has applied. They show at least every write that
    # this client has got an answer for.
    # Linearizable reads cost a tail check, which concurrent reads share, and raise UnavailableError
    # if it fails.
    # All reads raise UnavailableError while there is no replica: a snapshot is being installed, the
    # block of the replica is over, or
    # its disk is broken, which that block reports.

    async def get(self, path: str, *, linearizable: bool = False) -> Node:
        """Data and stat of a znode.

        Raises: NoNodeError, NoAuthError.
        """
        async with self._reading(path, linearizable):
            data, stat = self._handle.database.tree.get_data(path, self._handle.identities)
        return Node(data or b"", stat)

    async def exists(self, path: str, *, linearizable: bool = False) -> Stat | None:
        """Stat of a znode. None if there is no such znode."""
        try:
            async with self._reading(path, linearizable):
                return self._handle.database.tree.exists(path)
        except NoNodeError:
            return None

    async def children(self, path: str, *, linearizable: bool = False) -> list[str]:
        """Names of the children, sorted.

        Raises: NoNodeError, NoAuthError.
        """
        async with self._reading(path, linearizable):
            names, _ = self._handle.database.tree.get_children(path, self._handle.identities)
        return names

    async def acl(self, path: str, *, linearizable: bool = False) -> tuple[Acl, ...]:
        """ACL of a znode.

        Raises: NoNodeError, NoAuthError.
        """
        async with self._reading(path, linearizable):
            acl, _ = self._handle.database.tree.get_acl(path, self._handle.identities)
        return acl

    async def sync(self) -> None:
        """Wait until local reads show every write that was completed before the call, and
        everything that any replica had shown before it.

        Raises:
            UnavailableError: the tail of the log cannot be learnt now.
        """
        await self._handle.database.sync()

    def watch(self, path: str, *, recursive: bool = False, backlog: int = BACKLOG_MAX) -> WatchStream:
        """Stream of changes of a znode, which need not exist: its data, its creation and deletion,
        and those of its children. The watch is set while the block runs. To lose nothing, enter
        first and read then.

        Args:
            path: the znode.
            recursive: also report everything below it. Changes of child lists are not reported
                then, as the children's own changes are.
            backlog: changes that wait for a slow reader; further ones are reported as `Missed`.
        """
        mode = WatchMode.PERSISTENT_RECURSIVE if recursive else WatchMode.PERSISTENT
        return WatchStream(self._handle, path, mode, backlog)

    @asynccontextmanager
    async def session(self, timeout_seconds: float = 10.0) -> AsyncIterator[Session]:
        """A client with its own session, for ephemerals. They are deleted when the block ends, or
        one and a half timeouts after the process has died: its replica dies with it, and others wait
        for longer.

        Raises:
            InvalidSettingError: the timeout is not between two seconds and a day.
            UnavailableError: unknown outcome; if the session was created, it expires.
        """
        async with open_session(self._handle, timeout_seconds) as session:
            yield session

    @property
    def _origin(self) -> Origin:
        return Origin(identities=self._handle.identities)

    async def _write(self, path: str, operation: Operation) -> Any:
        result = await self._execute(operation)
        if result.error is not Error.OK:
            raise refusal(result.error, path)
        return result.value

    async def _execute(self, operation: Operation) -> Result:
        return await self._handle.database.proposals.execute(operation, self._origin)

    @asynccontextmanager
    async def _reading(self, path: str, linearizable: bool) -> AsyncIterator[None]:
        if linearizable:
            await self._handle.database.prepare_read()
        try:
            yield
        except RefusedError as error:
            raise refusal(error.error, path) from error
        except StorageError as error:
            raise UnavailableError(f"this replica has no state to read: {error}") from error
        finally:
            if linearizable:  # the absence of a znode is a result of a read, too
                await self._handle.database.confirm()


@attrs.define(eq=False)
class Session(DatabaseClient):
    """Client with a session; made by `DatabaseClient.session`. Every write raises
    SessionExpiredError once the session is over."""

    _attached: Attached
    _over: trio.Event = attrs.field(factory=trio.Event, init=False)

    @property
    def id(self) -> int:
        """Id of the session, as in `Stat.ephemeral_owner`."""
        return self._attached.session

    @property
    def expired(self) -> bool:
        """True if the session is over, as far as this replica knows."""
        return self._over.is_set()

    async def wait_expired(self) -> None:
        """Return once the session is over and its ephemerals are deleted; usually by expiry."""
        await self._over.wait()

    async def create_ephemeral(self, path: str, data: bytes = b"", *, sequential: bool = False) -> str:
        """`create` with an ephemeral mode."""
        mode = Mode.EPHEMERAL_SEQUENTIAL if sequential else Mode.EPHEMERAL
        return await self.create(path, data, mode=mode)

    def begin(self, database: Database) -> None:
        """Attach the session to a new database (called by `DatabaseHandle`)."""
        now = self._handle.clock.monotonic()
        database.expiry.attach(self.id, self._attached.generation, lambda _: self._over.set(), proposed=now, now=now)

    @property
    def _origin(self) -> Origin:
        return Origin(self._attached.session, self._attached.generation, self._handle.identities)

    async def _execute(self, operation: Operation) -> Result:
        if self.expired:
            raise SessionExpiredError(Error.SESSION_EXPIRED, "")
        return await super()._execute(operation)

    async def keep_alive(self) -> None:
        """Send heartbeats until the session is over."""
        while not self.expired:
            self._handle.database.expiry.heard(self.id, self._handle.clock.monotonic())
            await self._handle.clock.sleep(self._attached.timeout_ms / 1000 / HEARTBEATS)

    async def close(self) -> None:
        """End the session now, if the log can be reached in time."""
        self._handle.database.expiry.detach(self.id, self._attached.generation)
        with self._handle.clock.timeout(CLOSE_SECONDS):
            try:
                await self._handle.database.proposals.execute(CloseSession(self.id), self._origin)
            except UnavailableError:
                return


@asynccontextmanager
async def open_session(handle: DatabaseHandle, timeout_seconds: float) -> AsyncIterator[Session]:
    """Implements `DatabaseClient.session`."""
    shortest, longest = TIMEOUT_SECONDS
    if not shortest <= timeout_seconds <= longest:
        raise InvalidSettingError("timeout_seconds", f"must be from {shortest:g} to {longest:g}")
    session = Session(handle, await _create_session(handle, round(timeout_seconds * 1000)))
    handle.enter(session)
    try:
        with unwrapped_errors():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.keep_alive)
                yield session
                nursery.cancel_scope.cancel()
    finally:
        # Shielded: a cancelled block has ephemerals, too. Bounded by `CLOSE_SECONDS`.
        with trio.CancelScope(shield=True):
            await session.close()
        handle.leave(session)


async def _create_session(handle: DatabaseHandle, timeout_ms: int) -> Attached:
    while True:
        session = draw_session_id(handle.node, handle.random)
        operation = CreateSession(session, draw_password(handle.random), timeout_ms)
        result = await handle.database.proposals.execute(operation, Origin())
        if result.error is Error.NODE_EXISTS:  # the id is taken (56 random bits: practically never)
            continue
        if result.error is not Error.OK:
            raise refusal(result.error, "")
        assert isinstance(result.value, Attached)
        return result.value
