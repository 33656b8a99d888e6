"""A workload whose every entry is known: numbered per writer, so that a loss, a double or a swap cannot hide.

A writer appends `writer/number`, waits until that is acknowledged, then goes on with the next
number. Writers share the session of their client, as the tasks of one program do. Acknowledgements
are kept in plain arrays, 24 bytes for an entry: a run of millions fits into memory, and recording
costs less than a microsecond.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from operator import sub

import attrs
import trio

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import RetryableError
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import LogPosition
from virtuallog_lab.workload.entries import Entry


@attrs.define(eq=False)
class WriterAcknowledgements:
    """Acknowledgements of one writer, in the order of its numbers from 0 on. Times in seconds since
    the start."""

    places: array[int] = attrs.field(factory=lambda: array("q"))
    began: array[float] = attrs.field(factory=lambda: array("d"))
    """Time at which the entry was offered."""
    ended: array[float] = attrs.field(factory=lambda: array("d"))
    """Time at which it was acknowledged."""

    def add(self, place: LogPosition, began: float, ended: float) -> None:
        self.places.append(place)
        self.began.append(began)
        self.ended.append(ended)


@attrs.define(eq=False)
class Workload:
    """Runs writers until `stop`, and records their acknowledgements.

    Args:
        clock: for the times.
        entry_bytes: entries are filled up to this size.
    """

    _clock: Clock
    _entry_bytes: int = 0
    told: dict[int, WriterAcknowledgements] = attrs.field(factory=dict, init=False)
    """Acknowledgements by writer."""
    unknown: int = attrs.field(default=0, init=False)
    """Appends with an unknown outcome: each may be in the log, or not."""
    acknowledged: int = attrs.field(default=0, init=False)
    """Number of acknowledged entries."""
    newest_offer: float = attrs.field(default=0.0, init=False)
    """Offer time of the last offered of all acknowledged entries."""
    _started: float = attrs.field(default=0.0, init=False)
    _stopping: bool = attrs.field(default=False, init=False)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._clock.monotonic() - self._started

    @property
    def started(self) -> float:
        """Time at which it began, on the clock of this machine."""
        return self._started

    @property
    def slowest_seconds(self) -> float:
        """Seconds of the slowest acknowledged append."""
        return max((max(map(sub, told.ended, told.began), default=0.0) for told in self.told.values()), default=0.0)

    def stop(self) -> None:
        """Let every writer end after the append it waits for."""
        self._stopping = True

    async def run(
        self,
        logs: Sequence[VirtualLog],
        writers_per_log: int,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Return once all writers have ended.

        Raises:
            VirtualLogError: an append failed for good.
        """
        self._started = self._clock.monotonic()
        task_status.started()
        async with trio.open_nursery() as nursery:
            for log in logs:
                for _ in range(writers_per_log):
                    nursery.start_soon(self._write, log)

    async def _write(self, log: VirtualLog) -> None:
        """After an unknown outcome under a new name: whether the next number would follow in the log cannot be said."""
        while not self._stopping:
            try:
                await self._write_as(len(self.told), log)
            except RetryableError:
                self.unknown += 1

    async def _write_as(self, writer: int, log: VirtualLog) -> None:
        told = self.told[writer] = WriterAcknowledgements()
        number = 0
        while not self._stopping:
            began = self.elapsed
            place = await log.append(Entry(writer, number).encode(self._entry_bytes))
            told.add(place, began, self.elapsed)
            self.acknowledged += 1
            self.newest_offer = max(self.newest_offer, began)
            number += 1


def acknowledgement_times(told: Iterable[WriterAcknowledgements]) -> list[float]:
    """Times of all acknowledgements, in order."""
    return sorted(time for writer in told for time in writer.ended)
