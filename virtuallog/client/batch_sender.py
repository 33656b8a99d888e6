"""Sends the batches of a session to the loglet of its segment, and tries again until they are placed.

The first attempt of a batch is a posted append, which costs no task, if the loglet offers that
(`SupportsPost`). A task takes over if it fails. A batch in doubt stays in flight: `Settlement` decides.
"""

from __future__ import annotations

from typing import Final

import attrs
import trio

from virtuallog.client.append_queue import pending_appends_of
from virtuallog.client.appender_state import AppenderState
from virtuallog.contract.chain import Segment
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import (
    DiskFullError,
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
from virtuallog.contract.types import LogletOffset
from virtuallog.exactly_once.append_session import InFlightBatch

WATCH_SECONDS: Final = 0.4
"""Time without any acknowledgement after which the chain is looked at.

A node that stands still answers nothing. Its successor may have been decided long before a call to it times out.
"""

LATE_SHARE: Final = 0.125
"""Longest pause before the next look at the chain, as a share of the time waited so far.

A successor that was found after a third of a second is noticed within the next twentieth of one.
"""
LOOKS_FREE: Final = 8
"""Multiple of `AppenderSettings.retry_min` up to which pauses may double in any case."""

_PLACED = CrashPoint("appender: a batch is in the log, its callers have not been told")


@attrs.define(eq=False)
class BatchSender:
    """Attempts of one appender to place its batches."""

    _state: AppenderState
    _loglet: Loglet | None = attrs.field(default=None, init=False)
    """Client of the loglet of the segment; None before the first segment.

    It knows how the batches of the session are numbered. So it is kept for as long as the session is
    in the segment, even if the segment has left the chain and the view has dropped its loglet.
    """
    _poster: SupportsPost | None = attrs.field(default=None, init=False)
    """The same loglet; None if it takes no posted appends."""
    _posted: dict[InFlightBatch, object] = attrs.field(factory=dict, init=False)
    """Batches posted without an outcome so far, each with a token of its attempt."""
    _tasks: int = attrs.field(default=0, init=False)
    """Number of send tasks."""
    _scopes: list[trio.CancelScope] = attrs.field(factory=list, init=False)
    """Cancel scopes of the running send tasks."""
    _is_watching: bool = attrs.field(default=False, init=False)
    """True while the task of `_watch` runs."""

    @property
    def has_tasks(self) -> bool:
        """True if a batch is being sent by a task."""
        return self._tasks > 0

    async def enter_segment(self) -> None:
        """Let the session append to the active segment.

        Raises:
            SealedError: the log has been closed on purpose.
        """
        state = self._state
        chain = (await state.view.current()).chain
        if chain.active is None:
            chain = (await state.view.refresh()).chain
        if chain.active is None:
            raise SealedError("the log has been closed")
        state.segment, self._loglet = chain.active, state.view.loglet(chain.active)
        self._poster = self._loglet if isinstance(self._loglet, SupportsPost) else None
        state.asked_for_successor = False
        # The session has nothing in this segment yet, and can get nothing below a tail seen before it sends.
        state.floor = max(chain.active.start, state.view.known_tail)

    def start(self, nursery: trio.Nursery, flight: InFlightBatch, segment: Segment) -> None:
        """Begin to send a batch. Batches of a session reach the loglet in the order of these calls."""
        # A task offers its batch in a later turn of the scheduler, so nothing may be posted past one.
        if self._poster is not None and not self._tasks and pending_appends_of(flight)[0].expected_tail is None:
            self._post(self._poster, nursery, flight, segment)
        else:
            self._start_task(nursery, flight, segment)
        if not self._is_watching:
            self._is_watching = True
            nursery.start_soon(self._watch)

    def forget_posted(self) -> None:
        """Ignore outcomes of posted batches that come from now on."""
        self._posted.clear()

    def _post(self, loglet: SupportsPost, nursery: trio.Nursery, flight: InFlightBatch, segment: Segment) -> None:
        """Make the first attempt without a task; a task takes over if it fails."""
        attempt = self._posted[flight] = object()
        # If the loglet is lost meanwhile, the batch is in doubt like any other, and settled by the search.
        was_in_doubt, flight.in_doubt = flight.in_doubt, True

        def done(outcome: range | VirtualLogError) -> None:
            if self._posted.get(flight) is not attempt:
                return
            del self._posted[flight]
            if isinstance(outcome, VirtualLogError):
                flight.in_doubt = was_in_doubt
                self._start_task(nursery, flight, segment, outcome)
            else:
                _PLACED.reached()
                self._state.acknowledge(flight, segment, outcome)
                self._state.go_on()

        loglet.post_append(flight.batch, opens=not self._state.session.opened, done=done)

    def _start_task(
        self, nursery: trio.Nursery, flight: InFlightBatch, segment: Segment, error: VirtualLogError | None = None
    ) -> None:
        assert self._loglet is not None
        self._tasks += 1
        nursery.start_soon(self._send, flight, segment, self._loglet, error)

    async def _send(
        self, flight: InFlightBatch, segment: Segment, loglet: Loglet, error: VirtualLogError | None
    ) -> None:
        """Offer one batch until the loglet has placed it or takes no more.

        Cancelled when the loglet is lost: the batch is then in doubt like any other, and settled by the search.

        Args:
            flight: the batch.
            segment: the segment that the session is in.
            loglet: the client of its loglet.
            error: outcome of the first attempt; None if none has been made.
        """
        with trio.CancelScope() as scope:
            self._scopes.append(scope)
            try:
                await self._offer_until_placed(flight, segment, loglet, error)
            finally:
                self._scopes.remove(scope)
                self._tasks -= 1
                flight.sent = False
        self._state.go_on()

    async def _offer_until_placed(
        self, flight: InFlightBatch, segment: Segment, loglet: Loglet, failed: VirtualLogError | None
    ) -> None:
        state = self._state
        opens, pause, began = not state.session.opened, state.settings.retry_min, state.clock.monotonic()
        while flight.batch.session == state.session.id:
            # Also if the attempt is cancelled, or refused for the moment: a second copy of the call may yet be taken.
            was_in_doubt, flight.in_doubt, longest = flight.in_doubt, True, state.settings.retry_max
            try:
                if failed is not None:
                    raise failed
                places = await _offer(flight, segment, loglet, opens)
            except (OutOfOrderError, OverloadedError, DiskFullError) as error:
                state.meter.again.add(type(error).__name__)
                if not isinstance(error, OutOfOrderError):  # that one only waits for a predecessor on its way
                    await self._look_for_successor(segment, error)
            except (SealedError, ReconfigurationNeededError) as error:
                flight.in_doubt = was_in_doubt or not (isinstance(error, SealedError) and error.refused)
                state.asked_for_successor |= isinstance(error, ReconfigurationNeededError)
                self._lose(segment)
            except RetryableError as error:
                longest = self._longest_pause(began)
                state.meter.again.add(type(error).__name__)
                await self._look_for_successor(segment, error)
            except TailMismatchError as error:  # definite: a batch that the loglet had placed would get its place again
                # A tail past the expected one stays past it. One that is still behind may come from a sequencer that
                # does not know that it is sealed: the log has gone on elsewhere, perhaps up to what is expected.
                if error.found > error.expected or await self._look(segment):
                    await self._abandon_in_turn(flight, error)
                elif state.is_overdue():
                    state.abandon_all(UnavailableError(f"unknown outcome: {error}, and the chain cannot be read"))
            except VirtualLogError as error:
                # This attempt did nothing; an earlier one whose answer was lost may have placed the batch.
                failure = UnavailableError(f"unknown outcome: {error}") if was_in_doubt else error
                await self._abandon_in_turn(flight, failure)
            else:
                _PLACED.reached()
                state.acknowledge(flight, segment, places)
                return
            failed = None
            await state.clock.sleep(pause)
            pause = min(2 * pause, longest)

    def _longest_pause(self, began: float) -> float:
        """Longest pause before the next look at the chain, for a batch whose outcome is unknown since `began`."""
        settings = self._state.settings
        waited = self._state.clock.monotonic() - began
        return min(settings.retry_max, max(settings.retry_min * LOOKS_FREE, waited * LATE_SHARE))

    async def _abandon_in_turn(self, failed: InFlightBatch, error: VirtualLogError) -> None:
        """Abandon a batch once all older ones are settled: these have outcomes of their own.

        If this is cancelled, as the loglet is lost, the batch is offered to the successor like any other.
        """
        state = self._state
        while failed.batch.session == state.session.id:
            if state.session.flights[0] is failed:
                state.abandon(failed, error)
            else:
                await state.clock.sleep(state.settings.retry_min)

    # -- has the log moved on? ----------------------------------------------------------------------------------

    async def _look_for_successor(self, segment: Segment, error: RetryableError) -> None:
        """After an unknown outcome: stay with the loglet, unless the chain has a successor or it takes too long."""
        if self._state.is_overdue():
            self._state.abandon_all(UnavailableError(f"given up after {self._state.settings.give_up:g} s: {error}"))
            return
        await self._look(segment)

    async def _watch(self) -> None:
        """Look at the chain when nothing is acknowledged, while batches are in flight.

        One task at most every `WATCH_SECONDS`, however many appends there are.
        """
        state = self._state
        while state.session.flights:
            seen = state.progress_at
            await state.clock.sleep(WATCH_SECONDS)
            if state.progress_at == seen and state.session.flights and state.segment is not None:
                await self._look(state.segment)
        self._is_watching = False

    async def _look(self, segment: Segment) -> bool:
        """True if the log certainly still went on in this segment at the time of the call."""
        try:
            last = (await self._state.view.refresh()).chain.last
        except RetryableError:
            return False
        if last.id != segment.id or last.stop is not None:
            self._lose(segment)
            return False
        return True

    def _lose(self, segment: Segment) -> None:
        """Stop sending to the loglet of `segment`; the appender's task settles what is in flight."""
        state = self._state
        if state.segment is segment:
            state.session.lose_loglet()
            if state.lost_at is None:
                state.lost_at = state.clock.monotonic()
            for scope in self._scopes:
                scope.cancel()
            for flight in self._posted:
                flight.sent = False
            self._posted.clear()
            state.work.set()


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
