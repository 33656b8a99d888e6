"""An appender: one session. Concurrent appends share batches; maybes are settled, so entries are in the log once.

    append() ... append()       callers wait, one task each
         |          |
         v          v
       queue  --> batches --> session.sendable() --> loglet.append, one task per batch in flight
                    ^                                     |
                    |      sealed: search the sealed range, send the rest to the successor
                    '-------------------------------------'

`session.py` decides what may be sent when; this file runs it. A caller that is cancelled stops waiting; its entry
stays in the queue or in flight, so no hole arises and nobody else's entry is lost.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import attrs
import outcome
import trio

from virtuallog.batch import BATCH_BYTES_MAX, BATCH_COUNT_MAX, ENTRY_BYTES_MAX, SessionId
from virtuallog.chain import Segment
from virtuallog.errors import (
    OutOfOrderError,
    ReconfigurationNeededError,
    RetryableError,
    SealedError,
    TooLargeError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.session import Flight, Session
from virtuallog.types import Gap, GapKind, LogletOffset, LogPosition, PlacedBatch

if TYPE_CHECKING:
    from virtuallog.virtual_log import VirtualLog

SETTLE_READ_BYTES: Final = 4 << 20


@attrs.frozen(kw_only=True)
class AppenderSettings:
    """How an appender batches. Sizes in bytes, times in seconds."""

    entry_bytes_max: int = ENTRY_BYTES_MAX
    """A larger entry is refused when it is offered."""
    batch_bytes: int = 1 << 20
    """A batch takes waiting entries until it would exceed this (one larger entry, or one `append_many`, may)."""
    batch_entries: int = 4096
    """The same, counted."""
    window: int = 8
    """Batches in flight; see `Session.window`. More helps over long distances, fewer keeps batches larger."""
    queue_bytes_max: int = 32 << 20
    """Callers wait while this much is queued, so that a producer cannot outgrow a slow log."""
    retry_min: float = 0.005
    """First pause before a batch is offered again; doubles up to `retry_max`."""
    retry_max: float = 1.0
    give_up: float = 60.0
    """Without any progress for so long, appends fail with UnavailableError: their outcome is unknown, for good."""


@attrs.define(eq=False)
class _Offer:
    """What one caller waits for."""

    payloads: list[bytes]
    size: int
    task: trio.lowlevel.Task | None
    expected_tail: LogPosition | None
    result: outcome.Outcome[range] | None = None

    def finish(self, result: outcome.Outcome[range]) -> None:
        if self.task is not None:
            trio.lowlevel.reschedule(self.task, result)
            self.task = None


class Appender:
    """A session of a VirtualLog. Entries of one appender are in the log in the order of their `append` calls."""

    def __init__(self, log: VirtualLog, settings: AppenderSettings) -> None:
        """Starts its work in the nursery of `log`; `close` ends it."""
        self._log = log
        self._settings = settings
        self._session = Session(self._new_session_id(), settings.window)
        self._queue: deque[_Offer] = deque()
        self._queued_bytes = 0
        self._room = trio.Event()
        self._work = trio.Event()
        self._segment: Segment | None = None
        """Where the session appends now."""
        self._floor = LogPosition(0)
        """No entry that is not acknowledged can be below."""
        self._failed = False
        """The loglet asked for a successor (rather than being sealed by somebody)."""
        self._progress = log.environment.clock.monotonic()
        self._scope = trio.CancelScope()
        log.environment.nursery.start_soon(self._run)

    @property
    def session(self) -> SessionId:
        """Names this appender's entries in the log."""
        return self._session.id

    def close(self) -> None:
        """End the session. Appends still waiting fail with UnavailableError: unknown outcome."""
        self._scope.cancel()
        self._fail_all(UnavailableError("the appender was closed"))

    async def append(self, payloads: list[bytes], expected_tail: LogPosition | None = None) -> range:
        """Append entries side by side; see `VirtualLog.append_many`."""
        size = self._check(payloads)
        while self._queued_bytes > self._settings.queue_bytes_max:
            await self._room.wait()
        offer = _Offer(payloads, size, trio.lowlevel.current_task(), expected_tail)
        if not self._queue and not self._session.flights:
            self._progress = self._log.environment.clock.monotonic()
        self._queue.append(offer)
        self._queued_bytes += size
        self._work.set()

        def stop_waiting(_: object) -> trio.lowlevel.Abort:
            offer.task = None
            return trio.lowlevel.Abort.SUCCEEDED

        places: range = await trio.lowlevel.wait_task_rescheduled(stop_waiting)
        return places

    def _check(self, payloads: list[bytes]) -> int:
        largest, size = max(map(len, payloads)), sum(map(len, payloads))
        if largest > self._settings.entry_bytes_max:
            raise TooLargeError(what="bytes in an entry", size=largest, limit=self._settings.entry_bytes_max)
        if size + 4 * len(payloads) > BATCH_BYTES_MAX - 1024:
            raise TooLargeError(what="bytes in a batch", size=size, limit=BATCH_BYTES_MAX)
        if len(payloads) > BATCH_COUNT_MAX:
            raise TooLargeError(what="entries in a batch", size=len(payloads), limit=BATCH_COUNT_MAX)
        return size

    # -- from the queue to the loglet ---------------------------------------------------------------------------

    async def _run(self) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                while True:
                    await self._work.wait()
                    self._work = trio.Event()
                    if self._session.needs_settling:
                        await self._settle_guarded()
                    await self._send_waiting(nursery)

    async def _send_waiting(self, nursery: trio.Nursery) -> None:
        try:
            while self._queue and self._session.has_room:
                self._cut_batch()
            if self._segment is None and self._session.flights:
                await self._enter_segment()
        except VirtualLogError as error:
            await self._back_off(error)
            return
        for flight in self._session.sendable():
            assert self._segment is not None
            nursery.start_soon(self._send, flight, self._segment)
            # The next flight's task must not start before this one has offered its batch: trio may start tasks of
            # one scheduler turn in any order.
            await trio.lowlevel.checkpoint()

    def _cut_batch(self) -> None:
        settings, offers, payloads, size = self._settings, [self._queue.popleft()], [], 0
        payloads += offers[0].payloads
        size += offers[0].size
        while (
            self._queue
            and offers[-1].expected_tail is None
            and self._queue[0].expected_tail is None
            and size + self._queue[0].size <= settings.batch_bytes
            and len(payloads) + len(self._queue[0].payloads) <= settings.batch_entries
        ):
            offer = self._queue.popleft()
            offers.append(offer)
            payloads += offer.payloads
            size += offer.size
        self._queued_bytes -= size
        if self._queued_bytes <= settings.queue_bytes_max:
            self._room.set()
            self._room = trio.Event()
        self._session.cut(payloads, offers)

    async def _enter_segment(self) -> None:
        """Find the active segment. Raises SealedError if the log is closed."""
        chain = (await self._log.current()).chain
        if chain.active is None:
            chain = (await self._log.refresh()).chain
        if chain.active is None:
            raise SealedError("the log has been closed")
        self._segment = chain.active
        # Nothing of ours is in this segment yet, and nothing can get below a tail that was seen before we send.
        self._floor = max(chain.active.start, self._log.known_tail)

    async def _send(self, flight: Flight, segment: Segment) -> None:
        """Offer one batch to the loglet until it is placed, or until the loglet takes no more."""
        session, loglet = self._session, self._log.loglet(segment)
        opens, pause = not session.opened, self._settings.retry_min
        expected = self._expected_offset(flight, segment)
        while not session.lost and flight.batch.session == session.id:
            try:
                places = await loglet.append(flight.batch, opens=opens, expected_tail=expected)
            except (SealedError, ReconfigurationNeededError) as error:
                self._failed = self._failed or isinstance(error, ReconfigurationNeededError)
                self._lose(segment)
                break
            except OutOfOrderError:  # a predecessor is still on its way
                await self._log.environment.clock.sleep(pause)
            except RetryableError as error:
                if not await self._may_retry(segment, pause, error):
                    break
            except VirtualLogError as error:
                self._abandon(flight, error)
                break
            else:
                self._acknowledge(flight, segment, places)
                return
            pause = min(2 * pause, self._settings.retry_max)
        session.given_up(flight)
        self._work.set()

    def _expected_offset(self, flight: Flight, segment: Segment) -> LogletOffset | None:
        expected = flight.tag[0].expected_tail
        return None if expected is None else LogletOffset(segment.offset(expected))

    def _acknowledge(self, flight: Flight, segment: Segment, places: range) -> None:
        if flight.batch.session != self._session.id:
            return  # given up earlier
        self._session.acknowledged(flight)
        self._deliver(flight, places, segment.shift)
        self._work.set()

    def _deliver(self, flight: Flight, places: range, shift: int) -> None:
        log = self._log
        self._progress = log.environment.clock.monotonic()
        log.saw_tail(LogPosition(places[-1] + 1 + shift))
        at = 0
        for offer in flight.tag:
            mine = places[at : at + len(offer.payloads)]
            at += len(offer.payloads)
            offer.finish(outcome.Value(range(mine.start + shift, mine.stop + shift, mine.step)))

    def _lose(self, segment: Segment) -> None:
        if self._segment is segment:
            self._session.lose_loglet()

    async def _may_retry(self, segment: Segment, pause: float, error: RetryableError) -> bool:
        """After an unknown outcome: is the same loglet still the place to go? Gives up when the time is over."""
        clock = self._log.environment.clock
        if clock.monotonic() - self._progress > self._settings.give_up:
            self._abandon(None, UnavailableError(f"given up after {self._settings.give_up:g} s: {error}"))
            return False
        await clock.sleep(pause)
        try:
            last = (await self._log.refresh()).chain.last
        except RetryableError:
            return True
        if last.id != segment.id or last.stop is not None:
            self._lose(segment)
            return False
        return True

    # -- settling maybes ----------------------------------------------------------------------------------------

    async def _settle_guarded(self) -> None:
        try:
            await self._settle()
        except VirtualLogError as error:
            await self._back_off(error)

    async def _settle(self) -> None:
        """The loglet is sealed: find out which flights it holds, and go on behind it."""
        assert self._segment is not None
        left = self._segment
        chain = (await self._log.successor_of(left.id, failed=self._failed)).chain
        self._failed = False
        closed = chain.find(left.id)
        stop = closed.stop if closed is not None else None
        if stop is None:  # the segment was dropped or replaced: whatever it held lies below the tail
            stop = LogPosition((await self._log.check_tail()).tail)
        mine = await self._search(self._floor, stop)
        for flight, placed in self._session.settle(mine):
            self._deliver(flight, placed.places, 0)
        self._segment = None
        self._work.set()

    async def _search(self, start: LogPosition, stop: LogPosition) -> list[PlacedBatch]:
        """Our batches in [start, stop).

        Raises:
            SealedError: a part of the range is gone, so nobody can say what became of the flights.
        """
        mine = []
        while start < stop:
            for placed in await self._log.read(start, stop, SETTLE_READ_BYTES):
                start = LogPosition(placed.stop)
                if isinstance(placed, PlacedBatch):
                    if placed.batch.session == self._session.id:
                        mine.append(placed)
                elif isinstance(placed, Gap) and placed.kind is not GapKind.FILLER:
                    raise _Unsettled(f"[{placed.start}, {placed.stop}) was {placed.kind.value} before it was searched")
        return mine

    async def _back_off(self, error: VirtualLogError) -> None:
        """Something in the way of all flights: wait and try again, or give them up."""
        clock = self._log.environment.clock
        waited = clock.monotonic() - self._progress
        if isinstance(error, RetryableError) and waited <= self._settings.give_up:
            await clock.sleep(self._settings.retry_min * 10)
        elif isinstance(error, RetryableError | _Unsettled):
            self._abandon(None, UnavailableError(f"unknown outcome: {error}"))
        else:
            self._abandon(None, error)
        self._work.set()

    def _abandon(self, flight: Flight | None, error: VirtualLogError) -> None:
        """Fail `flight` with `error` and go on as a new session; what else was in flight has an unknown outcome.

        The old session must not go on: its next batch would wait for ever for the one that failed.
        """
        for other in self._session.abandon(self._new_session_id()):
            unknown = other is not flight and flight is not None
            reason = UnavailableError(f"unknown outcome: an earlier entry failed: {error}") if unknown else error
            for offer in other.tag:
                offer.finish(outcome.Error(reason))
        self._segment = None
        if flight is None:
            self._fail_queued(error)

    def _fail_queued(self, error: VirtualLogError) -> None:
        while self._queue:
            self._queue.popleft().finish(outcome.Error(error))
        self._queued_bytes = 0
        self._room.set()
        self._room = trio.Event()

    def _fail_all(self, error: VirtualLogError) -> None:
        self._abandon(None, error)

    def _new_session_id(self) -> SessionId:
        return SessionId(self._log.environment.random.randbytes(16))


class _Unsettled(VirtualLogError):
    """The range to be searched is not there any more."""
