"""Discrete-event model of a striped loglet over disjoint servers, for more machines than are
available here. It runs no line of the product.

Appends go round in a closed loop: each client keeps so many outstanding, and sends the next one when one is acknowledged.

    client --hop--> sequencer of a stripe --hop--> 3 LogServers, each: processor, then device --hop--> acknowledged --hop--> client

Processors serve one append after the other, first come first served. A device writes all that has
come since its last write, one write at a time. An append is stored when the second of three servers
has it and all before it in its stripe are; it is acknowledged when all lower logical positions are
stored (Delos, OSDI'20, section 4.2.2). Clients spread their appends over the stripes in turn.

The model leaves out, always in favour of many stripes: a client learns the progress of other
stripes for free; no fillers, as no stripe is idle; no network but its delay; no skew, no failure,
no other work on any machine. It is an upper bound for what the same service times could give, and
says nothing about latencies.
"""

from __future__ import annotations

import random
from heapq import heappop, heappush
from typing import Final

import attrs

SECOND_US: Final = 1e6


@attrs.frozen(kw_only=True)
class Assumptions:
    """Times in microseconds; each is drawn anew for every append, evenly between half and one and a half times its mean, but those
    of hops and devices.

    Two of them are set so that the model meets the published curve at its ends: `sequencer_us` at 1 stripe (35,000/s), `client_us` at 40
    (1.02 million/s). What lies between is what the model says.
    """

    clients: int = 20
    client_us: float = 19.6
    """Time of a client's processor for one append, there and back."""
    sequencer_us: float = 28.5
    server_us: float = 15.0
    """Time of a LogServer's processor."""
    device_iops: float = 30_000.0
    """Writes a second of one LogServer's share of a device."""
    servers: int = 3
    hop_us: float = 50.0
    outstanding: int = 256
    """Appends for each stripe, over all clients."""


@attrs.frozen(kw_only=True)
class Point:
    """Result for a number of stripes."""

    stripes: int
    appends_per_s: float


@attrs.define
class _Processor:
    """Serves in the order of arrival, which callers must keep."""

    free: float = 0.0

    def serve(self, now: float, service: float) -> float:
        self.free = max(self.free, now) + service
        return self.free


@attrs.define
class _Device:
    """Writes all that waits at once."""

    write_us: float
    end: float = 0.0
    """End of the write under way, or of the last one."""
    is_awaited: bool = False
    """True if an append waits for the write behind it."""

    def write(self, now: float) -> float:
        """Time at which a write is done; arrivals must come in the order of time."""
        while self.end <= now and self.is_awaited:
            self.end, self.is_awaited = self.end + self.write_us, False
        if self.end <= now:
            self.end = now + self.write_us
            return self.end
        self.is_awaited = True
        return self.end + self.write_us


@attrs.define
class _Stripe:
    sequencer: _Processor
    servers: list[tuple[_Processor, _Device]]
    next_local: int = 0
    stored: float = 0.0
    """Time at which the last of all ordered appends is stored."""

    def order(self, now: float, assumed: Assumptions, source: random.Random) -> tuple[int, float]:
        """The local position of an append, and when it is stored."""
        local, self.next_local = self.next_local, self.next_local + 1
        ordered = self.sequencer.serve(now, _draw(assumed.sequencer_us, source)) + assumed.hop_us
        copies = sorted(
            device.write(processor.serve(ordered, _draw(assumed.server_us, source)))
            for processor, device in self.servers
        )
        self.stored = max(self.stored, copies[assumed.servers // 2])
        return local, self.stored + assumed.hop_us


@attrs.define
class _Log:
    """Stored positions, and the appends that wait for lower ones."""

    filled: int = 0
    """All logical positions below are stored."""
    waiting: dict[int, int] = attrs.field(factory=dict)
    """Logical position -> append, of those stored at or above `filled`."""

    def store(self, position: int, append: int) -> list[int]:
        """The appends that this acknowledges."""
        self.waiting[position] = append
        acknowledged = []
        while self.filled in self.waiting:
            acknowledged.append(self.waiting.pop(self.filled))
            self.filled += 1
        return acknowledged


_ORDER, _STORE, _TELL = range(3)


@attrs.define
class Model:
    """`run` it once."""

    stripes: int
    assumed: Assumptions
    source: random.Random
    _events: list[tuple[float, int, int, int, int]] = attrs.field(factory=list, init=False)
    """Time, a number that makes them differ, what, append, and its logical position."""
    _made: int = attrs.field(default=0, init=False)
    _clients: list[_Processor] = attrs.field(init=False)
    _turns: list[int] = attrs.field(init=False)
    """Last stripe of each client, counted up; clients begin at different ones."""
    _lanes: list[_Stripe] = attrs.field(init=False)
    _log: _Log = attrs.field(factory=_Log, init=False)

    def __attrs_post_init__(self) -> None:
        self._clients = [_Processor() for _ in range(self.assumed.clients)]
        self._turns = list(range(self.assumed.clients))
        self._lanes = [self._stripe() for _ in range(self.stripes)]

    def run(self, rounds: int = 12) -> Point:
        """Each append goes round about so often; the first third does not count."""
        total, told, counted_from, began = self.assumed.outstanding * self.stripes, 0, 0, 0.0
        for append in range(total):
            self._at(0.0, _TELL, append)
        while told < rounds * total:
            now, _, what, append, place = heappop(self._events)
            if what == _TELL:
                told += 1
                self._send(now, append)
            elif what == _ORDER:
                local, stored = self._lanes[place].order(now, self.assumed, self.source)
                self._at(stored, _STORE, append, local * self.stripes + place)
            else:
                for acknowledged in self._log.store(place, append):
                    self._at(now + self.assumed.hop_us, _TELL, acknowledged)
            if 3 * told <= rounds * total:
                began, counted_from = now, told
        return Point(stripes=self.stripes, appends_per_s=(told - counted_from) / (now - began) * SECOND_US)

    def _send(self, now: float, append: int) -> None:
        """Send the next append of an acknowledged client, to the stripe whose turn it is."""
        client = append % self.assumed.clients
        self._turns[client] += 1
        ready = self._clients[client].serve(now, _draw(self.assumed.client_us, self.source))
        self._at(ready + self.assumed.hop_us, _ORDER, append, self._turns[client] % self.stripes)

    def _stripe(self) -> _Stripe:
        device_us = SECOND_US / self.assumed.device_iops
        return _Stripe(_Processor(), [(_Processor(), _Device(device_us)) for _ in range(self.assumed.servers)])

    def _at(self, time: float, what: int, append: int, place: int = 0) -> None:
        self._made += 1
        heappush(self._events, (time, self._made, what, append, place))


def _draw(mean: float, source: random.Random) -> float:
    return mean * (0.5 + source.random())
