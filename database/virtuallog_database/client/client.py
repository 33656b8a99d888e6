"""Reads, writes and watches of one replica's tree. Writes go through the log; see the package's docstring."""

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


class Node(NamedTuple):
    """A znode as it was read."""

    data: bytes
    stat: Stat


@attrs.define(eq=False)
class DatabaseClient:
    """Without a session: it creates no ephemerals. All methods may be called by many tasks at once."""

    _access: DatabaseHandle

    # -- writes: in the log, and applied here, on return ------------------------------------------------------------------
    #
    # All raise a DatabaseError if the tree refuses: then nothing was done. UnavailableError: unknown outcome. Cancelled, it may
    # still happen.

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        mode: Mode = Mode.PERSISTENT,
        acl: tuple[Acl, ...] = OPEN_ACL,
        ttl_ms: int = 0,
    ) -> str:
        """Make a znode; returns its path, which has a number behind it if the mode is sequential.

        Raises: NodeExistsError, NoNodeError (no parent), NoChildrenForEphemeralsError, NoAuthError, InvalidAclError,
            QuotaExceededError, BadArgumentsError.
        """
        created = await self._write(path, Create(path, data, acl, mode, ttl_ms))
        assert isinstance(created, Created)
        return created.path

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Raises: NoNodeError, BadVersionError, NoAuthError, QuotaExceededError."""
        stat: Stat = await self._write(path, SetData(path, data, version))
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Raises: NoNodeError, BadVersionError, NotEmptyError, NoAuthError."""
        await self._write(path, Delete(path, version))

    async def set_acl(self, path: str, acl: tuple[Acl, ...], version: int = ANY_VERSION) -> Stat:
        """`version` counts the changes of the ACL. Raises: NoNodeError, BadVersionError, InvalidAclError, NoAuthError."""
        stat: Stat = await self._write(path, SetAcl(path, acl, version))
        return stat

    def transaction(self) -> Transaction:
        """Several writes, all or none: `await client.transaction().check("/a", 3).set("/b", b"2").commit()`."""
        return Transaction(self._execute)

    # -- reads: of this replica ---------------------------------------------------------------------------------------
    #
    # Local ones answer from what this replica has applied, and show at least every write that this client was told of.
    # Linearizable ones cost a tail check, which all that wait at a time share, and raise UnavailableError if that fails. So do all
    # while there is no replica: a snapshot takes its place, the block that it belongs to is over, or its disk is broken, which that
    # block tells.

    async def get(self, path: str, *, linearizable: bool = False) -> Node:
        """Raises: NoNodeError, NoAuthError."""
        async with self._reading(path, linearizable):
            data, stat = self._access.database.tree.get_data(path, self._access.identities)
        return Node(data or b"", stat)

    async def exists(self, path: str, *, linearizable: bool = False) -> Stat | None:
        """None: there is no such znode."""
        try:
            async with self._reading(path, linearizable):
                return self._access.database.tree.exists(path)
        except NoNodeError:
            return None

    async def children(self, path: str, *, linearizable: bool = False) -> list[str]:
        """Names, sorted. Raises: NoNodeError, NoAuthError."""
        async with self._reading(path, linearizable):
            names, _ = self._access.database.tree.get_children(path, self._access.identities)
        return names

    async def acl(self, path: str, *, linearizable: bool = False) -> tuple[Acl, ...]:
        """Raises: NoNodeError, NoAuthError."""
        async with self._reading(path, linearizable):
            acl, _ = self._access.database.tree.get_acl(path, self._access.identities)
        return acl

    async def sync(self) -> None:
        """On return local reads show whatever anybody was told before the call: of writes that were completed, and of what
        other replicas have shown.

        Raises:
            UnavailableError: the tail of the log cannot be learnt now.
        """
        await self._access.database.sync()

    def watch(self, path: str, *, recursive: bool = False, backlog: int = BACKLOG_MAX) -> WatchStream:
        """Changes of a znode, which need not exist, from entering the block on: its data, its creation and deletion, and
        those of its children; with `recursive` of everything below it, too. To lose nothing, enter first and read then.

        Args:
            path: the znode.
            recursive: everything below it as well; then changes of lists of children are not told, as those of the children are.
            backlog: changes that wait for a slow reader; what is more is told as `Missed`.
        """
        mode = WatchMode.PERSISTENT_RECURSIVE if recursive else WatchMode.PERSISTENT
        return WatchStream(self._access, path, mode, backlog)

    @asynccontextmanager
    async def session(self, timeout_seconds: float = 10.0) -> AsyncIterator[Session]:
        """A client with a session of its own, for ephemerals: they are deleted when the block ends, or so long after the
        process has died.

        Raises:
            InvalidSettingError: no such timeout: from two seconds to a day.
            UnavailableError: it is not known whether the session was made; if so, it expires.
        """

        async with open_session(self._access, timeout_seconds) as session:
            yield session

    @property
    def _origin(self) -> Origin:
        return Origin(identities=self._access.identities)

    async def _write(self, path: str, operation: Operation) -> Any:
        result = await self._execute(operation)
        if result.error is not Error.OK:
            raise refusal(result.error, path)
        return result.value

    async def _execute(self, operation: Operation) -> Result:
        return await self._access.database.execute(operation, self._origin)

    @asynccontextmanager
    async def _reading(self, path: str, linearizable: bool) -> AsyncIterator[None]:
        if linearizable:
            await self._access.database.prepare_read()
        try:
            yield
        except RefusedError as error:
            raise refusal(error.error, path) from error
        except StorageError as error:
            raise UnavailableError(f"this replica has no state to read: {error}") from error
        finally:
            if linearizable:  # that there is no such znode is something that was read, too
                await self._access.database.confirm()


# FOLDED from virtuallog_database.kv.client.sessions: A client with a session of its own: it can have ephemerals, which live as long as it does.
#
# The session is kept alive by the replica that the program holds (`virtuallog_database.replica.session_expiry`), so it lives as long as the process and
# its way to the log do; a program that stands still for longer than the timeout has lost it, and hears so at its next write.

TIMEOUT_SECONDS: Final = (2.0, 86_400.0)
"""The shortest is ZooKeeper's: replicas hear of sessions about once a second. The longest is a day in which nobody gets a lock of a
program that has died."""
HEARTBEATS: Final = 4
"""Signs of life in one timeout. Replicas are told about once a second, of sessions that are past a third of theirs."""
CLOSE_SECONDS: Final = 2.0
"""How long the end of a block waits until its session is closed. Otherwise it expires."""


@attrs.define(eq=False)
class Session(DatabaseClient):
    """Use `DatabaseClient.session`. Every write fails with SessionExpiredError once the session is over."""

    _attached: Attached
    _over: trio.Event = attrs.field(factory=trio.Event, init=False)

    @property
    def id(self) -> int:
        """As `Stat.ephemeral_owner` has it."""
        return self._attached.session

    @property
    def expired(self) -> bool:
        """As far as this replica knows."""
        return self._over.is_set()

    async def wait_expired(self) -> None:
        """Return once the session is over, its ephemerals deleted: by expiry, as a rule."""
        await self._over.wait()

    async def create_ephemeral(self, path: str, data: bytes = b"", *, sequential: bool = False) -> str:
        """`create` with an ephemeral mode."""
        mode = Mode.EPHEMERAL_SEQUENTIAL if sequential else Mode.EPHEMERAL
        return await self.create(path, data, mode=mode)

    def begin(self, database: Database) -> None:
        """For `DatabaseHandle`."""
        database.expiry.attach(self.id, self._attached.generation, lambda _: self._over.set())

    @property
    def _origin(self) -> Origin:
        return Origin(self._attached.session, self._attached.generation, self._access.identities)

    async def _execute(self, operation: Operation) -> Result:
        if self.expired:
            raise SessionExpiredError(Error.SESSION_EXPIRED, "")
        return await super()._execute(operation)

    async def keep_alive(self) -> None:
        """Say that the client lives, until the session is over."""
        while not self.expired:
            self._access.database.expiry.heard(self.id)
            await self._access.clock.sleep(self._attached.timeout_ms / 1000 / HEARTBEATS)

    async def close(self) -> None:
        """End the session now, if the log can be reached in time."""
        self._access.database.expiry.detach(self.id, self._attached.generation)
        with self._access.clock.timeout(CLOSE_SECONDS):
            try:
                await self._access.database.execute(CloseSession(self.id), self._origin)
            except UnavailableError:
                return


@asynccontextmanager
async def open_session(access: DatabaseHandle, timeout_seconds: float) -> AsyncIterator[Session]:
    """See `DatabaseClient.session`."""
    shortest, longest = TIMEOUT_SECONDS
    if not shortest <= timeout_seconds <= longest:
        raise InvalidSettingError("timeout_seconds", f"must be from {shortest:g} to {longest:g}")
    session = Session(access, await _create_session(access, round(timeout_seconds * 1000)))
    access.enter(session)
    try:
        with unwrapped_errors():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.keep_alive)
                yield session
                nursery.cancel_scope.cancel()
    finally:
        # Shielded: who leaves by cancellation has ephemerals, too. Bounded by `CLOSE_SECONDS`.
        with trio.CancelScope(shield=True):
            await session.close()
        access.leave(session)


async def _create_session(access: DatabaseHandle, timeout_ms: int) -> Attached:
    while True:
        session = draw_session_id(access.node, access.random)
        operation = CreateSession(session, draw_password(access.random), timeout_ms)
        result = await access.database.execute(operation, Origin())
        if result.error is Error.NODE_EXISTS:  # somebody has this id; that is a story for grandchildren
            continue
        if result.error is not Error.OK:
            raise refusal(result.error, "")
        assert isinstance(result.value, Attached)
        return result.value
