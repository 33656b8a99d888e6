"""Ports: everything the product asks of the world, such as calls to other nodes, disks and time.

The simulator replaces exactly these. Product code never touches sockets, files, `time` or
`trio.move_on_after` itself (ruff and import-linter hold that); it is given these ports. The same
code then runs on real machines and inside the deterministic simulator.

Rule for every driver of a pure core: effects run in list order, and a `Send` or `Reply` behind a
`Persist` leaves only once that write is durable.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import attrs
import trio

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import NodeId

ReplyT = TypeVar("ReplyT")
ReplyT_co = TypeVar("ReplyT_co", covariant=True)


class Request(Generic[ReplyT_co]):
    """Base of every message that one node sends to another.

    Subclasses are frozen attrs classes. `Request[R]` has an answer of class `R`, also a frozen
    attrs class.
    """

    __slots__ = ()


class Question(Request[ReplyT_co]):
    """Base of requests that change nothing which the cluster rests on.

    A process that the register does not list may send only these.
    """

    __slots__ = ()


Outcome: TypeAlias = ReplyT | VirtualLogError
Done: TypeAlias = Callable[[Outcome[Any]], None]
"""Called once, on the event loop, with the reply or the error. Must not block and must not raise."""

Handler: TypeAlias = Callable[[Any, Done], None]
"""Handler of one class of requests.

Called in order of arrival. Returns at once; calls `Done` then or later, in any order.
"""

Handlers: TypeAlias = Mapping[type[Request[Any]], Handler]


class Services(Protocol):
    """Calls to other nodes, and to this one. A call may be lost, delayed, executed twice or reordered.

    `UnavailableError` means *unknown*: the request may have been executed, or may still be.
    """

    def post(self, node: NodeId, request: Request[ReplyT], done: Callable[[ReplyT | VirtualLogError], None],
             timeout_seconds: float) -> None:  # fmt: skip
        """Send without waiting. `done` is called once, at the latest after `timeout_seconds`. Costs
        no task.

        Requests posted to one node in one order are usually, but not surely, executed in that
        order. Requests to the same node that are posted within one scheduler turn travel in one
        segment.
        """
        ...

    async def call(self, node: NodeId, request: Request[ReplyT], timeout_seconds: float) -> ReplyT:
        """Send a request and wait for its reply. Cancelling the wait does not undo the request.

        Raises:
            UnavailableError: no answer in time, or no connection: the outcome is unknown.
            VirtualLogError: the error that the other side raised.
        """
        ...


class Clock(Protocol):
    """Time as one node sees it. In the simulator clocks drift apart.

    Times to wait are often the rest until a deadline. The deadline may pass between two readings of
    a clock, so a time below 0 is over at once, and no error.
    """

    def wall(self) -> float:
        """Seconds since the epoch. May jump."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary point. Never goes back."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def timeout(self, seconds: float) -> trio.CancelScope:
        """Return a scope that is cancelled after `seconds`; ask `cancelled_caught` afterwards."""
        ...


Cut: TypeAlias = Callable[[], tuple[int, Sequence[bytes]]]
"""Returns the offset and the chunks of a write, at the last moment. Must not block and must not raise."""


class File(Protocol):
    """A file of a `Storage`. A failed write or sync leaves it in an unknown state: stop using it."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int:
        """Size of the file in bytes, zero-filled ones included."""
        ...

    async def write_synced(self, offset: int, chunks: Sequence[bytes]) -> None:
        """Write `chunks` back to back from `offset` on and sync once. All of it is durable on return.

        A crash before return may leave any part of it, torn, in any order.

        Raises:
            DiskFullError: no room; nothing was written.
            StorageError: the write or the sync failed; the file must not be used any more.
        """
        ...

    def write_soon(self, cut: Cut, done: Callable[[VirtualLogError | None], None]) -> None:
        """Do the same without waiting; costs no task.

        Args:
            cut: called once, on the event loop, after this call returns and no later than in the
                next scheduler turn; returns offset and chunks. What is queued until then shares the sync.
            done: called once, on the event loop: with None once all of it is durable, or with the
                error that `write_synced` would raise. UnavailableError means that the storage is not
                this process's any more: tell no caller. Must not block and must not raise.
        """
        ...

    async def read(self, offset: int, length: int) -> bytes:
        """Read at most `length` bytes from `offset`; fewer only at the end of the file.

        Raises:
            StorageError: the disk cannot read them.
        """
        ...

    async def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, durably."""
        ...

    async def close(self) -> None: ...


class Storage(Protocol):
    """A flat directory of files on one disk, owned by one component of one process at a time."""

    async def names(self) -> list[str]:
        """Names of all files, sorted."""
        ...

    async def create(self, name: str, size: int) -> File:
        """Create a file of `size` zero bytes. On return it is allocated and durable, its name included.

        Raises:
            DiskFullError: no room; no file was left behind.
        """
        ...

    async def open(self, name: str) -> File: ...

    async def rename(self, old: str, new: str) -> None:
        """Replace `new` by `old` in one step, durable on return."""
        ...

    async def remove(self, name: str) -> None:
        """Remove a file, durably. A missing file is no error."""
        ...


Span: TypeAlias = tuple[bytes, bytes]
"""The keys from the first one up to, and without, the second."""

Changes: TypeAlias = Mapping[bytes, bytes | None]
"""Pairs to put, and keys to delete, which have the value None."""

CutChanges: TypeAlias = Callable[[], tuple[Changes, Sequence[Span]]]
"""Returns the arguments of a `DurableMap.write`, at the last moment. Must not block and must not raise."""


class DurableMap(Protocol):
    """An ordered map of bytes to bytes with durable, atomic writes, for state that is looked up by
    key."""

    @property
    def has_room(self) -> bool:
        """True if there was room for bulk data at the last write.

        If False, small writes still work for a while, and reads always. Components that store much
        must refuse more before the disk is full to the last byte.
        """
        ...

    async def get(self, key: bytes) -> bytes | None: ...

    async def scan(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Return all pairs with keys that start with `prefix`, in key order."""
        ...

    async def scan_span(self, span: Span, max_bytes: int) -> list[tuple[bytes, bytes]]:
        """Return the pairs in `span` in key order: the first one, if any, then as many as fit in
        `max_bytes`."""
        ...

    async def write(self, changes: Changes, dropped: Sequence[Span] = ()) -> None:
        """Delete everything in `dropped`, then put every pair, and delete each key with the value None.

        All or nothing; durable on return. A span takes no time per key. If the wait is cancelled,
        the outcome is unknown.

        Raises:
            StorageError: the store failed: stop using it.
        """
        ...

    def write_soon(self, cut: CutChanges, done: Callable[[VirtualLogError | None], None]) -> None:
        """Do the same without waiting; costs no task. The order with other writes in progress is not defined.

        Args:
            cut: called once, on the event loop, after this call returns and no later than in the
                next scheduler turn; returns changes and spans. What is added until then shares the write.
            done: called once, on the event loop: with None once all of it is durable, or with the
                error that `write` would raise. Must not block and must not raise.
        """
        ...

    async def reclaim(self, span: Span) -> None:
        """Free the space of dropped keys in `span`.

        May take seconds, and holds up neither reads nor writes. Success or failure changes only the
        space used.
        """
        ...


@attrs.frozen(kw_only=True)
class Environment:
    """Environment of a client component."""

    services: Services
    clock: Clock
    random: random.Random
    """Source of randomness and of identifiers. Seeded in the simulator."""
    nursery: trio.Nursery
    """Nursery of a node or a client. Work that must survive a cancelled caller runs here."""
    learned: Callable[[bytes], None] = lambda value: None
    """Called with every register value that is known to be decided, newest or not, as soon as it is
    known.

    The value lists the nodes and their addresses. These may be needed to reach a majority, which
    alone can tell if the value is the newest. Must not block.
    """
    near: NodeId | None = None
    """The node to read from first; None if there is no preference.

    A client in the process of a node takes that node, as it costs no message. Others may choose
    one, so that many clients do not all read from the same node.
    """
    check_resident: Callable[[], None] = lambda: None
    """Check that this process may change the chain; called before each change of the chain and each trim.

    Raises WrongRecipientError if this is the process of a node, and the newest known register lists
    another one in its place. Then the caller changes nothing.
    """


async def _no_register() -> int:
    return 0


@attrs.frozen(kw_only=True)
class NodeEnvironment(Environment):
    """Environment of a role on a node."""

    node: NodeId
    near: NodeId | None = attrs.field(default=attrs.Factory(lambda self: self.node, takes_self=True))
    boot: int
    """Durable counter of process starts. Names what must not survive a restart, such as a sequencer."""
    storage: Callable[[str], Awaitable[Storage]]
    """Opens the role's own directory; the argument is the name of the role."""
    key_values: Callable[[str], Awaitable[DurableMap]]
    segment_config: Callable[[Any], Awaitable[tuple[str, bytes]]]
    """Return (kind, config) of the segment with this `SegmentId`, from the decided chain.

    Raises `UnavailableError` if the register cannot be read, and `SealedError` if the chain has no
    such segment, or no longer.
    """
    fail: Callable[[BaseException], None]
    """Report that this role can no longer be trusted (failed disk, corruption). The node stops
    serving it."""
    is_seated: Callable[[int, bytes], bool] = lambda version, value: True
    """True if this register version and value list this node with this data directory.

    Otherwise another data directory decides the next version, and this one must not vote. Raises
    WrongRecipientError for the register of another cluster, MalformedError for a value that cannot
    be decided for this version.
    """
    joined: int = 0
    """Register version in which this data directory was added or replaced a former one; 0 if it was
    there from the beginning.

    A former directory may have stored loglets of this and of earlier versions, which are not here.
    The server reports that it knows nothing of these, unless they have been copied to it since.
    """
    is_lost: Callable[[str], bool] = lambda role: False
    """True if the data directory has lost the `key_values` of a role, or may have; the argument is
    the role's name.

    The store was there before this process, or may have been. Roles that recover such a store from
    others may open it. For all others `storage` and `key_values` raise CorruptionError.
    """
    register_version: Callable[[], Awaitable[int]] = _no_register
    """Return a register version at least as new as any that was decided before the call.

    Raises `UnavailableError` if no majority answers.
    """
