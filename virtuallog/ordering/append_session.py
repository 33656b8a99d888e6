"""The order of one appender's batches across loglets: what may be sent now, what is still a maybe.              Pure.

The log by itself is at least once: an append that failed may still be in it. A session turns that into exactly once,
in order, for as long as its appender lives (docs/internals/protocols/virtual_log.md):

* to a loglet it has not used before, a session sends one batch (`opens`) and nothing else until that one is settled;
* then up to `window` batches are in flight; the loglet places them in the order of their sequence numbers;
* on an unknown outcome the same batch is sent again to the same loglet, which remembers where it put it;
* once the loglet is sealed, nothing is sent until the sealed range has been searched: what is found there is
  acknowledged at its place, the rest is sent to the successor, oldest first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, Final

import attrs

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.types import PlacedBatch

IN_FLIGHT_RATIO_MAX: Final = 8
"""How many times its size may be in flight when a batch is made. More lets tiny batches pass, fewer makes entries wait."""


@attrs.define(eq=False)
class InFlightBatch:
    """A batch that is not settled yet."""

    batch: Batch
    tag: Any
    """The driver's own: whom to tell."""
    sent: bool = False
    """Offered to the present loglet, and its attempt there has not ended."""
    maybe: bool = False
    """An attempt has ended, or may yet end, in the log without our knowing."""
    since: float = 0.0
    """The driver's own: when the first of its entries was offered."""


@attrs.define
class AppendSession:
    """Batches of one session, oldest first."""

    id: SessionId
    window: int
    """How many batches may be in flight. Enough to keep every hop busy; bounded, as each is held until settled."""
    next_sequence: int = 0
    flights: deque[InFlightBatch] = attrs.field(factory=deque)
    opened: bool = False
    """The present loglet has settled a batch of this session."""
    lost: bool = False
    """The present loglet takes no more appends: wait for the sends to end, then settle."""

    def cut(self, payloads: list[bytes], tag: Any) -> InFlightBatch:
        """Make the next batch. It is sent when `sendable` says so.

        Raises:
            TooLargeError: over the limits of a batch; nothing was done.
        """
        batch = Batch.build(self.id, self.next_sequence, payloads)
        self.next_sequence = batch.stop_sequence
        flight = InFlightBatch(batch, tag)
        self.flights.append(flight)
        return flight

    @property
    def has_room(self) -> bool:
        """Whether one more batch could be on its way soon; if not, entries had better wait and share a later batch."""
        return not self.lost and len(self.flights) < (self.window if self.opened else 1)

    def is_worth_a_batch(self, size: int) -> bool:
        """Whether so many bytes should leave now. A batch costs as much as some sixty entries in it, so few do not go on
        their own while many are in flight: once those are back, and offer again, they all go together. Without this, a
        crowd that was split once stays split, at twice the price."""
        return size * IN_FLIGHT_RATIO_MAX >= sum(len(flight.batch.blob) for flight in self.flights)

    def sendable(self) -> list[InFlightBatch]:
        """The flights to send now, in this order; each is marked as sent."""
        if self.lost:
            return []
        first = [] if self.opened else list(self.flights)[:1]
        ready = [flight for flight in (self.flights if self.opened else first) if not flight.sent]
        for flight in ready:
            flight.sent = True
        return ready

    def acknowledged(self, flight: InFlightBatch) -> None:
        """The loglet placed this flight."""
        flight.sent = False
        self.opened = True
        self.flights.remove(flight)

    def lose_loglet(self) -> None:
        """The loglet is sealed, or as good as: send nothing more to it."""
        self.lost = True

    @property
    def needs_settling(self) -> bool:
        """Every send to the lost loglet has ended: now search its sealed range (if there are maybes), then `settle`."""
        return self.lost and not any(flight.sent for flight in self.flights)

    @property
    def has_unknown_outcomes(self) -> bool:
        return any(flight.maybe for flight in self.flights)

    def settle(self, found: Iterable[PlacedBatch]) -> list[tuple[InFlightBatch, PlacedBatch]]:
        """What the sealed range holds of this session; returns the flights that turn out to be appended.

        The others are sent again, oldest first, to the next loglet.
        """
        assert self.needs_settling
        places = {placed.batch.first_sequence: placed for placed in found if placed.batch.session == self.id}
        settled = []
        while self.flights and (placed := places.get(self.flights[0].batch.first_sequence)) is not None:
            settled.append((self.flights.popleft(), placed))
        # A later batch without an earlier one cannot be there: the loglet keeps the order of a session.
        assert not any(flight.batch.first_sequence in places for flight in self.flights)
        for flight in self.flights:
            flight.maybe = False
        self.opened = self.lost = False
        return settled

    def abandon(self, successor: SessionId) -> list[InFlightBatch]:
        """Give up all flights, for good, and go on as a new session: none of them can get between its batches."""
        flights = list(self.flights)
        self.flights.clear()
        self.id, self.next_sequence = successor, 0
        self.opened = self.lost = False
        return flights
