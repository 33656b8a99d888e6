"""Catch-up of the local replica: copies positions that others have learned, fills the rest. The driver of `GapRepair`.

    ask for standings --> copy, drop or fill the lowest gap --> is it learned here? --> the next one

Rules:
* Only what the local replica has learned counts. So each step ends with a look at it, never with a claim of a peer.
* While one piece is stored the next one is fetched; at most two pieces are in memory, for a log of any length.
* Everything here may be cancelled at any await, repeated, and run concurrently: it only learns decisions.

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
"""Bytes of one piece."""
PIECE_POSITIONS: Final = 512
"""Positions of one piece, that is, of one read and one write. A sync costs little beside it, and appends that this node
serves meanwhile wait for at most some 20 ms of work."""
LOOK_SECONDS: Final = 0.3
"""Wait for the standings of all replicas, unless one has everything. Later answers count as well."""
LOOK_AGAIN_SECONDS: Final = 1.0
"""Time after which standings are asked for again."""
READ_SECONDS: Final = 2.0
"""Timeout for one piece, from a disk that syncs appends as well."""
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
    """Have the local replica learn every position in [first, stop).

    Decided positions are copied; the rest is filled, however long a quorum takes. Safe to cancel, to repeat and to run
    concurrently; what has been learned stays.

    Args:
        replica: the local replica, in any status.
        ensemble: returns the ensemble that fills, at the moment of the call. Copies come from all `holders`.
        environment: the node's.
        first: first position to learn.
        stop: position behind the last one to learn.
        proposal: number of the first fill; 0 for any.
        leave: number of last known positions that are not filled, as a coordinator may have them in flight.
        fills: if False, positions are only copied.

    Returns:
        The first position that is still missing, or `stop`. Always `stop` if `leave` is 0 and `fills` is True.

    Raises:
        SealedError: the log has been dropped here.
        StorageError: the local store failed.
    """
    if not replica.core.missing(first, stop):
        return stop
    replica.meter.catch_up_started()
    return await _CatchUp(replica, ensemble, environment, first, stop, proposal, GapRepair(leave, fills)).run()


async def catch_up_voting(replica: LocalReplica, ensemble: Callable[[], Ensemble], environment: NodeEnvironment) -> int:
    """Have a voting replica that does not lead learn what others know: `Reader.catchup` of Mesos (MESOS-7973).

    The last position of the log is left alone: its coordinator may have it in flight.

    Returns:
        The last position that can be read here now. Positions before `begin` have been truncated, perhaps just now.

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
    # From the lower begin on, so that this replica keeps its begin or learns what has truncated it.
    first = min(known.begin, replica.core.begin)
    await catch_up(replica, ensemble, environment, first, known.end)
    return known.end - 1


@attrs.define(eq=False)
class _CatchUp:
    """One call of `catch_up`."""

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
            self._replica.check_live()  # a dropped log may have no peer left that could say so
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

    # -- standings --------------------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        """Ask for standings, until all replicas have answered, or one that has everything."""
        question = self._ask()
        with self._environment.clock.timeout(LOOK_SECONDS):
            await question.wait()

    def _ask(self) -> Broadcast:
        """Ask all holders for their standings; answers are taken when they arrive."""
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
        """Copy [first, stop) from `source` until it has no more."""
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
        """Fill [first, stop). A failure is not final: the caller looks again at the standings and retries."""
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
    """A piece that was asked for. After a cancelled wait its arrival has no effect."""

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
