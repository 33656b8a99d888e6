"""A moderate, steady load, as a service has it: appends and linearizable reads, each kind so many times a second.

Operations begin at times drawn in advance, independent of earlier ones: a log that stalls delays
all that come meanwhile, and the delay counts from when each was due. So the load is the same on a
slow log as on a fast one.

A linearizable read is what a replica of a database does for one (Delos, OSDI'20, section 3): a tail check, then everything that is
new up to there, at least the newest entry.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Final

import attrs
import trio

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import RetryableError
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import Gap, LogPosition
from virtuallog_lab.workload.entries import Entry
from virtuallog_lab.workload.writers import WriterAcknowledgements

APPEND: Final = "append"
READ: Final = "linearizable read"
OUTSTANDING_MAX: Final = 512
"""Most outstanding operations of each kind; more of them wait in line, and their time counts. A log
that answers in a second has fewer at any sensible rate."""


@attrs.frozen
class LatencySample:
    """One operation that succeeded."""

    due: float
    """Due time in seconds since the start."""
    seconds: float
    """Seconds from then until the answer."""


@attrs.define(eq=False)
class SteadyLoad:
    """`run` it until `stop`."""

    _log: VirtualLog
    _clock: Clock
    _source: random.Random
    _entry_bytes: int
    told: dict[int, WriterAcknowledgements] = attrs.field(factory=dict, init=False)
    """Acknowledgements by append: each is a writer of its own, with one entry."""
    samples: dict[str, list[LatencySample]] = attrs.field(factory=lambda: {APPEND: [], READ: []}, init=False)
    unknown: int = attrs.field(default=0, init=False)
    """Operations that failed, or with an unknown outcome."""
    problems: list[str] = attrs.field(factory=list, init=False)
    """Reads that were not linearizable."""
    _acknowledged: int = attrs.field(default=-1, init=False)
    """The highest position."""
    _newest: LogPosition = attrs.field(default=LogPosition(0), init=False)
    """Position of the newest entry that a read has seen."""
    _started: float = attrs.field(init=False)
    _stopping: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._started = self._clock.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since it was made."""
        return self._clock.monotonic() - self._started

    def stop(self) -> None:
        """No operation begins any more."""
        self._stopping = True

    async def run(self, appends_per_s: float, reads_per_s: float) -> None:
        """Returns when all operations have ended.

        Raises:
            VirtualLogError: one failed for good.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._arrive, APPEND, appends_per_s, self._append)
            nursery.start_soon(self._arrive, READ, reads_per_s, self._read)

    async def _arrive(self, kind: str, rate: float, operation: Callable[[], Awaitable[None]]) -> None:
        limiter, due = trio.CapacityLimiter(OUTSTANDING_MAX), self.elapsed
        async with trio.open_nursery() as nursery:
            while not self._stopping:
                due += self._source.expovariate(rate)
                await self._clock.sleep(max(0.0, due - self.elapsed))
                nursery.start_soon(self._do, kind, due, operation, limiter)

    async def _do(
        self, kind: str, due: float, operation: Callable[[], Awaitable[None]], limiter: trio.CapacityLimiter
    ) -> None:
        async with limiter:
            try:
                await operation()
            except RetryableError:
                self.unknown += 1
                return
            self.samples[kind].append(LatencySample(due, self.elapsed - due))

    async def _append(self) -> None:
        told = self.told[len(self.told)] = WriterAcknowledgements()
        began = self.elapsed
        place = await self._log.append(Entry(len(self.told) - 1, 0).encode(self._entry_bytes))
        told.add(place, began, self.elapsed)
        self._acknowledged = max(self._acknowledged, place)

    async def _read(self) -> None:
        known, newest = self._acknowledged, self._newest
        tail = (await self._log.check_tail()).tail
        if tail <= known:
            self.problems.append(f"a tail of {tail}, though {known} had been acknowledged")
        found = newest
        while newest < tail:
            for placed in await self._log.read(newest, LogPosition(tail)):
                newest = LogPosition(placed.stop)
                if not isinstance(placed, Gap):
                    found = LogPosition(placed.stop - 1)
        if found < known:
            self.problems.append(f"the newest entry is at {found}, though {known} had been acknowledged")
        self._newest = max(self._newest, found)
