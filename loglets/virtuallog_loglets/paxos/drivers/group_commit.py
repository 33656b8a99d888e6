"""Group commit for all replicas of a node: whatever arrives while a write is under way shares the next one.

An answer leaves once the last group before it is durable, changed or not by its own request: so nobody ever hears of a state
that a crash could take back. The headers of all logs that a group touches are made when it is closed, and tell as much as is
known by then of what is decided: that costs no write of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import attrs
import trio

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import DurableMap, Span
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.core.effects import PaxosPersist
from virtuallog_loglets.paxos.core.replica import Replica
from virtuallog_loglets.paxos.drivers import disk_format
from virtuallog_loglets.paxos.messages import NOWHERE

GROUP_BYTES_MAX: Final = 64 << 20
"""Waiting for the disk: more is refused. Some hundred milliseconds of work of a fast one."""
CHECKPOINT_POSITIONS: Final = 4096
"""After so many decided positions the digest is stored anew: what is read again at a start, and folded, in some 20 ms."""
CHECKPOINT_BYTES: Final = 32 << 20
"""Or after so many bytes of values."""

Release: TypeAlias = Callable[[], None]
"""Called once what it rests on is durable."""

_CLOSED = CrashPoint("paxos: a group of changes is closed, the disk has nothing of it")
_DURABLE = CrashPoint("paxos: a group of changes is durable, nobody has been told")


@attrs.define(eq=False)
class StoredReplica:
    """A replica, as far as the disk is concerned."""

    core: Replica
    ensemble: Ensemble
    """As stored, see `disk_format.Header`."""
    checkpoint: int = 0
    """Positions below this one are in the stored digest."""
    checkpoint_bytes: int = 0
    """`digest.taken_bytes` at that time."""

    def pairs(self) -> list[disk_format.Pair]:
        """What goes with every group that touches it."""
        pairs = [disk_format.header_pair(self.core, self.ensemble)]
        digest = self.core.slots.digest
        positions, size = digest.stop - self.checkpoint, digest.taken_bytes - self.checkpoint_bytes
        if self.core.seal == NOWHERE and (positions >= CHECKPOINT_POSITIONS or size >= CHECKPOINT_BYTES):
            self.checkpoint, self.checkpoint_bytes = digest.stop, digest.taken_bytes
            pairs.append(disk_format.digest_pair(self.core.segment, digest))
        return pairs


@attrs.define(eq=False)
class _Group:
    changes: dict[bytes, bytes | None] = attrs.field(factory=dict)
    dropped: list[Span] = attrs.field(factory=list)
    touched: dict[SegmentId, StoredReplica] = attrs.field(factory=dict)
    points: dict[CrashPoint, None] = attrs.field(factory=dict)
    """To be reached once it is durable."""
    releases: list[Release] = attrs.field(factory=list)
    bytes: int = 0

    def drop(self, span: Span) -> None:
        """Spans are dropped before pairs are put; what this group was to put there is not wanted any more."""
        self.dropped.append(span)
        start, stop = span
        for key in [key for key in self.changes if start <= key < stop]:
            del self.changes[key]


@attrs.define(eq=False)
class GroupCommit:
    """`run` writes; everything else returns at once."""

    _store: DurableMap
    _synced: Callable[[int, float], None]
    """Told of each group: how many answers rested on it, and how many seconds it took."""
    _now: Callable[[], float]
    _next: _Group | None = attrs.field(default=None, init=False)
    _writing: _Group | None = attrs.field(default=None, init=False)
    _wanted: trio.Event = attrs.field(factory=trio.Event, init=False)
    _settling: list[trio.Event] = attrs.field(factory=list, init=False)
    """Whoever waits in `settled`: not a task of this role, so its end does not end the wait."""
    _closed: bool = attrs.field(default=False, init=False)

    @property
    def waiting_bytes(self) -> int:
        """Of changes that wait for the write that is under way."""
        return self._next.bytes if self._next is not None else 0

    def persist(self, stored: StoredReplica, effect: PaxosPersist, point: CrashPoint | None) -> None:
        """Put a change of a replica, and its header, into the next group."""
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
        """Put something else into the next group."""
        self._group().changes[pair[0]] = pair[1]

    def drop(self, segment: SegmentId) -> None:
        """Remove everything of a log."""
        group = self._group()
        group.touched.pop(segment, None)
        for span in disk_format.spans_of(segment):
            group.drop(span)

    def then(self, release: Release) -> None:
        """Call `release` once all that was put before is durable: now, if it is."""
        group = self._next or self._writing
        if group is None:
            release()
        else:
            group.releases.append(release)

    async def settled(self) -> None:
        """Return once all that was put before is durable.

        Raises:
            UnavailableError: this role was closed meanwhile; whether it is durable is unknown.
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
        """Until the store fails or this is cancelled. What was not released by then never is: its outcome is unknown.

        Raises:
            StorageError: the store failed.
        """
        try:
            while True:
                await self._wanted.wait()
                self._wanted = trio.Event()
                await self._write()
        finally:
            self._closed = True
            for event in self._settling:
                event.set()

    async def _write(self) -> None:
        group, self._next = self._next, None
        assert group is not None
        self._writing, started = group, self._now()
        for stored in group.touched.values():
            group.changes.update(stored.pairs())
        _CLOSED.reached()
        await self._store.write(group.changes, group.dropped)
        _DURABLE.reached()
        for point in group.points:
            point.reached()
        self._writing = None
        self._synced(len(group.releases), self._now() - started)
        for release in group.releases:
            release()

    def _group(self) -> _Group:
        if self._next is None:
            self._next = _Group()
            self._wanted.set()
        return self._next
