"""Group commit for all replicas of a node: changes that arrive during a write share the next one.

An answer leaves once the last group before it is durable, even if its own request changed nothing. So no caller learns
of a state that a crash could take back. The headers of all logs in a group are made when the group is closed. They
contain all decisions known by then, which costs no write of its own.

A group costs no task: it is closed at the end of the turn in which it was begun. The end of its write lets the answers
go and begins the next group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import attrs
import trio

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.ports import Changes, DurableMap, Span
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.core.effects import PaxosPersist
from virtuallog_loglets.paxos.core.replica import Replica
from virtuallog_loglets.paxos.drivers import disk_format
from virtuallog_loglets.paxos.messages import NOWHERE

GROUP_BYTES_MAX: Final = 64 << 20
"""Cap on bytes that wait for the disk: some hundred milliseconds of work of a fast one."""
CHECKPOINT_POSITIONS: Final = 4096
"""Decided positions between two checkpoints of the digest. A start reads and folds as many again, in some 20 ms."""
CHECKPOINT_BYTES: Final = 32 << 20
"""Bytes of values between two checkpoints, if these come first."""

Release: TypeAlias = Callable[[], None]
"""Called once the changes it rests on are durable."""

_CLOSED = CrashPoint("paxos: a group of changes is closed, the disk has nothing of it")
_DURABLE = CrashPoint("paxos: a group of changes is durable, nobody has been told")


@attrs.define(eq=False)
class StoredReplica:
    """A replica and the state of its digest on disk."""

    core: Replica
    ensemble: Ensemble
    """Ensemble as stored; see `disk_format.Header`."""
    checkpoint: int = 0
    """Positions below this one are in the stored digest."""
    checkpoint_bytes: int = 0
    """`digest.taken_bytes` at the last checkpoint."""

    def pairs(self) -> list[disk_format.Pair]:
        """Pairs to write with every group that touches this replica: the header, and the digest if it is due."""
        pairs = [disk_format.header_pair(self.core, self.ensemble)]
        digest = self.core.slots.digest
        positions, size = digest.stop - self.checkpoint, digest.taken_bytes - self.checkpoint_bytes
        if self.core.seal == NOWHERE and (positions >= CHECKPOINT_POSITIONS or size >= CHECKPOINT_BYTES):
            self.checkpoint, self.checkpoint_bytes = digest.stop, digest.taken_bytes
            pairs.append(disk_format.digest_pair(self.core.segment, digest))
        return pairs


@attrs.define(eq=False)
class _Group:
    """Changes that are written and synced together."""

    changes: dict[bytes, bytes | None] = attrs.field(factory=dict)
    dropped: list[Span] = attrs.field(factory=list)
    touched: dict[SegmentId, StoredReplica] = attrs.field(factory=dict)
    points: dict[CrashPoint, None] = attrs.field(factory=dict)
    """Crash points to reach once the group is durable."""
    releases: list[Release] = attrs.field(factory=list)
    bytes: int = 0

    def drop(self, span: Span) -> None:
        """Drop a span.

        Spans are dropped before pairs are put, so pairs of this group inside the span are
        discarded.
        """
        self.dropped.append(span)
        start, stop = span
        for key in [key for key in self.changes if start <= key < stop]:
            del self.changes[key]


@attrs.define(eq=False)
class GroupCommit:
    """Group commit of one store. `run` writes; all other methods but `settled` return at once."""

    _store: DurableMap
    _synced: Callable[[int, float], None]
    """Called for each durable group with the number of its answers and its duration in seconds."""
    _now: Callable[[], float]
    _next: _Group | None = attrs.field(default=None, init=False)
    """Group that takes changes. None if there is none."""
    _writing: _Group | None = attrs.field(default=None, init=False)
    """Group that is written."""
    _since: float = attrs.field(default=0.0, init=False)
    """Time at which it was closed."""
    _is_busy: bool = attrs.field(default=False, init=False)
    """True from the call of `write_soon` to its end."""
    _is_running: bool = attrs.field(default=False, init=False)
    """True while groups may be written."""
    _rested: trio.Event = attrs.field(factory=trio.Event, init=False)
    """Set when a write has ended and no other one begins: the store has failed, or this is to end."""
    _failure: VirtualLogError | None = attrs.field(default=None, init=False)
    _settling: list[trio.Event] = attrs.field(factory=list, init=False)
    """Events of callers in `settled`. These are no tasks of this role, so its end would not end their wait."""
    _closed: bool = attrs.field(default=False, init=False)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of changes that wait for the write under way."""
        return self._next.bytes if self._next is not None else 0

    @property
    def writing_seconds(self) -> float:
        """Age of the write under way. 0 if there is none."""
        return self._now() - self._since if self._is_busy and self._writing is not None else 0.0

    def persist(self, stored: StoredReplica, effect: PaxosPersist, point: CrashPoint | None) -> None:
        """Add a change of a replica, and its header, to the next group."""
        group, segment = self._group(), stored.core.segment
        group.touched[segment] = stored
        if point is not None:
            group.points[point] = None
        for record in effect.records:
            key, value = disk_format.record_pair(segment, record)
            group.changes[key] = value
            group.bytes += len(value)
        if effect.drop_below:
            group.drop(disk_format.record_span(segment, 0, effect.drop_below))

    def put(self, pair: disk_format.Pair) -> None:
        """Add any other pair to the next group."""
        self._group().changes[pair[0]] = pair[1]

    def drop(self, segment: SegmentId) -> None:
        """Remove everything that belongs to a log, with the next group."""
        group = self._group()
        group.touched.pop(segment, None)
        for span in disk_format.spans_of(segment):
            group.drop(span)

    def then(self, release: Release) -> None:
        """Call `release` once all earlier changes are durable: now, if they are."""
        group = self._next or self._writing
        if group is None:
            release()
        else:
            group.releases.append(release)

    async def settled(self) -> None:
        """Return once all earlier changes are durable.

        Raises:
            UnavailableError: this role was closed meanwhile; the changes may be durable or not.
        """
        event = trio.Event()
        self.then(event.set)
        self._settling.append(event)
        try:
            if not self._closed:
                await event.wait()
        finally:
            self._settling.remove(event)
        if self._closed:
            raise UnavailableError("the replicas of this node have been closed")

    async def run(self) -> None:
        """Let groups be written until the store fails or this is cancelled. Pending releases are never called then, and the
        write in progress has ended on return.

        Raises:
            StorageError: the store failed.
        """
        self._is_running = True
        self._go_on()
        try:
            await self._rested.wait()
        finally:
            self._is_running, self._closed = False, True
            for event in self._settling:
                event.set()
            # Shielded, and short: what reads the store next must not miss a write that is still on its way.
            with trio.CancelScope(shield=True):
                while self._is_busy:
                    await self._rested.wait()
        assert self._failure is not None, "it only rests by itself after a failure"
        raise self._failure

    def _go_on(self) -> None:
        """Begin the next group, if there is one."""
        if self._next is not None and self._is_running and not self._is_busy:
            self._is_busy = True
            self._store.write_soon(self._cut, self._written)

    def _cut(self) -> tuple[Changes, Sequence[Span]]:
        """Close the next group. Called at the end of the turn in which it was begun."""
        group, self._next = self._next, None
        assert group is not None
        self._writing, self._since = group, self._now()
        for stored in group.touched.values():
            group.changes.update(stored.pairs())
        _CLOSED.reached()
        return group.changes, group.dropped

    def _written(self, failure: VirtualLogError | None) -> None:
        """Let the answers of a group go, and begin the next one."""
        self._is_busy = False
        if failure is not None or not self._is_running:
            self._failure, self._is_running = failure, False
            self._rested.set()
            return
        group = self._writing
        assert group is not None
        _DURABLE.reached()
        for point in group.points:
            point.reached()
        self._writing = None
        self._synced(len(group.releases), self._now() - self._since)
        for release in group.releases:
            release()
        self._go_on()

    def _group(self) -> _Group:
        if self._next is None:
            self._next = _Group()
            self._go_on()
        return self._next
