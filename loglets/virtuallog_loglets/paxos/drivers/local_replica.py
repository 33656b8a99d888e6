"""A replica of this node, as the parts of the same node know it; and how its records are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Final, TypeVar

import attrs
import trio

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import CorruptionError, SealedError, TooLargeError, VirtualLogError
from virtuallog.contract.ports import Done, DurableMap, Request
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.effects import AnswerFromDisk, ReplicaEffect
from virtuallog_loglets.paxos.core.replica import Replica
from virtuallog_loglets.paxos.core.session_digest import SessionDigest
from virtuallog_loglets.paxos.drivers import disk_format
from virtuallog_loglets.paxos.drivers.group_commit import GroupCommit, StoredReplica
from virtuallog_loglets.paxos.messages import (
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
"""Of one answer, whatever its asker would take; one record may be larger."""
READ_POSITIONS_MAX: Final = 4096
"""Of one answer: small ones are cheaper to ask for again than to keep an answer waiting."""
QUOTE_BYTES_MAX: Final = 12 << 20
"""Of the learned values that an answer to a promise quotes: it must fit into a frame. That of one position always does."""


@attrs.define(eq=False)
class LocalReplica:
    """See above."""

    core: Replica
    """To look at. What it says may not be durable yet."""
    ensemble: Callable[[], Ensemble]
    meter: PaxosMetrics
    stored: StoredReplica
    _store: DurableMap
    _commit: GroupCommit
    _request: Callable[[Any, Done], None]
    _carry_out: Callable[[LocalReplica, list[ReplicaEffect]], None]
    other_holders: tuple[NodeId, ...] = attrs.field(default=(), init=False)
    """The servers that the log is on by now, once closed logs may have moved. They have what is decided, and no vote."""
    _missing: trio.Event = attrs.field(factory=trio.Event, init=False)
    _dropped: SealedError | None = attrs.field(default=None, init=False)

    @property
    def segment(self) -> SegmentId:
        return self.core.segment

    @property
    def holders(self) -> tuple[NodeId, ...]:
        """Who may know what is decided: more than may decide it."""
        return tuple(dict.fromkeys((*self.ensemble().members, *self.other_holders)))

    def post(self, request: Request[ReplyT], done: Callable[[ReplyT | VirtualLogError], None]) -> None:
        """What a remote caller would be answered, without waiting: `done` is called with the reply or the error, now or later."""
        self._request(request, done)

    async def perform(self, request: Request[ReplyT]) -> ReplyT:
        """What a remote caller would be answered; durable on return. Cancelling the wait does not undo it.

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
        """See `ReadRecords`."""
        return await self.perform(ReadRecords(segment=self.segment, first=first, stop=stop, max_bytes=max_bytes))

    async def wait_learned(self, past: int) -> Standing:
        """See `WaitLearned`."""
        return await self.perform(WaitLearned(segment=self.segment, past=past))

    async def wait_missing(self) -> Standing:
        """Return once a position up to `end` is not known to be decided here: at once, if that is so now. For the keeper; costs
        nothing while it waits.

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
        """Recovery: take on a status, durable on return. Everything else only goes up.

        Raises:
            SealedError: the log has been dropped: a header written now would promise records that are gone.
            UnavailableError: the role was closed meanwhile.
        """
        self.check_live()
        self._carry_out(self, self.core.adopt(status, promised, begin, trim, incarnations))
        await self._commit.settled()

    async def digest(self) -> SessionDigest:
        """Of all that is learned without a hole, `core.learned`; a copy that is the caller's. Nothing, of a closed log.

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
        """For whoever holds on to this replica, across a wait.

        Raises:
            SealedError: the log has been dropped here.
        """
        if self._dropped is not None:
            raise self._dropped

    # -- for the driver -------------------------------------------------------------------------------------------

    def drop(self, reason: SealedError) -> None:
        """From now on nothing here is read or written. Its keys may be those of another replica, or of none."""
        self._dropped = reason
        self._missing.set()

    def stepped(self) -> None:
        """The core has changed."""
        if self.core.learned <= self.core.end and not self._missing.is_set():
            self._missing.set()

    def read_recent(self, request: ReadRecords) -> list[PaxosRecord] | None:
        """What was asked for, from memory; None: the disk has to be asked."""
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
        """The same, from the disk."""
        await self._commit.settled()
        slots = self.core.slots
        stop = slots.learned_run(request.first, min(request.stop, request.first + READ_POSITIONS_MAX))
        found = await self._read_disk(request.first, stop, min(request.max_bytes, READ_BYTES_MAX))
        kept = found if request.first >= self.core.begin else []  # else truncated meanwhile, perhaps half of it
        return PaxosRecords(records=tuple(kept), standing=self.core.standing())

    async def quote(self, effect: AnswerFromDisk) -> Promised | PaxosWritten:
        """The answer, with what lies on the disk.

        Raises:
            TooLargeError: it would be too long: ask for fewer positions.
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
        """What is neither in memory nor on the disk any more."""
        return [
            PaxosRecord(position=p, promised=0, performed=0, value=values.TOMBSTONE, learned=True)
            for p in range(first, stop)
        ]

    async def _read_disk(self, first: int, stop: int, max_bytes: int) -> list[PaxosRecord]:
        """Decided records from `first` on, without a hole; none if they were truncated meanwhile.

        Raises:
            SealedError: the log has been dropped meanwhile, and they with it.
            CorruptionError: they are decided, not truncated, and not there.
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
