"""Handle of a replica of this node, for other parts of the same node, with reads of its records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Final, TypeVar

import attrs
import trio

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import CorruptionError, SealedError, TooLargeError, VirtualLogError
from virtuallog.contract.ports import Done, DurableMap, Outcome, Request
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.effects import AnswerFromDisk, ReplicaEffect
from virtuallog_loglets.paxos.core.position_digest import PositionDigest
from virtuallog_loglets.paxos.core.replica import Replica
from virtuallog_loglets.paxos.drivers import disk_format
from virtuallog_loglets.paxos.drivers.group_commit import GroupCommit, StoredReplica
from virtuallog_loglets.paxos.messages import (
    Decided,
    Incarnations,
    PaxosRecord,
    PaxosRecords,
    PaxosWritten,
    Promised,
    ReadRecords,
    Standing,
    Status,
    WaitLearned,
)
from virtuallog_loglets.paxos.metrics import PaxosMetrics

ReplyT = TypeVar("ReplyT")

READ_BYTES_MAX: Final = 8 << 20
"""Cap on the bytes of one answer, even if the caller would take more; a single record may be larger."""
READ_POSITIONS_MAX: Final = 4096
"""Cap on the positions of one answer: another request for small records is cheaper than a slow answer."""
QUOTE_BYTES_MAX: Final = 12 << 20
"""Cap on the learned values in an answer to a promise, which must fit in a frame. That of one
position always does."""

LEARNED: Final = CrashPoint("paxos: decided values are durable at a replica, nobody has been told")
_ADOPTED = CrashPoint("paxos: what a recovering replica has adopted is durable, it has not been told", rare=True)


@attrs.define(eq=False)
class LocalReplica:
    """A replica of this node."""

    core: Replica
    """The core, for inspection. Its state may not be durable yet."""
    ensemble: Callable[[], Ensemble]
    """Returns the ensemble of the log at the moment of the call."""
    meter: PaxosMetrics
    stored: StoredReplica
    _store: DurableMap
    _commit: GroupCommit
    _request: Callable[[Any, Done], None]
    _carry_out: Callable[[LocalReplica, list[ReplicaEffect], CrashPoint | None], None]
    other_holders: tuple[NodeId, ...] = attrs.field(default=(), init=False)
    """Servers that the chain names for the log now, as a closed log may have moved. They hold
    decisions and have no vote."""
    _missing: trio.Event = attrs.field(factory=trio.Event, init=False)
    _dropped: SealedError | None = attrs.field(default=None, init=False)

    @property
    def segment(self) -> SegmentId:
        return self.core.segment

    @property
    def holders(self) -> tuple[NodeId, ...]:
        """Nodes that may hold decided positions: the ensemble, and `other_holders`, which do not vote."""
        return tuple(dict.fromkeys((*self.ensemble().members, *self.other_holders)))

    def post(self, request: Request[ReplyT], done: Callable[[ReplyT | VirtualLogError], None]) -> None:
        """Perform a request as for a remote caller.

        `done` is called with the reply or the error, now or later.
        """
        self._request(request, done)

    def learn(self, decided: Decided) -> None:
        """Learn what was accepted here and is decided; see `Replica.decide`. Does nothing for a dropped log."""
        if self._dropped is None:
            self._carry_out(self, self.core.decide(decided), LEARNED)

    async def perform(self, request: Request[ReplyT]) -> ReplyT:
        """Perform a request as for a remote caller; durable on return. Cancelling the wait does not undo it.

        Raises:
            SealedError: the log has been dropped.
            UnavailableError, OverloadedError, DiskFullError, StorageError: as for a remote caller.
        """
        outcomes: list[Any] = []
        answered = trio.Event()

        def done(outcome: Any) -> None:
            outcomes.append(outcome)
            answered.set()

        self._request(request, done)
        await answered.wait()
        if isinstance(outcomes[0], VirtualLogError):
            raise outcomes[0]
        reply: ReplyT = outcomes[0]
        return reply

    async def read(self, first: int, stop: int, max_bytes: int) -> PaxosRecords:
        """Read learned records; see `ReadRecords`."""
        return await self.perform(ReadRecords(segment=self.segment, first=first, stop=stop, max_bytes=max_bytes))

    async def wait_learned(self, past: int) -> Standing:
        """Wait until `past` is learned; see `WaitLearned`."""
        return await self.perform(WaitLearned(segment=self.segment, past=past))

    async def wait_missing(self) -> Standing:
        """Return once a position up to `end` is not known to be decided here, perhaps at once.

        Used by `replica_maintenance`; costs nothing while it waits.

        Raises:
            SealedError: the log has been dropped.
        """
        while self.core.learned > self.core.end:
            self._missing = trio.Event()
            await self._missing.wait()
            self.check_live()
        await trio.lowlevel.checkpoint()
        return self.core.standing()

    async def adopt(
        self, status: Status, promised: int = 0, begin: int = 0, trim: int = 0, incarnations: Incarnations = ()
    ) -> None:
        """Take on a status after recovery, durable on return. All other values only increase.

        Raises:
            SealedError: the log has been dropped: a header written now would promise records that are gone.
            UnavailableError: the role was closed meanwhile.
        """
        self.check_live()
        self._carry_out(self, self.core.adopt(status, promised, begin, trim, incarnations), _ADOPTED)
        await self._commit.settled()

    async def digest(self) -> PositionDigest:
        """Copy of the digest of all positions below `core.learned`; empty for a closed log.

        Raises:
            SealedError: the log has been dropped.
            StorageError, CorruptionError: the store cannot be read.
        """
        slots = self.core.slots
        while self.core.seal < 0 and slots.digest.stop < slots.learned:
            await self._commit.settled()
            slots.digest_more(await self._read_disk(slots.digest.stop, slots.learned, READ_BYTES_MAX))
        return slots.digest.copy()

    def check_live(self) -> None:
        """Check that the log has not been dropped; for callers that keep this replica across a wait.

        Raises:
            SealedError: the log has been dropped here.
        """
        if self._dropped is not None:
            raise self._dropped

    # -- for ReplicaService ---------------------------------------------------------------------------------------

    def drop(self, reason: SealedError) -> None:
        """Mark the log as dropped: no more reads or writes.

        Its keys may belong to another replica from now on.
        """
        self._dropped = reason
        self._missing.set()

    def stepped(self) -> None:
        """Note that the core has changed."""
        if self.core.learned <= self.core.end and not self._missing.is_set():
            self._missing.set()

    def read_recent(self, request: ReadRecords) -> list[PaxosRecord] | None:
        """Requested records from memory; None if the disk must be read."""
        slots, size = self.core.slots, 0
        stop = slots.learned_run(request.first, min(request.stop, request.first + READ_POSITIONS_MAX))
        size_max = min(request.max_bytes, READ_BYTES_MAX)
        found: list[PaxosRecord] = []
        for position in range(request.first, stop):
            record = slots.recent(position)
            size += len(record.value) if record is not None else 0
            if record is None or (found and size > size_max):
                break
            found.append(record)
        return found if found or stop == request.first else None

    async def read_records(self, request: ReadRecords) -> PaxosRecords:
        """Requested records from the disk."""
        await self._commit.settled()
        slots = self.core.slots
        stop = slots.learned_run(request.first, min(request.stop, request.first + READ_POSITIONS_MAX))
        found = await self._read_disk(request.first, stop, min(request.max_bytes, READ_BYTES_MAX))
        kept = found if request.first >= self.core.begin else []  # otherwise truncated meanwhile, perhaps in part
        return PaxosRecords(records=tuple(kept), standing=self.core.standing())

    async def quote(self, effect: AnswerFromDisk) -> Promised | PaxosWritten:
        """The answer of `effect`, completed with learned records from the disk.

        Raises:
            TooLargeError: the answer would be too long; ask for fewer positions.
            SealedError: the log has been dropped.
        """
        quoted: list[PaxosRecord] = []
        for first, stop in _runs(effect.positions):
            quoted += await self._quote_run(first, stop, QUOTE_BYTES_MAX - sum(len(record.value) for record in quoted))
        told = sorted((*effect.outcome.records, *quoted), key=lambda record: record.position)
        return attrs.evolve(effect.outcome, records=tuple(told))

    async def _quote_run(self, first: int, stop: int, max_bytes: int) -> list[PaxosRecord]:
        quoted: list[PaxosRecord] = []
        at = first
        while at < stop:
            found = await self._read_disk(at, stop, max_bytes) or self._truncated(at, stop)
            max_bytes -= sum(len(record.value) for record in found)
            if max_bytes < 0 and stop - first > 1:
                raise TooLargeError(
                    what="bytes of decided values", size=QUOTE_BYTES_MAX - max_bytes, limit=QUOTE_BYTES_MAX
                )
            quoted += found
            at = quoted[-1].position + 1
        return quoted

    def _truncated(self, first: int, stop: int) -> list[PaxosRecord]:
        """Tombstones for positions that are neither in memory nor on the disk any more."""
        return [
            PaxosRecord(position=p, promised=0, performed=0, value=values.TOMBSTONE, learned=True)
            for p in range(first, stop)
        ]

    async def _read_disk(self, first: int, stop: int, max_bytes: int) -> list[PaxosRecord]:
        """Decided records from `first` on, without a hole; empty if they were truncated meanwhile.

        Raises:
            SealedError: the log has been dropped meanwhile.
            CorruptionError: a decided position that is not truncated has no record.
        """
        found = await disk_format.read_records(self._store, self.segment, first, stop, max_bytes)
        self.check_live()
        kept = [record for place, record in enumerate(found, first) if record.position == place]
        if first < stop and not kept and first >= self.core.begin:
            raise CorruptionError(f"log {self.segment} has lost position {first}")
        return [attrs.evolve(record, learned=True) for record in kept]


def _runs(positions: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending positions as (first, stop)."""
    runs = []
    for _, group in groupby(enumerate(positions), key=lambda pair: pair[1] - pair[0]):
        run = [position for _, position in group]
        runs.append((run[0], run[-1] + 1))
    return runs


def with_full_disk(done: Done, outcome: Outcome[Standing]) -> None:
    """Answer with `full` set: the store knows that its disk is nearly full, the core does not."""
    done(attrs.evolve(outcome, full=True) if isinstance(outcome, Standing) else outcome)
