"""Takes the snapshots of one replica, keeps the newest ones, and reports how much of the log is no
longer needed.

    run     checks regularly if a snapshot is due (policy.py)
            -> durable checkpoint of the store -> its position is reported to the replica -> older ones are removed

The position of a snapshot is the replica's cursor before it was taken. The content may be a little
newer; a restored store goes by the cursor inside.
"""

from __future__ import annotations

from typing import Final, Protocol

import attrs
import trio

from virtuallog.contract.errors import DiskFullError
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import LogPosition
from virtuallog.runtime import log
from virtuallog_database.ports import Checkpoints
from virtuallog_database.snapshots.metrics import SnapshotMetrics
from virtuallog_database.snapshots.policy import (
    NONE,
    SnapshotSchedule,
    SnapshotSettings,
    name_of,
    position_of,
    superfluous,
)

LOOK_SECONDS: Final = 0.5
"""Interval between two checks."""
READ_SECONDS: Final = 30.0
"""A snapshot that a peer has read from within this time is kept: the peer will read on."""


class AppliedProgress(Protocol):
    """Progress of a replica, as a `Snapshotter` reads it."""

    @property
    def cursor(self) -> LogPosition:
        """First position that is not applied."""
        ...

    @property
    def applied_bytes(self) -> int:
        """Bytes of log entries applied since the replica was opened."""
        ...

    def snapshotted(self, position: LogPosition) -> None:
        """Report a durable snapshot with everything below `position`."""
        ...


@attrs.define(eq=False)
class Snapshotter:
    """The snapshots of one replica. Use `open`, or `of` in a test."""

    checkpoints: Checkpoints
    _clock: Clock
    _schedule: SnapshotSchedule
    _meter: SnapshotMetrics
    _read_at: dict[LogPosition, float] = attrs.field(factory=dict, init=False)
    """Time of the last read by a peer, by snapshot position."""
    _turn: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    @classmethod
    async def open(
        cls,
        checkpoints: Checkpoints,
        clock: Clock,
        settings: SnapshotSettings | None = None,
        meter: SnapshotMetrics | None = None,
    ) -> Snapshotter:
        """Find the existing snapshots.

        Raises:
            StorageError: the disk failed.
        """
        newest = max(await positions(checkpoints), default=NONE)
        schedule = SnapshotSchedule(settings or SnapshotSettings(), newest, clock.monotonic())
        return cls(checkpoints, clock, schedule, meter or SnapshotMetrics())

    @property
    def newest(self) -> LogPosition:
        """Position of the newest durable snapshot: everything below is in it. 0 if there is none."""
        return self._schedule.newest

    async def newest_up_to(self, position: int) -> LogPosition:
        """Position of the newest kept snapshot that is not past this one. 0 if there is none."""
        return max((each for each in await positions(self.checkpoints) if each <= position), default=NONE)

    async def run(self, replica: AppliedProgress) -> None:
        """Take a snapshot whenever one is due, for ever. While the disk is full none is taken, and
        the log grows.

        Raises:
            StorageError: the disk failed: the replica must stop.
        """
        replica.snapshotted(self.newest)
        while True:
            if self._schedule.is_due(replica.cursor, replica.applied_bytes, self._clock.monotonic()):
                try:
                    await self.take(replica)
                except DiskFullError as error:
                    log.warning("no room for a snapshot", reason=str(error))
                    await self._clock.sleep(self._schedule.settings.seconds_min)
            await self._clock.sleep(LOOK_SECONDS)

    async def take(self, replica: AppliedProgress) -> LogPosition:
        """Take a snapshot now, unless the newest one has everything. Returns the position of the
        newest. After a cancelled call there may be one more; `open` finds out.

        Raises:
            DiskFullError: no room for it now.
            StorageError: the disk failed: the replica must stop.
        """
        async with self._turn:
            position, applied_bytes = replica.cursor, replica.applied_bytes
            if position > self.newest:
                began = self._clock.monotonic()
                await self.checkpoints.take(name_of(position))
                now = self._clock.monotonic()
                self._schedule.took(position, applied_bytes, now)
                replica.snapshotted(position)
                self._meter.took(now - began, await self._size(position))
                await self._remove_old()
            return self.newest

    def reading(self, position: LogPosition) -> None:
        """Note that a peer reads the snapshot of this position."""
        self._read_at[position] = self._clock.monotonic()

    async def _size(self, position: LogPosition) -> int:
        return sum(file.size for file in await self.checkpoints.files(name_of(position)))

    async def _remove_old(self) -> None:
        since = self._clock.monotonic() - READ_SECONDS
        self._read_at = {position: read_at for position, read_at in self._read_at.items() if read_at >= since}
        found = await positions(self.checkpoints)
        for position in superfluous(found, self._schedule.settings.keep, self._read_at):
            await self.checkpoints.remove(name_of(position))


async def positions(checkpoints: Checkpoints) -> list[LogPosition]:
    """Positions of all snapshots, in order."""
    found = [position_of(name) for name in await checkpoints.names()]
    return sorted(position for position in found if position is not None)
