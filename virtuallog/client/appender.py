"""An appender: one session. Concurrent appends share batches; maybes are settled, so entries are in the log once.

    append() ... append()       callers wait, one task each
         |          |
         v          v
       queue  --> batches --> session.sendable() --> loglet.post_append, or loglet.append in a task per batch in flight
                    ^                                     |
                    |      sealed: search the sealed range, send the rest to the successor
                    '-------------------------------------'

`session.py` decides what may be sent when; this file runs it. Cancelling a caller leaves its entry where it is, in the
queue or in flight: no hole arises, and nobody else's entry is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Final

import attrs
import trio

from virtuallog.client.address_space import AddressSpace
from virtuallog.client.append_queue import (
    BATCH_HEADERS_BYTES,
    AppendQueue,
    PendingAppend,
    PostedAppend,
    check_size,
    pending_appends_of,
)
from virtuallog.client.metrics import AppendMetrics
from virtuallog.contract.batch import BATCH_BYTES_MAX, BATCH_COUNT_MAX, ENTRY_BYTES_MAX, SessionId
from virtuallog.contract.chain import Chain, Segment
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import (
    DiskFullError,
    InvalidSettingError,
    OutOfOrderError,
    OverloadedError,
    ReconfigurationNeededError,
    RetryableError,
    SealedError,
    TailMismatchError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.loglet import Loglet, SupportsPost
from virtuallog.contract.types import GapKind, LogletOffset, LogPosition, PlacedBatch
from virtuallog.ordering.append_session import AppendSession, InFlightBatch

SETTLE_READ_BYTES: Final = 4 << 20
"""How much one call brings while a sealed range is searched."""
WINDOW_MAX: Final = 64
"""A loglet remembers about so many batches of a session."""
WATCH_SECONDS: Final = 0.4
"""Without any acknowledgement for so long the chain is looked at. A node that stands still answers nothing, and its
successor may have been decided long before a call to it has timed out."""

_PLACED = CrashPoint("appender: a batch is in the log, its callers have not been told")
_SEARCHED = CrashPoint("appender: a sealed range is searched, nothing is sent to its successor")


@attrs.frozen(kw_only=True)
class AppenderSettings:
    """How an appender batches. Sizes in bytes, times in seconds.

    Raises:
        InvalidSettingError: when made, if batches would come out that no loglet takes.
    """

    entry_bytes_max: int = ENTRY_BYTES_MAX
    """A larger entry is refused when it is offered."""
    batch_bytes: int = 1 << 20
    """A batch takes waiting entries until it would exceed this (one larger entry, or one `append_many`, may)."""
    batch_entries: int = 4096
    """The same, counted."""
    window: int = 8
    """Batches in flight; see `AppendSession.window`. More helps over long distances, fewer keeps batches larger."""
    queue_bytes_max: int = 32 << 20
    """Callers wait while this much is queued, so that a producer cannot outgrow a slow log."""
    retry_min: float = 0.005
    """First pause before a batch is offered again; doubles up to `retry_max`."""
    retry_max: float = 0.25
    """Each pause ends with a look at the chain, so it is also how late a successor may be noticed."""
    give_up: float = 60.0
    """Without any progress for so long, appends fail with UnavailableError: their outcome is unknown, for good. Loglets
    need not remember an idle session for much longer than this default; a larger value could put an entry in twice."""
    one_session: bool = False
    """An appender whose session has to be given up, since the outcome of an append is unknown or it was refused, goes on as a
    new one. With this it ends instead: all that was offered and all that comes fails. For those who tell others which session
    their entries are of."""

    def __attrs_post_init__(self) -> None:
        _check_range("batch_entries", self.batch_entries, BATCH_COUNT_MAX)
        _check_range("batch_bytes", self.batch_bytes, BATCH_BYTES_MAX - BATCH_HEADERS_BYTES - 4 * self.batch_entries)
        _check_range("window", self.window, WINDOW_MAX)


def _check_range(name: str, value: int, limit: int) -> None:
    if not 1 <= value <= limit:
        raise InvalidSettingError(name, f"must be between 1 and {limit}, not {value}")


class Appender:
    """A session of a VirtualLog; a context manager. Its entries are in the log in the order of its `append` calls."""

    def __init__(
        self,
        space: AddressSpace,
        settings: AppenderSettings,
        meter: AppendMetrics | None = None,
        on_close: Callable[[Appender], None] = lambda _: None,
    ) -> None:
        """Starts its work in the service nursery; `close` ends it."""
        self._space = space
        self._view = space.view
        self._clock = space.view.environment.clock
        self._settings = settings
        self._meter = meter or AppendMetrics()
        """May be shared with other appenders of the client."""
        self._on_close = on_close
        self._waiting_since = 0.0
        """When the first offer in the queue came, or the batch before it was cut."""
        self._lost_at: float | None = None
        """When the segment before took no more, until its successor acknowledges something."""
        self._queue = AppendQueue(settings.queue_bytes_max)
        self._session = AppendSession(self._new_session_id(), settings.window)
        self._only = self._session.id if settings.one_session else None
        """The session for good."""
        self._ended_by: VirtualLogError | None = None
        """Why there is no session any more."""
        self._segment: Segment | None = None
        """Where the session appends now."""
        self._loglet: Loglet | None = None
        """The client of `_segment`'s loglet. It knows how the session's batches are numbered, so it is kept for as long as the
        session stays in the segment, also once the view has dropped it with a segment that left the chain."""
        self._floor = LogPosition(0)
        """Nothing that is not acknowledged can be below."""
        self._poster: SupportsPost | None = None
        """The loglet of `_segment`, if it takes appends without a task."""
        self._posted: dict[InFlightBatch, object] = {}
        """Flights that were posted, and have no outcome yet; each with its attempt."""
        self._tasks = 0
        """Flights that have a task."""
        self._sends: list[trio.CancelScope] = []
        """Of these tasks."""
        self._has_told = False
        """Callers have just been told, and may append again."""
        self._is_watching = False
        self._asked_for_successor = False
        """By the loglet itself, rather than sealed by somebody."""
        self._progress = self._clock.monotonic()
        """When the last entry was acknowledged, or the first one offered."""
        self._was_alone = False
        """The last batch had one offer."""
        self._work = trio.Event()
        self._nursery: trio.Nursery | None = None
        """Of what is being sent, while `_run` runs."""
        self._scope = trio.CancelScope()
        self._closed = False
        space.view.environment.nursery.start_soon(self._run)

    @property
    def session(self) -> SessionId:
        """Names this appender's entries in the log. Another one after appends have failed, unless there may be only one."""
        return self._only or self._session.id

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait for a batch."""
        return self._queue.bytes

    @property
    def batches_in_flight(self) -> int:
        """Batches that are not settled."""
        return len(self._session.flights)

    def __enter__(self) -> Appender:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the session. Appends still waiting fail with UnavailableError: unknown outcome."""
        self._scope.cancel()
        self._closed = True
        self._posted.clear()
        self._on_close(self)
        self._abandon_all(UnavailableError("the appender was closed: unknown outcome"))

    async def append(self, payloads: list[bytes], expected_tail: LogPosition | None = None) -> range:
        """Append entries side by side; see `VirtualLog.append_many`."""
        if not payloads:
            return range(0)
        offer = PendingAppend(payloads, check_size(payloads, self._settings.entry_bytes_max), expected_tail)
        if self._queue.is_full:
            await self._queue.wait_room()
        self._put(offer)
        return await offer.wait()

    def post(self, payload: bytes, done: Callable[[range | VirtualLogError], None]) -> None:
        """Append one entry without waiting; see `post_many`."""
        self.post_many([payload], done)

    def post_many(self, payloads: list[bytes], done: Callable[[range | VirtualLogError], None]) -> None:
        """Append entries side by side without waiting: costs no task. `done` is called once, later, on the event loop, with their
        places or with what `append` would raise. It must not raise; it may post again. That of a later call may come first, if
        the entries of both are in the log: places tell their order.

        Whoever posts bounds how much is under way: no room is waited for.

        Raises:
            TooLargeError, UnavailableError: over the limit, or the appender is closed. Nothing was done, `done` is not called.
        """
        self._put(PostedAppend(payloads, check_size(payloads, self._settings.entry_bytes_max), None, done=done))

    def _put(self, offer: PendingAppend) -> None:
        if self._closed:
            raise UnavailableError("the appender is closed: nothing was done")
        if self._ended_by is not None:
            raise UnavailableError(f"the session has ended, nothing was done: {self._ended_by}")
        queue = self._queue
        if not queue.offers:
            self._waiting_since = self._clock.monotonic()
            if not self._session.flights:
                self._progress = self._waiting_since
                # Whatever comes now is placed behind what has been seen: to look for it further down would be in vain,
                # and impossible once that has been trimmed.
                self._floor = max(self._floor, self._view.known_tail)
        queue.put(offer)
        if self._may_hurry and self._nursery is not None and self._segment is not None:
            self._cut_batch()
            for flight in self._session.sendable():
                self._start_sending(self._nursery, flight, self._segment)
        else:
            self._work.set()

    # -- from the queue to the loglet ---------------------------------------------------------------------------

    @property
    def _may_hurry(self) -> bool:
        """Whether an offer need not wait until the end of the turn for others to share its batch: it is alone, and the last
        one was. A crowd that appends in step must stay one batch, since split in two it costs twice as much."""
        return self._was_alone and not self._session.flights and not self._session.lost

    async def _run(self) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                try:
                    await self._work_on(nursery)
                finally:
                    self._nursery = None
                    self._posted.clear()

    async def _work_on(self, nursery: trio.Nursery) -> None:
        while True:
            await self._work.wait()
            self._work = trio.Event()
            if self._has_told:
                # They run before what waits is cut: if they append again, it is to be one batch.
                self._has_told = False
                await trio.lowlevel.checkpoint()
            try:
                await self._work_once(nursery)
            except VirtualLogError as error:
                await self._back_off(error)

    async def _work_once(self, nursery: trio.Nursery) -> None:
        if self._session.needs_settling:
            await self._settle()
        while self._queue.offers and self._session.has_room and self._session.is_worth_a_batch(self._queue.bytes):
            self._cut_batch()
        if self._segment is None and self._session.flights:
            await self._enter_segment()
        segment = self._segment
        for number, flight in enumerate(self._session.sendable()):
            if number and self._tasks:
                # This flight's task must not start before the one before has offered its batch, but trio may start the
                # tasks of one scheduler turn in any order. What is cut later is sent in a later turn anyway.
                await trio.lowlevel.checkpoint()
            assert segment is not None
            self._start_sending(nursery, flight, segment)

    def _cut_batch(self) -> None:
        offers = self._queue.take_batch(self._settings.batch_bytes, self._settings.batch_entries)
        self._was_alone = len(offers) == 1
        flight = self._session.cut([payload for offer in offers for payload in offer.payloads], offers)
        flight.since, self._waiting_since = self._waiting_since, self._clock.monotonic()

    def _start_sending(self, nursery: trio.Nursery, flight: InFlightBatch, segment: Segment) -> None:
        """Offers of one session reach the loglet in order. A task offers in a later turn, so nothing is posted past one."""
        if self._poster is not None and not self._tasks and pending_appends_of(flight)[0].expected_tail is None:
            self._post(self._poster, nursery, flight, segment)
        else:
            self._start_task(nursery, flight, segment)
        if not self._is_watching:
            self._is_watching = True
            nursery.start_soon(self._watch)

    async def _enter_segment(self) -> None:
        chain = (await self._view.current()).chain
        if chain.active is None:
            chain = (await self._view.refresh()).chain
        if chain.active is None:
            raise SealedError("the log has been closed")
        self._segment, self._loglet = chain.active, self._view.loglet(chain.active)
        self._poster = self._loglet if isinstance(self._loglet, SupportsPost) else None
        self._asked_for_successor = False
        # Nothing of ours is in this segment yet, and nothing can get below a tail that was seen before we send.
        self._floor = max(chain.active.start, self._view.known_tail)

    def _post(self, loglet: SupportsPost, nursery: trio.Nursery, flight: InFlightBatch, segment: Segment) -> None:
        """The first attempt costs no task. If it fails, one takes over; if the loglet is lost meanwhile, the batch is a maybe, like any
        other, and settled by the search."""
        attempt = self._posted[flight] = object()
        maybe, flight.maybe = flight.maybe, True

        def done(outcome: range | VirtualLogError) -> None:
            if self._posted.get(flight) is not attempt:
                return
            del self._posted[flight]
            if isinstance(outcome, VirtualLogError):
                flight.maybe = maybe
                self._start_task(nursery, flight, segment, outcome)
            else:
                _PLACED.reached()
                self._acknowledged(flight, segment, outcome)
                self._go_on()

        loglet.post_append(flight.batch, opens=not self._session.opened, done=done)

    def _start_task(
        self, nursery: trio.Nursery, flight: InFlightBatch, segment: Segment, error: VirtualLogError | None = None
    ) -> None:
        assert self._loglet is not None
        self._tasks += 1
        nursery.start_soon(self._send, flight, segment, self._loglet, error)

    async def _send(
        self, flight: InFlightBatch, segment: Segment, loglet: Loglet, error: VirtualLogError | None
    ) -> None:
        """Offer one batch until the loglet has placed it or takes no more. Cancelled when the loglet is lost: the
        batch is then a maybe, like any other, and settled by the search.

        Args:
            error: the outcome of the first attempt, if it has been made.
        """
        with trio.CancelScope() as scope:
            self._sends.append(scope)
            try:
                await self._offer_until_placed(flight, segment, loglet, error)
            finally:
                self._sends.remove(scope)
                self._tasks -= 1
                flight.sent = False
        self._go_on()

    def _go_on(self) -> None:
        if self._queue.offers or self._session.flights or self._session.lost:
            self._has_told = True
            self._work.set()

    async def _offer_until_placed(
        self, flight: InFlightBatch, segment: Segment, loglet: Loglet, failed: VirtualLogError | None
    ) -> None:
        opens, pause = not self._session.opened, self._settings.retry_min
        while flight.batch.session == self._session.id:
            # Also if the attempt is cancelled, or refused for the moment: a second copy of the call may yet be taken.
            maybe, flight.maybe = flight.maybe, True
            try:
                if failed is not None:
                    raise failed
                places = await _offer(flight, segment, loglet, opens)
            except (OutOfOrderError, OverloadedError, DiskFullError) as error:
                self._meter.again.add(type(error).__name__)
                if not isinstance(error, OutOfOrderError):  # that one only waits for a predecessor on its way
                    await self._look_for_successor(segment, error)
            except (SealedError, ReconfigurationNeededError) as error:
                flight.maybe = maybe or not (isinstance(error, SealedError) and error.refused)
                self._asked_for_successor |= isinstance(error, ReconfigurationNeededError)
                self._lose(segment)
            except RetryableError as error:
                self._meter.again.add(type(error).__name__)
                await self._look_for_successor(segment, error)
            except TailMismatchError as error:  # definite: a batch that the loglet had placed would get its place again
                # A tail that has passed the expected one stays past it. One that is still behind may be told by a sequencer
                # that does not know that it is sealed: the log has gone on elsewhere, perhaps up to what is expected.
                if error.found > error.expected or await self._look(segment):
                    await self._abandon_in_turn(flight, error)
                elif self._is_over():
                    self._abandon_all(UnavailableError(f"unknown outcome: {error}, and the chain cannot be read"))
            except VirtualLogError as error:
                # Of this attempt nothing was done; an earlier one whose answer was lost may have been.
                failure = UnavailableError(f"unknown outcome: {error}") if maybe else error
                await self._abandon_in_turn(flight, failure)
            else:
                _PLACED.reached()
                self._acknowledged(flight, segment, places)
                return
            failed = None
            await self._clock.sleep(pause)
            pause = min(2 * pause, self._settings.retry_max)

    def _acknowledged(self, flight: InFlightBatch, segment: Segment, places: range) -> None:
        if flight.batch.session != self._session.id:
            return  # given up meanwhile
        if self._lost_at is not None:
            self._meter.interruption_seconds.observe(self._clock.monotonic() - self._lost_at)
            self._lost_at = None
        if self._session.flights[0] is flight:
            self._floor = segment.position(places[-1] + 1)
        self._session.acknowledged(flight)
        self._deliver(flight, places, segment.shift)

    def _deliver(self, flight: InFlightBatch, places: range, shift: int) -> None:
        self._progress = now = self._clock.monotonic()
        self._meter.acknowledged(flight.batch.count, len(flight.batch.blob), now - flight.since)
        self._view.saw_tail(places[-1] + 1 + shift)
        start, step = places.start + shift, places.step
        for offer in pending_appends_of(flight):
            stop = start + step * len(offer.payloads)
            offer.finish(range(start, stop, step))
            start = stop

    async def _look_for_successor(self, segment: Segment, error: RetryableError) -> None:
        """After an unknown outcome: the same loglet is still the place to go, unless the chain says otherwise."""
        if self._is_over():
            self._abandon_all(UnavailableError(f"given up after {self._settings.give_up:g} s: {error}"))
            return
        await self._look(segment)

    async def _watch(self) -> None:
        """While batches are in flight; a task at most every `WATCH_SECONDS`, however many appends there are."""
        while self._session.flights:
            seen = self._progress
            await self._clock.sleep(WATCH_SECONDS)
            if self._progress == seen and self._session.flights and self._segment is not None:
                await self._look(self._segment)
        self._is_watching = False

    async def _look(self, segment: Segment) -> bool:
        """Whether the log certainly still went on in this segment when we asked."""
        try:
            last = (await self._view.refresh()).chain.last
        except RetryableError:
            return False
        if last.id != segment.id or last.stop is not None:
            self._lose(segment)
            return False
        return True

    def _lose(self, segment: Segment) -> None:
        if self._segment is segment:
            self._session.lose_loglet()
            if self._lost_at is None:
                self._lost_at = self._clock.monotonic()
            for scope in self._sends:
                scope.cancel()
            for flight in self._posted:
                flight.sent = False
            self._posted.clear()
            self._work.set()

    # -- settling maybes ----------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """The loglet is sealed: find out which flights it holds, and go on behind it."""
        assert self._segment is not None
        left = self._segment
        chain = (await self._space.chain_writer.successor_of(left.id, failed=self._asked_for_successor)).chain
        self._asked_for_successor = False
        mine = await self._search(left, chain) if self._session.has_unknown_outcomes else []
        _SEARCHED.reached()
        # Before anybody is told: who posts again at once must not get there.
        self._segment = None
        for flight, placed in self._session.settle(mine):
            self._deliver(flight, placed.places, 0)

    async def _search(self, left: Segment, chain: Chain) -> list[PlacedBatch]:
        """Our batches in what the chain kept of the segment `left`.

        Raises:
            _UnsettledError: a part of the range is gone, so nobody can say what became of the flights.
        """
        closed = chain.find(left.id)
        start, stop = self._floor, closed.stop if closed is not None else None
        if stop is None:  # the segment was dropped or replaced: whatever it held lies below the tail
            stop = LogPosition((await self._space.check_tail()).tail)
        mine = []
        while start < stop:
            for placed in await self._space.read(start, stop, SETTLE_READ_BYTES):
                start = LogPosition(placed.stop)
                if isinstance(placed, PlacedBatch):
                    if placed.batch.session == self._session.id:
                        mine.append(placed)
                elif placed.kind is not GapKind.FILLER:
                    raise _UnsettledError(f"{placed.kind.value} before it was searched")
        return mine

    # -- giving up ----------------------------------------------------------------------------------------------

    def _is_over(self) -> bool:
        return self._clock.monotonic() - self._progress > self._settings.give_up

    async def _back_off(self, error: VirtualLogError) -> None:
        """Something is in the way of all flights: wait and try again, or give them up."""
        if isinstance(error, RetryableError) and not self._is_over():
            await self._clock.sleep(self._settings.retry_min * 10)
        elif isinstance(error, RetryableError | _UnsettledError):
            self._abandon_all(UnavailableError(f"unknown outcome: {error}"))
        else:
            self._abandon_all(error)
        self._work.set()

    async def _abandon_in_turn(self, failed: InFlightBatch, error: VirtualLogError) -> None:
        """`_abandon`, once all that was offered before is settled: that has outcomes of its own. Cancelled, as the loglet is
        lost, the flight is offered to the successor like any other."""
        while failed.batch.session == self._session.id:
            if self._session.flights[0] is failed:
                self._abandon(failed, error)
            else:
                await self._clock.sleep(self._settings.retry_min)

    def _abandon(self, failed: InFlightBatch, error: VirtualLogError) -> None:
        """Fail the first flight with `error`; what follows it cannot be placed any more.

        The session ends: its next batch would wait for ever for the one that failed.
        """
        others = UnavailableError(f"unknown outcome: an earlier entry failed: {error}")
        self._segment = None
        abandoned = self._session.abandon(self._new_session_id())
        waiting = self._end(error)
        for flight in abandoned:
            self._fail(pending_appends_of(flight), error if flight is failed else others)
        self._fail(waiting, others)

    def _abandon_all(self, error: VirtualLogError) -> None:
        abandoned = [
            offer for flight in self._session.abandon(self._new_session_id()) for offer in pending_appends_of(flight)
        ]
        abandoned += self._queue.clear()
        self._segment = None
        self._end(error)
        self._fail(abandoned, error)  # last: those who are told may post again, to the new session

    def _end(self, error: VirtualLogError) -> list[PendingAppend]:
        """Nothing goes on as another session if there may be only one; returns what waits for a batch."""
        if self._only is None:
            return []
        self._ended_by = self._ended_by or error
        return self._queue.clear()

    def _fail(self, offers: list[PendingAppend], error: VirtualLogError) -> None:
        for offer in offers:
            self._meter.failed_entries.value += len(offer.payloads)
            offer.fail(error)

    def _new_session_id(self) -> SessionId:
        return SessionId(self._view.environment.random.randbytes(16))


class _UnsettledError(VirtualLogError):
    """The range to be searched is not there any more."""


async def _offer(flight: InFlightBatch, segment: Segment, loglet: Loglet, opens: bool) -> range:
    expected = pending_appends_of(flight)[0].expected_tail
    if expected is None:
        return await loglet.append(flight.batch, opens=opens)
    if expected < segment.start:
        raise TailMismatchError(expected, segment.start)
    try:
        return await loglet.append(flight.batch, opens=opens, expected_tail=segment.offset(expected))
    except TailMismatchError as error:
        raise TailMismatchError(expected, segment.position(LogletOffset(error.found))) from error
