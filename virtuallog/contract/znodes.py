"""Port for ZooKeeper, as those of `virtuallog.contract.ports`.

kazoo is behind it, or the simulated one of `virtuallog.testing.sim.zookeeper`; one test suite runs
against both. Every change is a `multi`: all of it happens, in one step, or nothing. Paths are
absolute.

The one server that the client is connected to answers a read, and may lag behind. With `fresh` a
transaction that changes nothing goes ahead of the read, so the answer is at least as new as the
call. `sync` of ZooKeeper is not used for that: it asks the leader, but no quorum, so a deposed
leader that does not know it yet may answer (docs/internals/sources.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias

import attrs

from virtuallog.contract.errors import VirtualLogError

ANY_VERSION: Final = -1
REQUEST_BYTES_MAX: Final = 1_000_000
"""Limit of one `multi`, all its data and paths together. ZooKeeper closes the connection on more
than `jute.maxbuffer`, 1 MiB."""


@attrs.frozen(kw_only=True)
class Stat:
    """Metadata of a znode. A zxid is the number of a transaction; later ones have higher numbers."""

    czxid: int
    """Transaction that created the znode."""
    mzxid: int
    """Last transaction that set its data."""
    ctime_ms: int
    """Time of creation on the leader's wall clock, in milliseconds since the epoch."""
    version: int
    """Number of times its data has been set since creation; 32 bits, signed."""
    cversion: int
    """Number of children created plus number of children deleted; 32 bits, signed."""
    data_bytes: int
    children: int


@attrs.frozen
class Znode:
    data: bytes = attrs.field(repr=False)
    stat: Stat


@attrs.frozen
class Check:
    """A condition: the znode exists, in this version of its data. Changes nothing."""

    path: str
    version: int


@attrs.frozen
class Create:
    """Creation of a persistent znode with an existing parent."""

    path: str
    data: bytes = attrs.field(default=b"", repr=False)
    sequence: bool = False
    """True to add ten digits to the path: the number of children created in the parent before."""


@attrs.frozen
class Set:
    path: str
    data: bytes = attrs.field(repr=False)
    version: int = ANY_VERSION


@attrs.frozen
class Delete:
    """Deletion of a znode without children."""

    path: str
    version: int = ANY_VERSION


Operation: TypeAlias = Check | Create | Set | Delete
Result: TypeAlias = Stat | str | None
"""Result of an operation: the new stat for a `Set`, the path for a `Create`, None for the others."""


class RefusedError(VirtualLogError):
    """A `multi` has done nothing, and this copy of it never will: one of its operations is impossible."""

    def __init__(self, index: int, operation: Operation) -> None:
        super().__init__(f"{type(self).__name__}: {type(operation).__name__} {operation.path}")
        self.index = index
        """Index of that operation; those before it would have been possible."""
        self.operation = operation


class NoZnodeError(RefusedError):
    """The znode, or the parent of the one to be created, does not exist."""


class ZnodeExistsError(RefusedError):
    """The znode to be created exists."""


class BadVersionError(RefusedError):
    """The znode has another version."""


class NotEmptyError(RefusedError):
    """The znode to be deleted has children."""


class Znodes(Protocol):
    """One client of a ZooKeeper, for any number of tasks.

    Each call ends within some seconds, with UnavailableError if there is no answer. Then, and also
    when a call is cancelled, a `multi` may have happened, and may still happen, once, at any later
    time.
    """

    async def multi(self, operations: Sequence[Operation]) -> Sequence[Result]:
        """Execute all operations in one step. On return they are durable, and reads of this client
        see them.

        Raises:
            RefusedError: one of its subclasses; nothing has happened.
            UnavailableError: unknown outcome.
            ForbiddenError: this ZooKeeper does not allow it; nothing has happened.
        """
        ...

    async def stats(self, paths: Sequence[str], *, fresh: bool = False) -> Sequence[Stat | None]:
        """Read the stats of znodes one after the other, in this order; None for one that does not exist.

        No result is older than one before it.

        Raises:
            UnavailableError, ForbiddenError: as for `multi`.
        """
        ...

    async def read(self, paths: Sequence[str], *, fresh: bool = False) -> Sequence[Znode | None]:
        """Read znodes as `stats` does, with their data. All of it is held in memory: the caller
        must bound it."""
        ...

    async def children(self, path: str, *, fresh: bool = False) -> Sequence[str] | None:
        """Return the children's names, without the path, in no particular order; None if the znode
        does not exist."""
        ...
