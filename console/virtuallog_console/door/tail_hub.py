"""One reader of the log for all tails that are open.

    log -> one reader -> window -> tail, tail, tail ...

A tail that begins at an earlier position reads up to the window by itself, a few at a time, and joins. From then on it costs the cluster
nothing. Entries come in groups, at a pace that bounds the work of all tails together (`core/tail_pace`); the first one after a pause comes at
once. Of a log that is faster the window has a count of what was skipped, without having read it; a tail that wants to be complete reads that by
itself. A tail that falls out of the window is ended, and may come back: no tail waits for another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import attrs
import trio

from virtuallog.client.reader import Reader, records
from virtuallog.client.scan import read_with_retry
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract import metrics
from virtuallog.contract.errors import RetryableError, VirtualLogError
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import LogPosition, Record
from virtuallog_console.door.core.tail_pace import TailPace
from virtuallog_console.door.tail_window import (
    CHUNK_ENTRIES_MAX,
    EVENT_BYTES,
    Skipped,
    TailChunk,
    TailRecord,
    TailWindow,
    chunks_of,
    event_bytes,
    start_of,
    stop_of,
)

CATCH_UPS_MAX: Final = 16
"""Tails that have read something by themselves, which they have yet to send. More wait."""
CATCH_UP_BYTES: Final = 1 << 20
"""Payload bytes of one such read, or one batch."""
CATCH_UP_SECONDS: Final = 60.0
"""Seconds for which such a read is tried again, while no server has the entries."""
SLOW_SECONDS: Final = 10.0
"""Seconds for one send to a tail. Then its connection is cut: it takes nothing."""
SWEEP_SECONDS: Final = 1.0
"""Pause between two looks for such tails."""
RETRY_SECONDS: Final = 0.5
"""Pause before the hub asks again for the tail, while the log does not answer."""


class BehindError(Exception):
    """The window has moved past the tail's position."""


class ClosedError(Exception):
    """The log is closed, and the tail has all of it."""


@attrs.define(eq=False)
class TailCursor:
    """The place of one open tail."""

    position: int
    """First position that it has not sent."""
    cut: Callable[[], None]
    """Ends its connection at once."""
    complete: bool = False
    """True if it reads by itself what was skipped in the window."""
    sending_since: float | None = None
    """Start of the send under way. None if there is none."""
    joined: bool = False
    """True once it takes everything from the window."""
    ahead: list[TailChunk] = attrs.field(factory=list, init=False)
    """Chunks that it has read by itself, and not sent. While there are some, it has a place among the catch-ups."""


class TailHub:
    """The tails of one log. `run` has to run."""

    def __init__(self, log: VirtualLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._cursors: set[TailCursor] = set()
        self._catch_ups = trio.Semaphore(CATCH_UPS_MAX)
        self._window: TailWindow | None = None
        """None while no tail is open, and until the reader has begun."""
        self._problem: Exception | None = None
        """Reason why the reader has ended. None while it reads."""
        self._sent = self._skipped = 0
        self._changed = trio.Event()
        self._reading = trio.CancelScope()

    @property
    def tails(self) -> int:
        """Tails that are open."""
        return len(self._cursors)

    def metrics(self) -> Sequence[MetricFamily]:
        """Tails that are open, what they have sent, and how far they are behind."""
        lags = {"log": 0, "tail": 0}
        if self._window is not None:
            lags["log"] = max(0, self._log.view.known_tail - self._window.stop)
            lags["tail"] = self._window.stop - min((each.position for each in self._cursors), default=self._window.stop)
        return [
            metrics.gauge("virtuallog_console_tails", "Tails that are open.", self.tails),
            metrics.counter("virtuallog_console_tail_events_total", "Positions that tails were sent.", self._sent),
            metrics.counter(
                "virtuallog_console_tail_skipped_total",
                "Positions that tails were not sent, as the log was faster than all tails together may be.",
                self._skipped,
            ),
            metrics.gauges(
                "virtuallog_console_tail_lag_entries",
                "Positions between the log's tail, as far as known, and the reader of all tails (log), and from there to the slowest (tail).",
                "part",
                lags,
            ),
        ]

    async def run(self) -> None:
        """Read while a tail is open, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._cut_slow_tails)
            while True:
                while not self._cursors:
                    await self._changed.wait()
                with trio.CancelScope() as self._reading:
                    await self._read()
                    # The reader has ended. A new one begins when the tails that have learnt why are gone.
                    while self._cursors:
                        await self._changed.wait()
                self._window = self._problem = None
                for cursor in self._cursors:  # opened since; the next window begins further on
                    cursor.joined = False

    @contextmanager
    def follow(self, position: int, cut: Callable[[], None], complete: bool = False) -> Iterator[TailCursor]:
        """Open a tail at a position until the block ends. A complete one skips nothing."""
        cursor = TailCursor(position, cut, complete)
        self._cursors.add(cursor)
        self._wake()
        try:
            yield cursor
        finally:
            self._cursors.discard(cursor)
            self._drop_ahead(cursor, len(cursor.ahead))
            if not self._cursors:
                self._reading.cancel()
            self._wake()

    def move(self, cursor: TailCursor, chunk: TailChunk) -> None:
        """Move a tail behind a chunk that it has sent."""
        skipped = max(0, chunk.entries_start - cursor.position)
        self._skipped += skipped
        self._sent += chunk.stop - cursor.position - skipped
        cursor.position = chunk.stop

    async def next(self, cursor: TailCursor) -> TailChunk:
        """The next chunk for a tail; waits for one. The tail calls `move` once it has sent the chunk.

        Raises:
            BehindError: the tail was in the window, and is no longer.
            ClosedError: the log is closed, and there is nothing more.
            VirtualLogError: the entries cannot be read.
        """
        self._drop_ahead(cursor, sum(chunk.stop <= cursor.position for chunk in cursor.ahead))
        if cursor.ahead:
            return cursor.ahead[0]
        while True:
            window = self._window
            if window is not None:
                if cursor.position >= window.start:
                    cursor.joined = True
                    chunk = window.at(cursor.position)
                    if chunk is not None and cursor.complete and cursor.position < chunk.entries_start:
                        return await self._catch_up(cursor, chunk.entries_start)
                    if chunk is not None:
                        return chunk
                    if self._problem is not None:
                        raise self._problem
                elif cursor.joined:
                    raise BehindError
                else:
                    return await self._catch_up(cursor, window.start)
            elif self._problem is not None:
                raise self._problem
            await self._changed.wait()

    async def _catch_up(self, cursor: TailCursor, stop: int) -> TailChunk:
        """Read what the window has no entries for, up to `stop`, with one read for several chunks."""
        start = LogPosition(cursor.position)
        await self._catch_ups.acquire()
        try:
            found = await read_with_retry(self._log, start, LogPosition(stop), CATCH_UP_BYTES, CATCH_UP_SECONDS)
            cursor.ahead = [chunk for placed in found for chunk in chunks_of([*records(placed)])]
        finally:
            if not cursor.ahead:
                self._catch_ups.release()
        return cursor.ahead[0]

    def _drop_ahead(self, cursor: TailCursor, count: int) -> None:
        """Drop chunks that a tail has sent, and with the last one its place."""
        if count:
            del cursor.ahead[:count]
            if not cursor.ahead:
                self._catch_ups.release()

    async def _read(self) -> None:
        """Fill the window, from the tail on, until the log ends or fails."""
        try:
            start = await self._find_tail()
            window = self._window = TailWindow(start, start)
            self._wake()
            reader, mean = self._log.reader(start), float(EVENT_BYTES)
            while (limit := await self._wait_readable(reader)) is not None:
                unread = max(limit, self._log.view.known_tail) - reader.position
                reader.position = LogPosition(reader.position + self._pace.skipped_unread(unread, mean))
                if not (found := await reader.read_piece()):
                    break
                reader.position = LogPosition(found[-1].stop)
                waiting = [record for placed in found for record in records(placed)]
                mean = sum(map(event_bytes, waiting)) / len(waiting)
                await self._add(window, waiting)
            self._problem = ClosedError()
        except VirtualLogError as error:
            self._problem = error
        self._wake()

    async def _wait_readable(self, reader: Reader) -> LogPosition | None:
        """Wait until there is more to read. Returns a position up to which there is; None if the log is closed."""
        while True:
            try:
                return await reader.wait_readable()
            except RetryableError:
                await self._clock.sleep(RETRY_SECONDS)

    async def _add(self, window: TailWindow, waiting: Sequence[Record]) -> None:
        """Add records to the window group by group, and pause after each. Those that do not fit, or were not read, are added as skipped."""
        left = waiting[self._pace.skipped([*map(event_bytes, waiting)]) :]
        start = start_of(left[0]) if left else stop_of(waiting[-1])
        shown: list[TailRecord] = [Skipped(window.stop, start), *left] if start > window.stop else [*left]
        sizes, at = [*map(event_bytes, shown)], 0
        while at < len(shown):
            pace = self._pace
            end = at + pace.group(sizes[at : at + CHUNK_ENTRIES_MAX])
            window.add(TailChunk(shown[at:end]))
            self._wake()
            await self._clock.sleep(pace.pause_seconds(sum(sizes[at:end])))
            at = end

    @property
    def _pace(self) -> TailPace:
        return TailPace(max(1, len(self._cursors)))

    async def _find_tail(self) -> LogPosition:
        while True:
            try:
                return LogPosition((await self._log.check_tail()).tail)
            except RetryableError:
                await self._clock.sleep(RETRY_SECONDS)

    async def _cut_slow_tails(self) -> None:
        while True:
            await self._clock.sleep(SWEEP_SECONDS)
            now = self._clock.monotonic()
            for cursor in [*self._cursors]:
                if cursor.sending_since is not None and now - cursor.sending_since > SLOW_SECONDS:
                    cursor.cut()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
