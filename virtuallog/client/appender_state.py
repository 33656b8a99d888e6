"""State of one appender, shared by its parts, and the two ways in which a batch ends: acknowledged or abandoned."""

from __future__ import annotations

import attrs
import trio

from virtuallog.client.append_queue import AppendQueue, PendingAppend, finish_all, pending_appends_of
from virtuallog.client.appender_settings import AppenderSettings
from virtuallog.client.metrics import AppendMetrics
from virtuallog.contract.batch import SessionId
from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import LogPosition
from virtuallog.exactly_once.append_session import AppendSession, InFlightBatch
from virtuallog.reconfiguration.chain_cache import ChainCache


@attrs.define(eq=False)
class AppenderState:
    """Queue, session and segment of an appender.

    `Appender` fills the queue and cuts batches, `BatchSender` sends them, `Settlement` finds out
    what a sealed segment holds of them. They know each other only through this object.
    """

    view: ChainCache
    settings: AppenderSettings
    meter: AppendMetrics
    """Metrics; may be shared with other appenders of the client."""
    clock: Clock = attrs.field(init=False)
    queue: AppendQueue = attrs.field(init=False)
    session: AppendSession = attrs.field(init=False)
    only_session: SessionId | None = attrs.field(init=False)
    """The session for good; None if the appender may go on as another one."""
    ended_by: VirtualLogError | None = attrs.field(default=None, init=False)
    """The error that ended the only session; None if it goes on."""
    segment: Segment | None = attrs.field(default=None, init=False)
    """The segment that the session appends to; None if it has to enter one."""
    floor: LogPosition = attrs.field(default=LogPosition(0), init=False)
    """Position below which there can be no batch of the session that is not acknowledged."""
    lost_at: float | None = attrs.field(default=None, init=False)
    """Time at which the last segment took no more; None once its successor has acknowledged something."""
    asked_for_successor: bool = attrs.field(default=False, init=False)
    """True if the loglet itself asked for a successor, False if another client has sealed it."""
    progress_at: float = attrs.field(init=False)
    """Time of the last acknowledgement, or of the first append offered since."""
    has_told: bool = attrs.field(default=False, init=False)
    """True if callers have just got their outcome, and may append again."""
    work: trio.Event = attrs.field(factory=trio.Event, init=False)
    """Set if the appender's task has something to do."""

    def __attrs_post_init__(self) -> None:
        settings, self.clock = self.settings, self.view.environment.clock
        self.queue = AppendQueue(settings.queue_bytes_max)
        self.session = AppendSession(self._new_session_id(), settings.window)
        self.only_session = self.session.id if settings.one_session else None
        self.progress_at = self.clock.monotonic()

    def go_on(self) -> None:
        """Wake the appender's task if anything is queued or in flight."""
        if self.queue.offers or self.session.flights or self.session.lost:
            self.has_told = True
            self.work.set()

    def is_overdue(self) -> bool:
        """True if nothing was acknowledged for `AppenderSettings.give_up` seconds."""
        return self.clock.monotonic() - self.progress_at > self.settings.give_up

    # -- acknowledged -------------------------------------------------------------------------------------------

    def acknowledge(self, flight: InFlightBatch, segment: Segment, places: range) -> None:
        """Record that the loglet of `segment` has placed the batch at these offsets; ends its appends."""
        if flight.batch.session != self.session.id:
            return  # abandoned meanwhile
        if self.lost_at is not None:
            self.meter.interruption_seconds.observe(self.clock.monotonic() - self.lost_at)
            self.lost_at = None
        if self.session.flights[0] is flight:
            self.floor = segment.position(places[-1] + 1)
        self.session.acknowledged(flight)
        self.deliver(flight, places, segment.shift)

    def deliver(self, flight: InFlightBatch, places: range, shift: int) -> None:
        """End the appends of a batch that is in the log, at `places` shifted by `shift`."""
        self.progress_at = now = self.clock.monotonic()
        self.meter.acknowledged(flight.batch.count, len(flight.batch.blob), now - flight.since)
        self.view.saw_tail(places[-1] + 1 + shift)
        finish_all(pending_appends_of(flight), range(places.start + shift, places.stop + shift, places.step))

    # -- abandoned ----------------------------------------------------------------------------------------------

    def abandon(self, failed: InFlightBatch, error: VirtualLogError) -> None:
        """Fail the oldest batch in flight with `error`, and all later ones: they cannot be placed any more.

        The session ends: its next batch would wait for ever for the one that failed.
        """
        others = UnavailableError(f"unknown outcome: an earlier entry failed: {error}")
        self.segment = None
        abandoned = self.session.abandon(self._new_session_id())
        waiting = self._end(error)
        for flight in abandoned:
            self._fail(pending_appends_of(flight), error if flight is failed else others)
        self._fail(waiting, others)

    def abandon_all(self, error: VirtualLogError) -> None:
        """Fail everything in flight and in the queue with `error`; the session ends."""
        abandoned = [
            offer for flight in self.session.abandon(self._new_session_id()) for offer in pending_appends_of(flight)
        ]
        abandoned += self.queue.clear()
        self.segment = None
        self._end(error)
        self._fail(abandoned, error)  # last: callers may post again at once, to the new session

    def _end(self, error: VirtualLogError) -> list[PendingAppend]:
        """End the appender if it may have one session only; returns what was left in the queue then."""
        if self.only_session is None:
            return []
        self.ended_by = self.ended_by or error
        return self.queue.clear()

    def _fail(self, offers: list[PendingAppend], error: VirtualLogError) -> None:
        for offer in offers:
            self.meter.failed_entries.value += len(offer.payloads)
            offer.fail(error)

    def _new_session_id(self) -> SessionId:
        return SessionId(self.view.environment.random.randbytes(16))
