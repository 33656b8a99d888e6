"""The appender's side of exactly once: which batches of a session may be sent now, and which are in doubt.

The log by itself is at least once: an append that failed may still be in it. A session turns that into exactly once,
in order, for as long as its appender lives (docs/internals/protocols/virtual_log.md):

* to a loglet it has not used before, a session sends one batch (`opens`) and nothing else until that one is settled;
* then up to `window` batches are in flight; the loglet places them in the order of their sequence numbers;
* on an unknown outcome the same batch is sent again to the same loglet, which remembers its place;
* once the loglet is sealed, nothing is sent until the sealed range has been searched: a batch found there is
  acknowledged at its place, the others are sent to the successor, oldest first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, Final

import attrs

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.types import PlacedBatch

IN_FLIGHT_RATIO_MAX: Final = 8
"""Multiple of its own size that may be in flight when a batch is made.

A larger one lets tiny batches pass, a smaller one makes entries wait.
"""


@attrs.define(eq=False)
class InFlightBatch:
    """A batch that is not settled yet."""

    batch: Batch
    tag: Any
    """Set by the driver: the pending appends of the batch."""
    sent: bool = False
    """True while an attempt at the present loglet has not ended."""
    in_doubt: bool = False
    """True if its outcome is unknown: an earlier attempt may have placed it, or may do so yet."""
    since: float = 0.0
    """Set by the driver: time at which the first of its entries was offered."""


@attrs.define
class AppendSession:
    """Batches of one session, oldest first."""

    id: SessionId
    window: int
    """Limit of batches in flight: enough to keep every hop busy; bounded, as each is held until settled."""
    next_sequence: int = 0
    """Sequence number of the first entry of the next batch."""
    flights: deque[InFlightBatch] = attrs.field(factory=deque)
    """Batches in flight, oldest first."""
    opened: bool = False
    """True once the present loglet has settled a batch of this session."""
    lost: bool = False
    """True if the present loglet takes no more appends: wait for the sends to end, then settle."""

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
        """True if one more batch could be sent soon; if not, entries had better wait and share a later batch."""
        return not self.lost and len(self.flights) < (self.window if self.opened else 1)

    def is_worth_a_batch(self, size: int) -> bool:
        """True if `size` bytes should be sent now as a batch.

        A batch costs as much as some sixty entries in it. So few entries do not go on their own while many
        are in flight: once those are back, and their callers append again, all go together. Without this,
        a crowd that was split once stays split, at twice the price.
        """
        return size * IN_FLIGHT_RATIO_MAX >= sum(len(flight.batch.blob) for flight in self.flights)

    def sendable(self) -> list[InFlightBatch]:
        """Batches to send now, in this order; marks each as sent."""
        if self.lost:
            return []
        first = [] if self.opened else list(self.flights)[:1]
        ready = [flight for flight in (self.flights if self.opened else first) if not flight.sent]
        for flight in ready:
            flight.sent = True
        return ready

    def acknowledged(self, flight: InFlightBatch) -> None:
        """Remove a batch that the loglet has placed."""
        flight.sent = False
        self.opened = True
        self.flights.remove(flight)

    def lose_loglet(self) -> None:
        """Send nothing more to the loglet, as it is sealed or needs a successor."""
        self.lost = True

    @property
    def needs_settling(self) -> bool:
        """True if all sends to the lost loglet have ended.

        Then search its sealed range, if any batch is in doubt, and `settle`.
        """
        return self.lost and not any(flight.sent for flight in self.flights)

    @property
    def has_unknown_outcomes(self) -> bool:
        """True if a batch in flight is in doubt."""
        return any(flight.in_doubt for flight in self.flights)

    def settle(self, found: Iterable[PlacedBatch]) -> list[tuple[InFlightBatch, PlacedBatch]]:
        """Leave the lost loglet, given the batches in its sealed range; returns those in flight, with their places.

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
            flight.in_doubt = False
        self.opened = self.lost = False
        return settled

    def abandon(self, successor: SessionId) -> list[InFlightBatch]:
        """Give up all batches in flight, for good, and go on as a new session; returns them.

        None of them can get between the batches of the new session.
        """
        flights = list(self.flights)
        self.flights.clear()
        self.id, self.next_sequence = successor, 0
        self.opened = self.lost = False
        return flights
