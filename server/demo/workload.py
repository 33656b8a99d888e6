"""A workload whose every entry is known: numbered per writer, so that a loss, a double or a swap cannot hide.

A writer appends `writer/number`, waits until that is acknowledged, then goes on with the next number. Writers share
the session of their client, as the tasks of one program do.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import trio

from virtuallog.errors import RetryableError
from virtuallog.ports import Clock
from virtuallog.types import LogPosition
from virtuallog.virtual_log import VirtualLog


@attrs.frozen
class Entry:
    """Which entry it is; as bytes, its payload."""

    writer: int
    number: int

    def encode(self) -> bytes:
        return b"%d/%d" % (self.writer, self.number)

    @classmethod
    def parse(cls, payload: bytes) -> Entry | None:
        """None if `payload` is none of ours."""
        writer, slash, number = payload.partition(b"/")
        if not slash or not writer.isdigit() or not number.isdigit():
            return None
        return cls(int(writer), int(number))


@attrs.frozen
class Sample:
    """One acknowledged append."""

    at: float
    """When it was acknowledged, in seconds since the start."""
    seconds: float
    """How long that took."""


@attrs.define(eq=False)
class Workload:
    """Runs writers until `stop`, and remembers what they were told."""

    _clock: Clock
    acknowledged: dict[Entry, LogPosition] = attrs.field(factory=dict, init=False)
    samples: list[Sample] = attrs.field(factory=list, init=False)
    _started: float = attrs.field(default=0.0, init=False)
    _stopping: bool = attrs.field(default=False, init=False)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._clock.monotonic() - self._started

    def stop(self) -> None:
        """Let every writer end after the append it waits for."""
        self._stopping = True

    async def run(self, logs: Sequence[VirtualLog], writers_per_log: int) -> None:
        """Return once all writers have ended.

        Raises:
            VirtualLogError: an append failed for good.
        """
        self._started = self._clock.monotonic()
        async with trio.open_nursery() as nursery:
            for index, log in enumerate(logs):
                for writer in range(index * writers_per_log, (index + 1) * writers_per_log):
                    nursery.start_soon(self._write, log, writer)

    async def _write(self, log: VirtualLog, writer: int) -> None:
        number = 0
        while not self._stopping:
            entry, begin = Entry(writer, number), self.elapsed
            try:
                position = await log.append(entry.encode())
            except RetryableError:
                return  # unknown: whether the next number follows in the log cannot be said any more
            now = self.elapsed
            self.acknowledged[entry] = position
            self.samples.append(Sample(now, now - begin))
            number += 1
