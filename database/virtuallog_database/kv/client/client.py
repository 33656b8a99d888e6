"""Reads, writes and watches of one replica's tree. Writes go through the log; see the package's docstring."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from virtuallog.errors import StorageError, UnavailableError
from virtuallog_database.kv.client.access import Access
from virtuallog_database.kv.client.errors import NoNodeError, refusal
from virtuallog_database.kv.client.transactions import Transaction
from virtuallog_database.kv.client.watching import BACKLOG_MAX, WatchStream
from virtuallog_database.kv.commands import (
    ANY_VERSION,
    OPEN_ACL,
    Acl,
    Create,
    Delete,
    Mode,
    Operation,
    Origin,
    SetAcl,
    SetData,
)
from virtuallog_database.kv.results import Created, Error, RefusedError, Result, Stat
from virtuallog_database.kv.watches import WatchMode

if TYPE_CHECKING:
    from virtuallog_database.kv.client.sessions import Session


class Node(NamedTuple):
    """A znode as it was read."""

    data: bytes
    stat: Stat


@attrs.define(eq=False)
class KeyValueClient:
    """Without a session: it creates no ephemerals. All methods may be called by many tasks at once."""

    _access: Access

    # -- writes: in the log, and applied here, on return ------------------------------------------------------------------
    #
    # All raise a KeyValueError if the tree refuses: then nothing was done. UnavailableError: unknown outcome. Cancelled, it may
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
        from virtuallog_database.kv.client.sessions import open_session

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
