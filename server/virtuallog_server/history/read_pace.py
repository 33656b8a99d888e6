"""Pace of reads from a cluster: bytes per second, so that nodes serve their clients as before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from virtuallog.contract.loglet import Placed
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import PlacedBatch
from virtuallog_database.snapshots.messages import SnapshotOffer
from virtuallog_database.snapshots.transfer import SnapshotSource
from virtuallog_loglets.archive.creation.segment_source import ReadableSegment

SHORT_BYTES: Final = 1 << 20
"""Bytes that a short job reads at most: some thousand writes, or a tenth of a second of a processor."""


@attrs.define(eq=False)
class ReadPace:
    """A bound for all reads of one job together."""

    clock: Clock
    bytes_per_second: float
    on_long: Callable[[], None] = lambda: None
    """Called once, when the job turns out to be no short one."""
    taken_bytes: int = attrs.field(default=0, init=False)
    """Bytes of all reads so far."""
    _free_at: float = attrs.field(default=0.0, init=False)
    """Monotonic time from which the next read may begin."""

    async def turn(self) -> None:
        """Wait until the next read may begin."""
        delay = self._free_at - self.clock.monotonic()
        if delay > 0:
            await self.clock.sleep(delay)

    def took(self, size: int) -> None:
        """Count the bytes of a read. Time that was not used before is not made up for."""
        is_short = self.taken_bytes <= SHORT_BYTES
        self.taken_bytes += size
        if is_short and self.taken_bytes > SHORT_BYTES:
            self.on_long()
        self._free_at = max(self._free_at, self.clock.monotonic()) + size / self.bytes_per_second


@attrs.frozen(eq=False)
class PacedLog:
    """A log that is read at a pace. A `ReadableSegment`."""

    source: ReadableSegment
    pace: ReadPace

    async def read(self, start: int, stop: int) -> Sequence[Placed]:
        """As the source."""
        await self.pace.turn()
        found = await self.source.read(start, stop)
        self.pace.took(sum(len(placed.batch.blob) for placed in found if isinstance(placed, PlacedBatch)))
        return found


@attrs.frozen(eq=False)
class PacedSnapshot:
    """A snapshot that is fetched at a pace. Implements `SnapshotSource`."""

    source: SnapshotSource
    pace: ReadPace

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def offer(self) -> SnapshotOffer:
        return self.source.offer

    async def read(self, file: str, offset: int, length: int) -> bytes:
        """As the source."""
        await self.pace.turn()
        self.pace.took(length)
        return await self.source.read(file, offset, length)
