"""Several operations under one zxid, all or none: ZooKeeper's multi."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from virtuallog_database.client.errors import TransactionError, refusal
from virtuallog_database.tree.commands import ANY_VERSION, OPEN_ACL, Acl, Check, Create, Delete, Mode, Multi, SetData
from virtuallog_database.tree.results import Created, Error, Result


@attrs.define(eq=False)
class Transaction:
    """A builder of operations; nothing happens before `commit`. Later operations see the effects of
    earlier ones."""

    _execute: Callable[[Multi], Awaitable[Result]]
    _operations: list[Create | Delete | SetData | Check] = attrs.field(factory=list, init=False)

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        mode: Mode = Mode.PERSISTENT,
        acl: tuple[Acl, ...] = OPEN_ACL,
        ttl_ms: int = 0,
    ) -> Transaction:
        """Add a create. Returns the transaction, as the other methods do, so that calls can be
        chained."""
        return self._add(Create(path, data, acl, mode, ttl_ms))

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Transaction:
        return self._add(SetData(path, data, version))

    def delete(self, path: str, version: int = ANY_VERSION) -> Transaction:
        return self._add(Delete(path, version))

    def check(self, path: str, version: int) -> Transaction:
        """Refuse the whole transaction unless the znode has this version."""
        return self._add(Check(path, version))

    async def commit(self) -> list[Any]:
        """Execute the operations. Returns for each the created path, the `Stat` after a set, or
        None.

        Raises:
            TransactionError: refused; nothing was done.
            SessionExpiredError: the session is over; nothing was done.
            UnavailableError: unknown outcome: all of it or nothing.
        """
        result = await self._execute(Multi(tuple(self._operations)))
        if result.value is None:  # no operation was refused, but the session
            raise refusal(result.error, "")
        results: tuple[Result, ...] = result.value
        if result.error is not Error.OK:
            raise self._refusal(result, results)
        return [one.value.path if isinstance(one.value, Created) else one.value for one in results]

    def _refusal(self, result: Result, results: tuple[Result, ...]) -> TransactionError:
        # Operations behind the refused one have RUNTIME_INCONSISTENCY, those before it OK.
        wrong = (Error.OK, Error.RUNTIME_INCONSISTENCY)
        for index, (one, operation) in enumerate(zip(results, self._operations, strict=True)):
            if one.error not in wrong:
                return TransactionError(one.error, operation.path, index, results)
        return TransactionError(result.error, "", 0, results)

    def _add(self, operation: Create | Delete | SetData | Check) -> Transaction:
        self._operations.append(operation)
        return self
