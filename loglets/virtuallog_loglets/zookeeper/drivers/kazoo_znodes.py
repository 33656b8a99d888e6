"""Adapter of `virtuallog.contract.znodes.Znodes` to kazoo: one connection to a ZooKeeper per
environment.

* Nothing is handed to kazoo unless it is connected. Otherwise kazoo would keep it, and send it long
  after the caller gave up.
* All requests of a call are handed over together, so they travel over one connection, in order. If
  that breaks, kazoo fails all of them. A read in the same session never shows anything older than
  an earlier answer.
* `fresh`: a transaction that checks the root of the tree, which takes a quorum, goes ahead of the
  reads.
* An expired session takes nothing with it, as there are no ephemeral znodes: kazoo begins another
  one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs
import trio

from virtuallog.contract.errors import ForbiddenError, UnavailableError
from virtuallog.contract.ports import Environment
from virtuallog.contract.znodes import (
    ANY_VERSION,
    BadVersionError,
    Check,
    Create,
    Delete,
    NotEmptyError,
    NoZnodeError,
    Operation,
    RefusedError,
    Result,
    Set,
    Stat,
    Znode,
    ZnodeExistsError,
)
from virtuallog.runtime import log, zookeeper_client
from virtuallog.runtime.zookeeper_client import KazooBridge
from virtuallog_loglets.zookeeper.config import ZooKeeperConfig

ANSWER_SECONDS: Final = 4.0
"""Time limit for one answer, in seconds, connecting included. It is shorter than that of an append,
which can then find out what became of it."""
SESSION_SECONDS: Final = 6.0
"""Session timeout in seconds. kazoo looks for another server after two thirds of it without an answer."""


@attrs.frozen
class _Link:
    """Connection and deadline of one call."""

    client: Any
    bridge: KazooBridge
    deadline: float


@attrs.define(eq=False)
class KazooZnodes:
    """One client. It connects on its first call and lives as long as the environment's nursery."""

    _hosts: str
    _environment: Environment
    _client: Any = attrs.field(default=None, init=False)
    _bridge: KazooBridge | None = attrs.field(default=None, init=False)
    _changes: trio.Event = attrs.field(factory=trio.Event, init=False)
    """Event that is set and replaced whenever the connection changes, so it wakes all waiters."""
    is_closed: bool = attrs.field(default=False, init=False)

    def serves(self, config: ZooKeeperConfig, environment: Environment) -> bool:
        return self._hosts == config.hosts and self._environment.nursery is environment.nursery and not self.is_closed

    async def multi(self, operations: Sequence[Operation]) -> Sequence[Result]:
        link = await self._connect()
        transaction = link.client.transaction()
        for operation in operations:
            _add(transaction, operation)
        results = await self._answer(link, transaction.commit_async())
        _check_untrusted(operations, results)
        return [_result(result) for result in results]

    async def stats(self, paths: Sequence[str], *, fresh: bool = False) -> Sequence[Stat | None]:
        found = await self._look("exists_async", paths, fresh=fresh)
        return [None if stat is None else _stat(stat) for stat in found]

    async def read(self, paths: Sequence[str], *, fresh: bool = False) -> Sequence[Znode | None]:
        found = await self._look("get_async", paths, fresh=fresh)
        return [None if pair is None else Znode(pair[0], _stat(pair[1])) for pair in found]

    async def children(self, path: str, *, fresh: bool = False) -> Sequence[str] | None:
        (names,) = await self._look("get_children_async", [path], fresh=fresh)
        found: Sequence[str] | None = names
        return found

    async def _look(self, method: str, paths: Sequence[str], *, fresh: bool) -> list[Any]:
        link = await self._connect()
        barrier = []
        if fresh:
            transaction = link.client.transaction()
            transaction.check("/", ANY_VERSION)
            barrier = [transaction.commit_async()]
        asked = [*barrier, *(getattr(link.client, method)(path) for path in paths)]
        answers = [await self._answer(link, pending) for pending in asked]
        return answers[len(barrier) :]

    # -- the connection -----------------------------------------------------------------------------------------------

    async def _connect(self) -> _Link:
        """Wait for a connection.

        Raises:
            UnavailableError: there is none. Nothing was sent.
        """
        clock = self._environment.clock
        deadline = clock.monotonic() + ANSWER_SECONDS
        if self._client is None:
            self._client, self._bridge = zookeeper_client.open_client(self._hosts, SESSION_SECONDS), KazooBridge()
            self._client.add_listener(self._changed)
            self._environment.nursery.start_soon(self._live, self._client)
            self._client.start_async()  # tries for ever, on its own threads
        assert self._bridge is not None
        if not self._client.connected:
            with clock.timeout(ANSWER_SECONDS):
                await self._wait_connected()
        # What is sent without time for an answer has an unknown outcome.
        if not self._client.connected or clock.monotonic() >= deadline:
            raise UnavailableError(f"ZooKeeper: no connection to {self._hosts}: nothing was done")
        return _Link(self._client, self._bridge, deadline)

    async def _wait_connected(self) -> None:
        while not self._client.connected:
            # it changes on another thread, but this loop learns of it in a callback: never in
            # between
            await self._changes.wait()

    async def _live(self, client: Any) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self.is_closed = True
            await zookeeper_client.close_client(client)

    def _changed(self, state: object) -> None:
        """Take a state change. Called on a thread of kazoo."""
        assert self._bridge is not None
        self._bridge.call_soon(lambda: self._note(str(state)))

    def _note(self, state: str) -> None:
        if not self.is_closed:
            tell = log.info if self._client.connected else log.warning
            tell("connection to ZooKeeper", hosts=self._hosts, state=state)
        self._changes.set()
        self._changes = trio.Event()

    async def _answer(self, link: _Link, pending: Any) -> Any:
        """Wait for an answer; None if the znode does not exist."""
        from kazoo.exceptions import AuthFailedError, KazooException, NoAuthError, NoNodeError

        try:
            left = link.deadline - self._environment.clock.monotonic()
            return await link.bridge.answer(pending, self._environment.clock, left)
        except NoNodeError:
            return None
        except (NoAuthError, AuthFailedError) as error:
            raise _forbidden() from error
        except KazooException as error:
            raise UnavailableError(f"ZooKeeper: {type(error).__name__} {error}") from error


@attrs.define(eq=False)
class KazooConnections:
    """Connections of a provider's loglets: one for all in the same ZooKeeper that one environment
    has opened."""

    _open: list[KazooZnodes] = attrs.field(factory=list, init=False)

    def __call__(self, config: ZooKeeperConfig, environment: Environment) -> KazooZnodes:
        """Client for a config. It connects when it is first used."""
        self._open = [client for client in self._open if not client.is_closed]
        for client in self._open:
            if client.serves(config, environment):
                return client
        self._open.append(KazooZnodes(config.hosts, environment))
        return self._open[-1]


def _add(transaction: Any, operation: Operation) -> None:
    if isinstance(operation, Check):
        transaction.check(operation.path, operation.version)
    elif isinstance(operation, Create):
        transaction.create(operation.path, operation.data, sequence=operation.sequence)
    elif isinstance(operation, Set):
        transaction.set_data(operation.path, operation.data, operation.version)
    else:
        assert isinstance(operation, Delete)
        transaction.delete(operation.path, operation.version)


def _check_untrusted(operations: Sequence[Operation], results: Sequence[Any]) -> None:
    """Raise the error of the operation that made the transaction fail. The others were rolled back
    or not tried."""
    from kazoo import exceptions as kazoo

    refusals: dict[type, type[RefusedError]] = {
        kazoo.BadVersionError: BadVersionError,
        kazoo.NodeExistsError: ZnodeExistsError,
        kazoo.NoNodeError: NoZnodeError,
        kazoo.NotEmptyError: NotEmptyError,
    }
    for index, (operation, result) in enumerate(zip(operations, results, strict=False)):
        if not isinstance(result, Exception) or isinstance(result, kazoo.RolledBackError | kazoo.RuntimeInconsistency):
            continue
        if isinstance(result, kazoo.NoAuthError):
            raise _forbidden()
        if type(result) in refusals:
            raise refusals[type(result)](index, operation)
        raise UnavailableError(f"ZooKeeper: {type(result).__name__} {result}")
    if len(results) != len(operations) or any(isinstance(result, Exception) for result in results):
        raise UnavailableError(f"ZooKeeper: {len(results)} results of a transaction of {len(operations)}")


def _forbidden() -> ForbiddenError:
    return ForbiddenError(
        "this use of ZooKeeper", "any client", "an ACL that lets all clients create, read, write and delete"
    )


def _result(result: Any) -> Result:
    if isinstance(result, str):
        return result
    return _stat(result) if hasattr(result, "czxid") else None


def _stat(stat: Any) -> Stat:
    return Stat(
        czxid=stat.czxid,
        mzxid=stat.mzxid,
        ctime_ms=stat.ctime,
        version=stat.version,
        cversion=stat.cversion,
        data_bytes=stat.dataLength,
        children=stat.numChildren,
    )
