"""What the product asks of the world: calls to other nodes, disks, time. The simulator replaces exactly these.

Product code never touches sockets, files, `time` or `trio.move_on_after` itself (ruff and import-linter hold that);
it is given these ports. The same code then runs on real machines and inside the deterministic simulator.

Rule for everybody who drives a pure core: effects run in list order, and a `Send` or `Reply` behind a `Persist`
leaves only once that write is durable.
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
    """Base of every message that one node sends to another. Subclasses are frozen attrs classes; `Request[R]` says
    that the answer is an `R` (also a frozen attrs class)."""

    __slots__ = ()


class Question(Request[ReplyT_co]):
    """Base of requests that change nothing which the cluster rests on. A process that the register does not mean may send these only."""

    __slots__ = ()


Outcome: TypeAlias = ReplyT | VirtualLogError
Done: TypeAlias = Callable[[Outcome[Any]], None]
"""Called once, on the event loop, with the reply or the error. Must not block and must not raise."""

Handler: TypeAlias = Callable[[Any, Done], None]
"""Serves one class of requests: called in order of arrival, returns at once, calls `Done` then or later, in any order."""

Handlers: TypeAlias = Mapping[type[Request[Any]], Handler]


class Services(Protocol):
    """Calls to other nodes (and to this one). A call may be lost, delayed, executed twice or out of order.

    `UnavailableError` means *unknown*: the request may have been executed, or may still be.
    """

    def post(self, node: NodeId, request: Request[ReplyT], done: Callable[[ReplyT | VirtualLogError], None],
             timeout_seconds: float) -> None:  # fmt: skip
        """Send without waiting; `done` is called once, at the latest after `timeout_seconds`. Costs no task.

        Requests posted to one node in one order are usually, but not surely, executed in that order. Requests to the
        same node that are posted within one scheduler turn travel in one segment.
        """
        ...

    async def call(self, node: NodeId, request: Request[ReplyT], timeout_seconds: float) -> ReplyT:
        """Send and wait. Cancelling the wait does not undo the request.

        Raises:
            UnavailableError: no answer in time, or no connection: the outcome is unknown.
            VirtualLogError: what the other side raised.
        """
        ...


class Clock(Protocol):
    """Time as one node sees it; in the simulator clocks drift apart.

    Times to wait are often what is left until a deadline. Between two looks at a clock the deadline may pass: a time below 0
    is over at once, and no error.
    """

    def wall(self) -> float:
        """Seconds since the epoch. May jump."""
        ...

    def monotonic(self) -> float:
        """Seconds from some point; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def timeout(self, seconds: float) -> trio.CancelScope:
        """A scope that is cancelled after `seconds`; ask `cancelled_caught` afterwards."""
        ...


class File(Protocol):
    """One file of a `Storage`. A failed write or sync leaves the file in an unknown state: stop using it."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int:
        """Bytes in the file, zero-filled ones included."""
        ...

    async def write_synced(self, offset: int, chunks: Sequence[bytes]) -> None:
        """Write `chunks` back to back from `offset` on and sync once: all of it is durable on return.

        A crash before return may leave any part of it, torn, in any order.

        Raises:
            DiskFullError: no room; nothing was written.
            StorageError: the write or the sync failed: poisoned.
        """
        ...

    async def read(self, offset: int, length: int) -> bytes:
        """At most `length` bytes from `offset`; fewer only at the end of the file.

        Raises:
            StorageError: the disk cannot give them.
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
        """A new file of `size` zero bytes, allocated and durable on return, its name included.

        Raises:
            DiskFullError: no room; no file was left behind.
        """
        ...

    async def open(self, name: str) -> File: ...

    async def rename(self, old: str, new: str) -> None:
        """Replace `new` by `old` in one step, durable on return."""
        ...

    async def remove(self, name: str) -> None:
        """Durably remove a file; one that is not there is no error."""
        ...


Span: TypeAlias = tuple[bytes, bytes]
"""The keys from the first one up to and without the second."""


class DurableMap(Protocol):
    """An ordered map of bytes to bytes with durable, atomic writes: for state that is looked up by key."""

    @property
    def has_room(self) -> bool:
        """Whether there is room for bulk, as of the last write. Without it, small writes still work for a while, and reads do
        for ever: who stores much had better refuse more before the disk is full to the last byte."""
        ...

    async def get(self, key: bytes) -> bytes | None: ...

    async def scan(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """All pairs whose key starts with `prefix`, in order of their keys."""
        ...

    async def scan_span(self, span: Span, max_bytes: int) -> list[tuple[bytes, bytes]]:
        """The pairs in `span` in order of their keys: the first one, if there is one, then as many as fit in `max_bytes`."""
        ...

    async def write(self, changes: Mapping[bytes, bytes | None], dropped: Sequence[Span] = ()) -> None:
        """Delete everything in `dropped`, then put every pair, and delete where the value is None: all or nothing, durable on
        return. A span takes no time per key.

        Cancelling the wait does not say whether it happened.

        Raises:
            StorageError: the store failed: stop using it.
        """
        ...

    async def reclaim(self, span: Span) -> None:
        """Give back the room that dropped keys in `span` take. May take seconds, and holds up neither reads nor writes. Whether
        it succeeds changes nothing but the room."""
        ...


@attrs.frozen(kw_only=True)
class Environment:
    """What a client component is given to run in."""

    services: Services
    clock: Clock
    random: random.Random
    """Seeded in the simulator. Identifiers come from it too."""
    nursery: trio.Nursery
    """Owned by a node or a client; work that must survive a cancelled caller runs here."""
    learned: Callable[[bytes], None] = lambda value: None
    """Told of every value of the register that is known to be decided, as soon as that is so, newest or not: where nodes are,
    and who, is in it, and it may take that to reach a majority which can say whether it is the newest. Must not block."""
    near: NodeId | None = None
    """What this node stores is read there first. For a client in the process of a node that one: it costs no message. Others
    may choose one, so that many of them do not all read from the same."""
    check_resident: Callable[[], None] = lambda: None
    """Raises WrongRecipientError if this is the process of a node and the newest register known means another one: then it changes
    nothing. Asked before each change of the chain, and each trim."""


async def _no_register() -> int:
    return 0


@attrs.frozen(kw_only=True)
class NodeEnvironment(Environment):
    """What a role of a node is given on top."""

    node: NodeId
    near: NodeId | None = attrs.field(default=attrs.Factory(lambda self: self.node, takes_self=True))
    boot: int
    """Durable counter of process starts: names what must not survive a restart, such as a sequencer."""
    storage: Callable[[str], Awaitable[Storage]]
    """A directory of its own for the role of this name."""
    key_values: Callable[[str], Awaitable[DurableMap]]
    segment_config: Callable[[Any], Awaitable[tuple[str, bytes]]]
    """(kind, config) of the segment with this `SegmentId`, from the decided chain.

    Raises `UnavailableError` when the register cannot be read and `SealedError` when no such segment is (any more)
    in the chain.
    """
    fail: Callable[[BaseException], None]
    """Report that this role can no longer be trusted (poisoned disk, corruption); the node stops serving it."""
    is_seated: Callable[[int, bytes], bool] = lambda version, value: True
    """Whether this version of the register, with this value, means this node on this very data directory. Where it means
    another one, that one decides the next version, and not this one. Raises WrongRecipientError for the register of another
    cluster, MalformedError for a value that cannot be decided for this version."""
    joined: int = 0
    """The version of the register in which this data directory took the place of a former one, or was added; 0: it was
    there from the beginning. A former one may have stored loglets of this and of earlier versions, which are not here:
    about these a server knows nothing, and says so, unless they were copied to it since."""
    is_lost: Callable[[str], bool] = lambda role: False
    """Whether this data directory had the `key_values` of the role of this name, or may have had them, before this process, and has
    them no more. Roles that recover such a store from others may open it; to all others `storage` and `key_values` raise
    CorruptionError then."""
    register_version: Callable[[], Awaitable[int]] = _no_register
    """The newest version of the register, at least as new as any that was decided before the call.

    Raises `UnavailableError` when no majority answers."""
