"""One reader of the log for all tails that are open.

    log -> one reader -> window -> tail, tail, tail ...

A tail that begins at an earlier position reads up to the window by itself, a few at a time, and joins. From then on it costs the cluster
nothing. With many tails entries come in groups, some tenths of a second apart; the first one after a pause comes at once. A tail that falls out of the window is ended, and may come back: no tail waits for another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Final

import attrs
import trio

from virtuallog.client.reader import records
from virtuallog.client.scan import read_with_retry
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract import metrics
from virtuallog.contract.errors import RetryableError, VirtualLogError
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import Gap, LogPosition, Record
from virtuallog_console.door.tail_window import CHUNK_BYTES_MAX, CHUNK_ENTRIES_MAX, TailChunk, TailWindow, chunks_of

PAUSE_SECONDS: Final = 0.01
"""Pause of the reader at the tail: what is appended meanwhile is one read, and one send to each tail."""
PAUSE_OF_TAIL_SECONDS: Final = 0.004
"""Longer pause for each tail that is open. A send inside TLS costs 0.2 ms of CPU time: all sends together cost a twentieth of a core."""
TAILS_BYTES_PER_SECOND: Final = 16 << 20
"""Bytes of events that all tails together are sent in a second, about, once they are in the window: some tenth of a core. A log that is
faster for a while is followed later, and none of it is left out.
"""
SPELLED_SHARE: Final = 4 / 3
"""Bytes of an event for each of the payload, in base64."""
EVENT_BYTES: Final = 100
"""Bytes of an event beside its payload."""
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
        self._sent = 0
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
    def follow(self, position: int, cut: Callable[[], None]) -> Iterator[TailCursor]:
        """Open a tail at a position until the block ends."""
        cursor = TailCursor(position, cut)
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

    def move(self, cursor: TailCursor, position: int) -> None:
        """Move a tail behind what it has sent."""
        self._sent += position - cursor.position
        cursor.position = position

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
        """Read what is before the window, with one read for several chunks."""
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
            reader = self._log.reader(start)
            async with aclosing(reader.batches()) as found:
                pending, size = list[Record](), 0
                async for placed in found:
                    pending += records(placed)
                    size += 0 if isinstance(placed, Gap) else len(placed.batch.blob)
                    pause = 0.0
                    is_all = reader.position >= self._log.view.known_tail
                    if is_all or size >= CHUNK_BYTES_MAX or len(pending) >= CHUNK_ENTRIES_MAX:
                        for chunk in chunks_of(pending):
                            window.add(chunk)
                        pause = self._pause_seconds(len(pending), size)
                        pending, size = [], 0
                        self._wake()
                    await self._clock.sleep(pause)
            self._problem = ClosedError()
        except VirtualLogError as error:
            self._problem = error
        self._wake()

    def _pause_seconds(self, entries: int, size: int) -> float:
        """Pause after a group of entries with so many bytes, in which the tails send them."""
        sent = (size * SPELLED_SHARE + entries * EVENT_BYTES) / TAILS_BYTES_PER_SECOND
        return PAUSE_SECONDS + len(self._cursors) * max(PAUSE_OF_TAIL_SECONDS, sent)

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
