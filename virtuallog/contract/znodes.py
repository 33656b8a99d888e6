"""What we ask of a ZooKeeper: a port, as those of `virtuallog.contract.ports`. kazoo is behind it, or the simulated one of
`virtuallog.testing.sim.zookeeper`; one suite of tests is run against both.

Everything that changes something is a `multi`: all of it happens, in one step, or nothing. Paths are absolute.

A read is answered by the one server that the client is connected to, and that may lag behind. With `fresh` a transaction
that changes nothing goes ahead of it: what is answered is at least as new as the call. `sync` of ZooKeeper is not used for
that: it asks the leader, but no quorum, so one that has been deposed and does not know it yet may answer (docs/internals/sources.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias

import attrs

from virtuallog.contract.errors import VirtualLogError

ANY_VERSION: Final = -1
REQUEST_BYTES_MAX: Final = 1_000_000
"""Of one `multi`, all its data and paths together: ZooKeeper closes the connection on more than `jute.maxbuffer`, 1 MiB."""


@attrs.frozen(kw_only=True)
class Stat:
    """What ZooKeeper keeps beside the data of a znode. A zxid is the number of a transaction: later ones have higher numbers."""

    czxid: int
    """The transaction that created it."""
    mzxid: int
    """The last one that set its data."""
    ctime_ms: int
    """When it was created, on the leader's wall clock, in milliseconds since the epoch."""
    version: int
    """How often its data has been set since; 32 bits, signed."""
    cversion: int
    """How many children have been created, and deleted, in all; 32 bits, signed."""
    data_bytes: int
    children: int


@attrs.frozen
class Znode:
    data: bytes = attrs.field(repr=False)
    stat: Stat


@attrs.frozen
class Check:
    """Nothing but a condition: the znode exists, in this version of its data."""

    path: str
    version: int


@attrs.frozen
class Create:
    """A persistent znode, whose parent exists."""

    path: str
    data: bytes = attrs.field(default=b"", repr=False)
    sequence: bool = False
    """Ten digits are added to the path: how many children have been created in the parent before."""


@attrs.frozen
class Set:
    path: str
    data: bytes = attrs.field(repr=False)
    version: int = ANY_VERSION


@attrs.frozen
class Delete:
    """The znode has no children."""

    path: str
    version: int = ANY_VERSION


Operation: TypeAlias = Check | Create | Set | Delete
Result: TypeAlias = Stat | str | None
"""Of a `Set` what the znode is then, of a `Create` its path, of the others None."""


class RefusedError(VirtualLogError):
    """A `multi` has done nothing, and this copy of it never will: one of its operations is not possible."""

    def __init__(self, index: int, operation: Operation) -> None:
        super().__init__(f"{type(self).__name__}: {type(operation).__name__} {operation.path}")
        self.index = index
        """Which one; those before it would have been possible."""
        self.operation = operation


class NoZnodeError(RefusedError):
    """The znode, or the parent of the one to be created, does not exist."""


class ZnodeExistsError(RefusedError):
    """The znode to be created exists."""


class BadVersionError(RefusedError):
    """The znode is in another version."""


class NotEmptyError(RefusedError):
    """The znode to be deleted has children."""


class Znodes(Protocol):
    """One client of a ZooKeeper, used by any number of tasks. Each call ends within some seconds, with UnavailableError if no
    answer has come: then a `multi` may have happened, and may still happen, once, at any later time.

    Also when a call is cancelled.
    """

    async def multi(self, operations: Sequence[Operation]) -> Sequence[Result]:
        """On return all of it has happened, in one step, durably, and reads of this client see it.

        Raises:
            RefusedError: one of its subclasses; nothing has happened.
            UnavailableError: unknown.
            ForbiddenError: this ZooKeeper does not allow it; nothing has happened.
        """
        ...

    async def stats(self, paths: Sequence[str], *, fresh: bool = False) -> Sequence[Stat | None]:
        """Read one after the other, in this order, without anything older behind something newer; None: does not exist.

        Raises:
            UnavailableError, ForbiddenError: as above.
        """
        ...

    async def read(self, paths: Sequence[str], *, fresh: bool = False) -> Sequence[Znode | None]:
        """The same, with their data. All of it is held in memory: the caller sees to it that this is bounded."""
        ...

    async def children(self, path: str, *, fresh: bool = False) -> Sequence[str] | None:
        """Names, without the path, in no particular order; None: there is no such znode."""
        ...
