"""Learns what the local replica has missed: copies what others have learned, fills what nobody has. The driver of `GapRepair`.

    look who has what --> copy, drop or fill the lowest missing stretch --> is it learned here? --> the next one

Rules:
* Only what the local replica has learned counts. So each step ends with a look at it, never with what somebody said.
* While one piece is stored the next one is on its way; two pieces are in memory at most, whatever the length of the log.
* Everything here may be cancelled at any await, repeated, and done by several at once: it only learns what is decided.

Source: Mesos, `src/log/catchup.cpp`. Departures are named in `GapRepair`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
import trio

from virtuallog.contract.errors import RetryableError, UnavailableError, VirtualLogError
from virtuallog.contract.ports import NodeEnvironment
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.core.gap_repair import (
    CopyGap,
    DropGap,
    FillGap,
    GapRepair,
    GapStep,
    tombstone,
    usable_untrusted,
)
from virtuallog_loglets.paxos.core.recovery import FollowQuorum
from virtuallog_loglets.paxos.drivers.broadcast import Broadcast, recovery_round
from virtuallog_loglets.paxos.drivers.fill_driver import fill
from virtuallog_loglets.paxos.drivers.local_replica import LocalReplica
from virtuallog_loglets.paxos.messages import (
    GetStanding,
    Learn,
    PaxosRecord,
    PaxosRecords,
    ReadRecords,
    Standing,
    Status,
)
from virtuallog_loglets.paxos.metrics import CatchUpSource

PIECE_BYTES: Final = 256 << 10
PIECE_POSITIONS: Final = 512
"""Of one read, and one write: a sync costs little beside it, and the appends that this node serves meanwhile wait for no more than
some 20 ms of work at a time."""
LOOK_SECONDS: Final = 0.3
"""How long the answers of all replicas are waited for, if none so far has everything. Those that come later count as well."""
LOOK_AGAIN_SECONDS: Final = 1.0
READ_SECONDS: Final = 2.0
"""For one piece, from a disk that has appends to sync as well."""
PAUSE_SECONDS: Final = 0.1
"""T of the pause of T to 2T after a fill that has failed."""


async def catch_up(
    replica: LocalReplica,
    ensemble: Callable[[], Ensemble],
    environment: NodeEnvironment,
    first: int,
    stop: int,
    *,
    proposal: int = 0,
    leave: int = 0,
    fills: bool = True,
) -> int:
    """Have the local replica learn every position from `first` up to and without `stop`.

    What is decided elsewhere is copied; the rest is filled, however long a quorum keeps it waiting. Safe to cancel and to
    repeat at any time, and by many at once; what has been learned stays.

    Args:
        replica: in any status.
        ensemble: as of the moment of the call: who fills. What is copied comes from all `holders`.
        environment: of the node.
        first: see above.
        stop: see above.
        proposal: the number to fill with at first; 0: any.
        leave: do not fill the last so many positions that anybody knows of: a coordinator may have them in flight.
        fills: False: copy only.

    Returns:
        The first position that is still missing; `stop`, if none is, and always without `leave` and with `fills`.

    Raises:
        SealedError: the log has been dropped here.
        StorageError: of the local store.
    """
    if not replica.core.missing(first, stop):
        return stop
    replica.meter.catch_up_started()
    return await _CatchUp(replica, ensemble, environment, first, stop, proposal, GapRepair(leave, fills)).run()


async def catch_up_voting(replica: LocalReplica, ensemble: Callable[[], Ensemble], environment: NodeEnvironment) -> int:
    """Have a voting replica that does not lead learn what others know: `Reader.catchup` of Mesos (MESOS-7973).

    The very last position of the log is left alone: its coordinator may have it in flight.

    Returns:
        The last position that can be read here now. What lies before `begin` has been truncated, perhaps a moment ago.

    Raises:
        UnavailableError: the replica does not vote, no quorum of voting replicas answered, or the log has only one position.
    """
    if replica.core.status is not Status.VOTING:
        raise UnavailableError("this replica does not vote yet")
    known = await recovery_round(replica, ensemble, environment, has_forgotten=False)
    if not isinstance(known, FollowQuorum):
        raise UnavailableError("no quorum of voting replicas answered")
    if known.begin == known.end:
        raise UnavailableError("the log has only one position")
    # From the lower begin on: so this replica either keeps its begin, or meets what has truncated it.
    first = min(known.begin, replica.core.begin)
    await catch_up(replica, ensemble, environment, first, known.end)
    return known.end - 1


@attrs.define(eq=False)
class _CatchUp:
    """One run."""

    _replica: LocalReplica
    _ensemble: Callable[[], Ensemble]
    _environment: NodeEnvironment
    _first: int
    _stop: int
    _proposal: int
    _repair: GapRepair
    _looked_at: float = attrs.field(default=0.0, init=False)

    async def run(self) -> int:
        await self._look()
        while gaps := self._replica.core.missing(self._first, self._stop):
            self._replica.check_live()  # nobody may be left who could say so
            self._first = gaps[0].start
            step = self._repair.next(gaps[0], self._replica.core.end)
            if step is None:
                return self._first
            await self._perform(step)
            if self._environment.clock.monotonic() >= self._looked_at + LOOK_AGAIN_SECONDS:
                self._ask()
        return self._stop

    async def _perform(self, step: GapStep) -> None:
        match step:
            case DropGap(begin):
                await self._learn((tombstone(begin),))
            case CopyGap(source, first, stop):
                await self._copy(source, first, stop)
            case FillGap(first, stop):
                await self._fill(first, stop)

    # -- who has what -----------------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        """Until everybody has answered, or somebody who has everything."""
        question = self._ask()
        with self._environment.clock.timeout(LOOK_SECONDS):
            await question.wait()

    def _ask(self) -> Broadcast:
        """Answers are taken when they come."""
        self._repair.looked_again()
        self._looked_at = self._environment.clock.monotonic()

        def take(node: NodeId, outcome: Standing | VirtualLogError) -> None:
            if isinstance(outcome, Standing):
                self._repair.heard(node, outcome)
                if self._repair.covers(self._stop):
                    question.enough()

        question = Broadcast(self._environment, GetStanding(segment=self._replica.segment), take)
        question.post(self._replica.holders, READ_SECONDS)
        return question

    # -- copying ----------------------------------------------------------------------------------------------------------

    async def _copy(self, source: NodeId, first: int, stop: int) -> None:
        """As far as this source has it."""
        reading: _PendingPiece | None = self._read(source, first, stop)
        while reading is not None:
            records = self._take(source, await reading.wait(), reading.first, stop)
            if not records:
                return
            at = records[-1].position + 1
            reading = self._read(source, at, stop) if at < stop else None
            await self._learn(records)
            self._replica.meter.positions_caught_up(CatchUpSource.COPIED, len(records))

    def _take(
        self, source: NodeId, outcome: PaxosRecords | VirtualLogError, first: int, stop: int
    ) -> tuple[PaxosRecord, ...]:
        if isinstance(outcome, VirtualLogError):
            self._repair.lost(source)
            return ()
        self._repair.heard(source, outcome.standing)
        records = usable_untrusted(outcome.records, first, stop)
        if not records:
            self._repair.lacks(source, first)
        return records

    def _read(self, source: NodeId, first: int, stop: int) -> _PendingPiece:
        reading = _PendingPiece(first)
        until = min(stop, first + PIECE_POSITIONS)
        request = ReadRecords(segment=self._replica.segment, first=first, stop=until, max_bytes=PIECE_BYTES)
        self._environment.services.post(source, request, reading.arrived, READ_SECONDS)
        return reading

    async def _learn(self, records: tuple[PaxosRecord, ...]) -> None:
        await self._replica.perform(Learn(segment=self._replica.segment, records=records))

    # -- filling ----------------------------------------------------------------------------------------------------------

    async def _fill(self, first: int, stop: int) -> None:
        """One that fails is no end: the same again, after another look at who has it."""
        environment, local = self._environment, self._environment.node
        proposal = max(self._proposal, self._replica.core.promised + 1)
        try:
            self._proposal = await fill(
                self._replica.segment, self._ensemble, environment, local, proposal, first, stop
            )
            self._replica.meter.positions_caught_up(CatchUpSource.FILLED, stop - first)
        except RetryableError:
            await environment.clock.sleep(PAUSE_SECONDS * environment.random.uniform(1, 2))


@attrs.define(eq=False)
class _PendingPiece:
    """A piece on its way. One that nobody waits for any more comes back to nobody."""

    first: int
    _outcome: PaxosRecords | VirtualLogError | None = attrs.field(default=None, init=False)
    _arrived: trio.Event = attrs.field(factory=trio.Event, init=False)

    def arrived(self, outcome: PaxosRecords | VirtualLogError) -> None:
        self._outcome = outcome
        self._arrived.set()

    async def wait(self) -> PaxosRecords | VirtualLogError:
        await self._arrived.wait()
        assert self._outcome is not None
        return self._outcome
