"""Appends of one session: concurrent calls share batches, and every entry is in the log at most once.

    append() ... append()       callers wait, one task each
         |          |
         v          v
       queue  --> batches --> BatchSender: loglet.post_append, or loglet.append in a task per batch
                    ^                                     |
                    |      sealed: Settlement searches the sealed range, the rest goes to the successor
                    '-------------------------------------'

`AppendSession` decides which batch may be sent when. This module cuts batches from the queue and runs
the loop; `AppenderState` is what the parts share. A cancelled caller leaves its entry in the queue or
in flight: no hole arises, and no other entry is lost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType

import trio

from virtuallog.client.address_space import AddressSpace
from virtuallog.client.append_queue import PendingAppend, PostedAppend, check_size
from virtuallog.client.appender_settings import AppenderSettings
from virtuallog.client.appender_state import AppenderState
from virtuallog.client.batch_sender import BatchSender
from virtuallog.client.metrics import AppendMetrics
from virtuallog.client.settlement import Settlement, UnsettledError
from virtuallog.contract.batch import SessionId
from virtuallog.contract.errors import RetryableError, UnavailableError, VirtualLogError
from virtuallog.contract.types import LogPosition
from virtuallog.runtime.end_of_turn import end_of_turn

__all__ = ["Appender", "AppenderSettings"]


class Appender:
    """A session of a VirtualLog; a context manager. Its entries are in the log in the order of its `append` calls."""

    def __init__(
        self,
        space: AddressSpace,
        settings: AppenderSettings,
        meter: AppendMetrics | None = None,
        on_close: Callable[[Appender], None] = lambda _: None,
    ) -> None:
        """Start the appender's task in the service nursery; `close` ends it.

        Args:
            space: the log.
            settings: batching and patience.
            meter: metrics, may be shared with other appenders; None: its own.
            on_close: called once by `close`.
        """
        self._settings = settings
        self._entry_bytes_max = settings.entry_bytes_max
        self._on_close = on_close
        self._state = state = AppenderState(space.view, settings, meter or AppendMetrics())
        self._queue = state.queue
        self._session = state.session
        self._sender = BatchSender(state)
        self._settlement = Settlement(state, space)
        self._waiting_since = 0.0
        """Time of the first append in the queue, or of the cut of the last batch."""
        self._was_alone = False
        """True if the last batch had one append."""
        self._end = end_of_turn()
        self._nursery: trio.Nursery | None = None
        """Nursery of the send tasks; None unless `_run` runs."""
        self._scope = trio.CancelScope()
        self._closed = False
        space.view.environment.nursery.start_soon(self._run)

    @property
    def session(self) -> SessionId:
        """Name of this appender's entries in the log.

        Changes after a failed append, unless the appender may have one session only.
        """
        return self._state.only_session or self._session.id

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait for a batch."""
        return self._queue.bytes

    @property
    def is_full(self) -> bool:
        """True if `append` waits for room in the queue, and if a caller of `post` should."""
        return self._queue.is_full

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
        self._sender.forget_posted()
        self._on_close(self)
        self._state.abandon_all(UnavailableError("the appender was closed: unknown outcome"))

    async def append(self, payloads: Sequence[bytes], expected_tail: LogPosition | None = None) -> range:
        """Append entries side by side; see `VirtualLog.append_many`."""
        if not payloads:
            return range(0)
        offer = self._pending(payloads, expected_tail)
        if self._queue.is_full:
            await self._queue.wait_room()
        self._put(offer)
        return offer.places(await offer.wait())

    def append_now(self, payload: bytes) -> Awaitable[int]:
        """Begin to append one entry; the calling task must await its position at once.

        The same as `append`, without a coroutine of its own: a tenth of what an append in a crowd costs its client.
        """
        offer = self._pending((payload,), None)
        if self._queue.gathers:  # a crowd: all but its first
            self._queue.put(offer)
        elif self._queue.is_full:
            return self._append_later(offer)
        else:
            self._put(offer)
        return offer.wait()

    async def _append_later(self, offer: PendingAppend) -> int:
        await self._queue.wait_room()
        self._put(offer)
        return await offer.wait()

    def _pending(self, payloads: Sequence[bytes], expected_tail: LogPosition | None) -> PendingAppend:
        return PendingAppend(payloads, check_size(payloads, self._entry_bytes_max), expected_tail)

    def post(self, payload: bytes, done: Callable[[range | VirtualLogError], None]) -> None:
        """Append one entry without waiting; see `post_many`."""
        self.post_many([payload], done)

    def post_many(self, payloads: Sequence[bytes], done: Callable[[range | VirtualLogError], None]) -> None:
        """Append entries side by side without waiting; costs no task.

        Does not wait for queue space: the caller must limit posts in flight.

        Args:
            payloads: the entries.
            done: called once, later, on the event loop, with the positions or with the error that
                `append` would raise. It must not raise; it may post again. Calls may come out of
                order for entries that are in the log: positions give the order.

        Raises:
            TooLargeError: over the limit; nothing was done, `done` is not called.
            UnavailableError: the appender is closed; the same.
        """
        self._put(PostedAppend(payloads, check_size(payloads, self._entry_bytes_max), None, done=done))

    def try_post(self, payloads: Sequence[bytes], done: Callable[[range | VirtualLogError], None]) -> bool:
        """`post_many`, unless the queue is full: then nothing is done, `done` is not called, and False is returned."""
        if self._queue.is_full:
            return False
        self.post_many(payloads, done)
        return True

    def _put(self, offer: PendingAppend) -> None:
        state, queue = self._state, self._queue
        if self._closed or state.ended_by is not None:
            raise UnavailableError(f"the session has ended, nothing was done: {state.ended_by or 'it was closed'}")
        if not queue.offers:
            self._begin_batch()
        queue.put(offer)
        if queue.gathers:
            return
        # An append that is alone, as the last one was, need not wait until the end of the turn for others to share its
        # batch. A crowd that appends in step must stay one batch, since split in two it costs twice as much.
        if self._was_alone and self._is_idle and self._nursery is not None and state.segment is not None:
            self._cut_batch()
            for flight in self._session.sendable():
                self._sender.start(self._nursery, flight, state.segment)
            self._end.flush()
        else:
            queue.gathers = not queue.is_full
            state.work.set()

    def _begin_batch(self) -> None:
        """Note that the queue is no longer empty."""
        state = self._state
        self._waiting_since = state.clock.monotonic()
        if not self._session.flights:
            state.progress_at = self._waiting_since
            # New entries are placed behind the known tail. A search below it would be in vain, and impossible once that
            # range has been trimmed.
            state.floor = max(state.floor, state.view.known_tail)

    # -- from the queue to the loglet ---------------------------------------------------------------------------

    @property
    def _is_idle(self) -> bool:
        """True if no batch is in flight, and none is settled after the loss of a loglet."""
        return not self._session.flights and not self._session.lost

    async def _run(self) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                try:
                    await self._work_on(nursery)
                finally:
                    self._nursery = None
                    self._sender.forget_posted()

    async def _work_on(self, nursery: trio.Nursery) -> None:
        state = self._state
        while True:
            await state.work.wait()
            state.work, self._queue.gathers = trio.Event(), False
            if state.has_told:
                # Callers run before the queue is cut: if they append again, that is to be one batch.
                state.has_told = False
                await trio.lowlevel.checkpoint()
            try:
                await self._work_once(nursery)
            except VirtualLogError as error:
                await self._back_off(error)

    async def _work_once(self, nursery: trio.Nursery) -> None:
        state, session = self._state, self._session
        if session.needs_settling:
            await self._settlement.run()
        while self._queue.offers and session.has_room and session.is_worth_a_batch(self._queue.bytes):
            self._cut_batch()
        if state.segment is None and session.flights:
            await self._sender.enter_segment()
        segment = state.segment
        for number, flight in enumerate(session.sendable()):
            if number and self._sender.has_tasks:
                # This flight's task must not start before the one before has offered its batch, but trio may start the
                # tasks of one scheduler turn in any order. What is cut later is sent in a later turn anyway.
                await trio.lowlevel.checkpoint()
            assert segment is not None
            self._sender.start(nursery, flight, segment)

    def _cut_batch(self) -> None:
        offers = self._queue.take_batch(self._settings.batch_bytes, self._settings.batch_entries)
        self._was_alone = len(offers) == 1
        flight = self._session.cut([payload for offer in offers for payload in offer.payloads], offers)
        flight.since, self._waiting_since = self._waiting_since, self._state.clock.monotonic()

    async def _back_off(self, error: VirtualLogError) -> None:
        """After an error that concerns all batches in flight: wait and try again, or abandon them."""
        state = self._state
        if isinstance(error, RetryableError) and not state.is_overdue():
            await state.clock.sleep(self._settings.retry_min * 10)
        elif isinstance(error, RetryableError | UnsettledError):
            state.abandon_all(UnavailableError(f"unknown outcome: {error}"))
        else:
            state.abandon_all(error)
        state.work.set()
