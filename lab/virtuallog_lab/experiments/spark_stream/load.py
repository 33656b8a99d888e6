"""Appends while Spark reads: numbered entries, at a steady rate, with the outcome of each.

A machine that only appended would be done with two million entries in a minute, before a stream has been killed three times. So
writers keep to a rate, and make up for what a reconfiguration or a dead node has cost them.
"""

from __future__ import annotations

from typing import Any, Final

import attrs
import numpy as np
import trio

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import RetryableError
from virtuallog.contract.ports import Clock
from virtuallog_lab.workload.entries import Entry

WRITERS: Final = 3
"""Each with a session of its own."""
CHUNK: Final = 250
"""Entries that a writer appends at a time, as in a log that some hundred clients append to."""
_NUMBER_BITS: Final = 40


def key_of(writer: int, number: int) -> int:
    """Key of an entry, as one number."""
    return writer << _NUMBER_BITS | number


@attrs.frozen(kw_only=True)
class Chunk:
    """Entries of one writer that were appended together."""

    writer: int
    first: int
    """Number of the first of them."""
    count: int
    place: int | None
    """Position of the first entry; the others follow it. None if the outcome is unknown."""

    @property
    def keys(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        return key_of(self.writer, self.first) + np.arange(self.count, dtype=np.int64)

    @property
    def places(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Positions of the acknowledged appends."""
        assert self.place is not None
        return self.place + np.arange(self.count, dtype=np.int64)


@attrs.define(eq=False)
class Appends:
    """Appends until so many entries are acknowledged, in about so many seconds, and not faster."""

    clock: Clock
    entries: int
    seconds: float
    size: int
    chunks: list[Chunk] = attrs.field(factory=list, init=False)
    acknowledged: int = attrs.field(default=0, init=False)
    ended: float = attrs.field(default=0.0, init=False)
    """Total seconds, at the end."""
    _offered: int = attrs.field(default=0, init=False)
    _began: float = attrs.field(default=0.0, init=False)

    @property
    def elapsed(self) -> float:
        return self.clock.monotonic() - self._began

    @property
    def done(self) -> float:
        """Share of all entries done, from 0 to 1."""
        return self.acknowledged / self.entries

    async def run(self, log: VirtualLog) -> None:
        """Append everything.

        Raises:
            VirtualLogError: an append was refused.
        """
        self._began = self.clock.monotonic()
        async with trio.open_nursery() as nursery:
            for writer in range(WRITERS):
                nursery.start_soon(self._write, log, writer)
        self.ended = self.elapsed

    async def _write(self, log: VirtualLog, writer: int) -> None:
        number = 0
        with log.appender() as appender:
            while (count := min(CHUNK, self.entries - self._offered)) > 0:
                self._offered += count
                await self.clock.sleep(max(0.0, self._offered / self.entries * self.seconds - self.elapsed))
                payloads = [Entry(writer, number + index).encode(self.size) for index in range(count)]
                try:
                    place = (await appender.append(payloads)).start
                except RetryableError:
                    place = None
                    self._offered -= count  # others are appended in their stead
                else:
                    self.acknowledged += count
                self.chunks.append(Chunk(writer=writer, first=number, count=count, place=place))
                number += count
