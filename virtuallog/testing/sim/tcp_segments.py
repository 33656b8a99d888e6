"""The two halves of one direction of a simulated TCP connection: bytes arrive in order, each once,
or not at all.

`Outgoing` keeps written bytes until the other side is known to have them, and sends them again
while it has not. `Incoming` puts segments into order and forgets copies. So a lost, doubled or
overtaken segment costs time and no byte, and a blocked link stalls the connection. Segments are cut
independently of how the bytes were written.

Simpler than TCP: an acknowledgement takes no time (but needs the way back to be open), and there is
no congestion.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import attrs
from trio.lowlevel import ParkingLot

from virtuallog.testing.sim.timeline import Timeline, Timer

SEGMENT_BYTES_MAX: Final = 64 << 10
"""Largest segment, as network cards hand over at a time. A larger frame always travels in several."""
RETRY_SECONDS_MIN: Final = 0.2
RETRY_SECONDS_MAX: Final = 3.0
"""Longest pause before a retransmission. Linux starts with this and goes on to two minutes;
simulated partitions last some seconds."""
GAP_SECONDS: Final = 0.002
"""Mean time between two parts of a cut segment."""


@attrs.frozen(kw_only=True)
class StreamQuality:
    """Behaviour of a connection without special faults."""

    cut: float = 0.0
    """Probability that a segment is cut somewhere, with the rest a little later; and that a read
    returns only a part."""
    read_bytes_max: int = 1 << 20
    """Most bytes that one read returns. With 1 everything is cut at every byte."""
    buffer_bytes: int = 256 << 10
    """Bytes written and not read yet; beyond that a writer waits."""
    patience_seconds: float = 900.0
    """Time without acknowledgement until an end gives up. Linux: about a quarter of an hour."""


@attrs.frozen(eq=False)
class TcpSegment:
    """Consecutive bytes of one direction; `is_last` says that none will follow."""

    offset: int
    content: bytes
    is_last: bool = False


@attrs.define(eq=False)
class _Flight:
    segment: TcpSegment
    since: float


@attrs.define(eq=False)
class Outgoing:
    """The sending half. `carry` may bring a segment to the other side; `give_up` is called when the
    patience ends."""

    _timeline: Timeline
    _random: random.Random
    _quality: StreamQuality
    _carry: Callable[[TcpSegment], None]
    _give_up: Callable[[], None]
    _count: Callable[[str], None]
    room: ParkingLot = attrs.field(factory=ParkingLot, init=False)
    """Tasks that wait until `offer` may take more."""
    _waiting: bytearray = attrs.field(factory=bytearray, init=False)
    _flying: dict[int, _Flight] = attrs.field(factory=dict, init=False)
    """Segments in flight by offset, the oldest first."""
    _sent: int = attrs.field(default=0, init=False)
    _unread: int = attrs.field(default=0, init=False)
    """Bytes that were written here and not read at the other side."""
    _finishing: bool = attrs.field(default=False, init=False)
    _pause: Timer | None = attrs.field(default=None, init=False)
    """Pause between two parts of a cut segment; None if there is none."""
    _retry: Timer | None = attrs.field(default=None, init=False)
    _retry_seconds: float = attrs.field(default=RETRY_SECONDS_MIN, init=False)

    @property
    def room_bytes(self) -> int:
        return self._quality.buffer_bytes - self._unread

    def offer(self, content: memoryview) -> int:
        """Take as many bytes as there is room for; return their number."""
        taken = content[: max(0, self.room_bytes)]
        self._waiting += taken
        self._unread += len(taken)
        self._push()
        return len(taken)

    def finish(self) -> None:
        """Send the end behind the last byte: nothing will be offered any more."""
        self._finishing = True
        self._push()

    def stop(self) -> None:
        """Forget everything."""
        self._waiting.clear()
        self._flying.clear()
        self._finishing = False
        for timer in (self._pause, self._retry):
            if timer is not None:
                timer.cancel()

    def was_read(self, count: int) -> None:
        """Record that the other side has read so many bytes more."""
        self._unread -= count
        self.room.unpark_all()

    def acknowledge(self, segment: TcpSegment) -> None:
        """Record that the other side has the segment."""
        self._flying.pop(segment.offset, None)
        if not self._flying and self._retry is not None:
            self._retry.cancel()
            self._retry, self._retry_seconds = None, RETRY_SECONDS_MIN

    def _push(self) -> None:
        """Send waiting bytes, up to a random cut."""
        while self._waiting and self._pause is None:
            size = whole = min(len(self._waiting), SEGMENT_BYTES_MAX)
            if whole > 1 and self._random.random() < self._quality.cut:
                size = self._random.randrange(1, whole)
                self._count("cut")
                pause = self._random.expovariate(1.0 / GAP_SECONDS)
                self._pause = self._timeline.schedule(pause, self._go_on)
            content = bytes(self._waiting[:size])
            del self._waiting[:size]
            self._launch(TcpSegment(self._sent, content))
            self._sent += size
        if self._finishing and not self._waiting:
            self._finishing = False
            self._launch(TcpSegment(self._sent, b"", is_last=True))

    def _go_on(self) -> None:
        self._pause = None
        self._push()

    def _launch(self, segment: TcpSegment) -> None:
        self._flying[segment.offset] = _Flight(segment, self._timeline.now())
        if self._retry is None:
            self._retry = self._timeline.schedule(self._retry_seconds, self._look)
        self._carry(segment)

    def _look(self) -> None:
        """Send segments again that have been on their way for too long."""
        now, oldest = self._timeline.now(), next(iter(self._flying.values()))
        age = now - oldest.since
        if age >= self._quality.patience_seconds:
            self._retry = None
            self._give_up()
            return
        if age >= RETRY_SECONDS_MIN:
            self._retry_seconds = min(2 * self._retry_seconds, RETRY_SECONDS_MAX)
            self._count("sent again")
            for flight in list(self._flying.values()):
                self._carry(flight.segment)
        self._retry = self._timeline.schedule(self._retry_seconds, self._look)


@attrs.define(eq=False)
class Incoming:
    """The receiving half."""

    _random: random.Random
    _quality: StreamQuality
    has_ended: bool = attrs.field(default=False, init=False)
    """True once the other side has finished, and all its bytes have come."""
    arrived: ParkingLot = attrs.field(factory=ParkingLot, init=False)
    """Tasks that wait until there may be something to read."""
    _expected: int = attrs.field(default=0, init=False)
    _early: dict[int, TcpSegment] = attrs.field(factory=dict, init=False)
    """Segments behind a gap, by offset."""
    _ready: bytearray = attrs.field(factory=bytearray, init=False)

    @property
    def ready_bytes(self) -> int:
        """Number of bytes that came and were not read."""
        return len(self._ready)

    def take_in(self, segment: TcpSegment) -> None:
        """Take a segment, perhaps out of order, perhaps not for the first time."""
        if segment.offset >= self._expected and not self.has_ended:
            self._early[segment.offset] = segment
        while (next_one := self._early.pop(self._expected, None)) is not None:
            self._ready += next_one.content
            self._expected += len(next_one.content)
            if next_one.is_last:
                self.has_ended = True
                break
        self.arrived.unpark_all()

    def read(self, bytes_max: int | None) -> bytes:
        """Return received bytes, at most so many."""
        size = min(len(self._ready), self._quality.read_bytes_max, bytes_max or SEGMENT_BYTES_MAX)
        if size > 1 and self._random.random() < self._quality.cut:
            size = self._random.randrange(1, size)
        chunk = bytes(self._ready[:size])
        del self._ready[:size]
        return chunk
