"""Storage in a ZooKeeper: any, also that of a database of ours.

    async with open_zookeeper_storage("one:2181,two:2181", "/state") as storage:
        state = State(storage)

Layout, all names percent-encoded:

    ROOT                    set by each creation, so its version counts them
    ROOT/NAME               one directory for each name with an entry
    ROOT/NAME/VERSION       its only child, called by the version in hexadecimal; holds the value

    set        delete the child of the expected version, create that of the new one: one transaction
    create     create the directory and its child, if ROOT still has the version that was read before
    expunge    delete both

A request without an answer may still happen, once, at any later time. A set or an expunge that comes late finds that the
child which it deletes is gone, for good: versions are drawn at random. A creation that comes late finds that ROOT has
another version: its repetition was answered behind another creation, or has set ROOT before it said that there is nothing.

Source: Mesos, src/state/zookeeper.cpp. Departures: there a znode is compared by its version number; and a store whose
answer is lost fails, as its repetition finds the entry that it has written itself. Here that is a success.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

import attrs
import trio

from virtuallog.contract.errors import CorruptionError, UnavailableError
from virtuallog.contract.ports import Environment, ReplyT, Request
from virtuallog.contract.types import NodeId
from virtuallog.contract.znodes import (
    REQUEST_BYTES_MAX,
    Create,
    Delete,
    NoZnodeError,
    Operation,
    RefusedError,
    Set,
    Znodes,
)
from virtuallog.runtime.clock import SystemClock
from virtuallog.runtime.nurseries import unwrapped_errors
from virtuallog_database.state.storage import check_size
from virtuallog_database.state.variable import NAME_BYTES_MAX, VERSION_BYTES, StateEntry, encode_name
from virtuallog_loglets.zookeeper.config import ZooKeeperConfig
from virtuallog_loglets.zookeeper.drivers.base_znodes import make_root
from virtuallog_loglets.zookeeper.drivers.kazoo_znodes import KazooZnodes

ROUNDS_MAX: Final = 16
"""Rounds of one call. Each one more is due to a write of another client in between."""
_OPERATION_BYTES: Final = 128
"""Room for one operation of a transaction, beside its path and data."""
_OPERATIONS: Final = 3
"""Most operations of a transaction."""


@asynccontextmanager
async def open_zookeeper_storage(hosts: str, root: str) -> AsyncIterator[ZooKeeperStorage]:
    """Open the storage below a znode, which is made if it is missing. It connects on its first call.

    Args:
        hosts: host:port,host:port
        root: path of a znode that holds nothing else.

    Raises:
        InvalidSettingError: `hosts` or `root` is malformed.
    """
    config = ZooKeeperConfig(hosts=hosts, root=root)
    with unwrapped_errors():
        async with trio.open_nursery() as nursery:
            environment = Environment(
                services=_NoServices(), clock=SystemClock(), random=random.SystemRandom(), nursery=nursery
            )
            yield ZooKeeperStorage(KazooZnodes(config.hosts, environment), config.root)
            nursery.cancel_scope.cancel()


@attrs.define(eq=False)
class ZooKeeperStorage:
    """Implements `StateStorage` with a client of a ZooKeeper.

    All methods raise CorruptionError if another program has changed the znodes, and ForbiddenError if an ACL is in the way.
    """

    _znodes: Znodes
    _root: str

    @property
    def value_bytes_max(self) -> int:
        """Largest value: with its paths it fits into one transaction."""
        path = len(self._root) + 3 * NAME_BYTES_MAX + 2 * VERSION_BYTES + 2
        return REQUEST_BYTES_MAX - _OPERATIONS * (path + _OPERATION_BYTES)

    async def get(self, name: str) -> StateEntry | None:
        directory = self._directory(name)
        for _ in range(ROUNDS_MAX):
            version = await self._version(directory)
            if version is None:
                return None
            # Not before the answer above, as it comes over the same connection.
            (znode,) = await self._znodes.read([_child(directory, version)])
            if znode is not None:
                return StateEntry(znode.data, version)
        raise _contended(name)

    async def set(self, name: str, entry: StateEntry, expected: bytes, *, may_create: bool) -> bool:
        check_size(name, entry.value, self.value_bytes_max)
        directory = self._directory(name)
        child = Create(_child(directory, entry.version), entry.value)
        for _ in range(ROUNDS_MAX):
            if await self._try([Delete(_child(directory, expected)), child]):
                return True
            creations = await self._creations()
            present = await self._version(directory)
            if present == entry.version:
                return True
            if present is None and may_create:
                if await self._try([Set(self._root, b"", creations), Create(directory), child]):
                    return True
            elif present is None:
                await self._try([Set(self._root, b"")])  # no earlier attempt to create it comes late
                if await self._version(directory) is None:
                    return False
            elif present != expected:
                return False
        raise _contended(name)

    async def expunge(self, name: str, expected: bytes) -> bool:
        directory = self._directory(name)
        try:
            await self._znodes.multi([Delete(_child(directory, expected)), Delete(directory)])
        except NoZnodeError:
            return False
        except RefusedError as error:
            raise CorruptionError(f"{directory} has more than one child") from error
        return True

    async def names(self) -> frozenset[str]:
        found = await self._znodes.children(self._root, fresh=True)
        return frozenset(name for name in map(_unescape, found or ()) if name is not None)

    async def _try(self, operations: list[Operation]) -> bool:
        """Execute a transaction; returns False if one of its operations is impossible."""
        try:
            await self._znodes.multi(operations)
        except RefusedError:
            return False
        return True

    async def _version(self, directory: str) -> bytes | None:
        """The present version of a name, or None."""
        found = await self._znodes.children(directory, fresh=True)
        if found is None:
            return None
        try:
            (version,) = (bytes.fromhex(child) for child in found)
        except ValueError as error:
            raise CorruptionError(f"{directory} has the children {sorted(found)[:3]}, not one version") from error
        if len(version) != VERSION_BYTES:
            raise CorruptionError(f"{directory} has a version of {len(version)} bytes")
        return version

    async def _creations(self) -> int:
        """The version of the root, which is made if it is missing. One that is out of date is refused later."""
        for _ in range(ROUNDS_MAX):
            (stat,) = await self._znodes.stats([self._root])
            if stat is not None:
                return stat.version
            await make_root(self._root, self._znodes)
        raise UnavailableError(f"the znode {self._root} comes and goes")

    def _directory(self, name: str) -> str:
        return f"{self._root}/{_escape(name)}"


class _NoServices:
    """Services port of a client that calls no nodes."""

    def post(self, node: NodeId, request: Request[ReplyT], done: Callable[[Any], None], timeout_seconds: float) -> None:
        raise AssertionError("a client of a ZooKeeper calls no nodes")

    async def call(self, node: NodeId, request: Request[ReplyT], timeout_seconds: float) -> ReplyT:
        raise AssertionError("a client of a ZooKeeper calls no nodes")


def _child(directory: str, version: bytes) -> str:
    return f"{directory}/{version.hex()}"


def _escape(name: str) -> str:
    """A name as one part of a path. Dots are encoded, as ZooKeeper takes `.` and `..` for no names."""
    return quote(encode_name(name), safe="").replace(".", "%2E").replace("~", "%7E")


def _unescape(part: str) -> str | None:
    """The inverse of `_escape`; None for any other text: another program has created the znode."""
    try:
        name = unquote_to_bytes(part).decode()
        return name if name and _escape(name) == part else None
    except ValueError:
        return None


def _contended(name: str) -> UnavailableError:
    return UnavailableError(f"other clients change '{name}' all the time: nothing was done")
