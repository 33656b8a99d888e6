"""Pace of connections of one address: so many at once, then so many per second. Pure.

A connection that comes early waits for its turn, and one whose turn is far off is refused: a port scanner costs what its pace allows,
however many connections it opens. An address that is let alone for a while has all of its turns again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

ADDRESSES_MAX: Final = 1024
"""Addresses with a pace of their own. All others share one, while there are so many."""


@attrs.define(eq=False, kw_only=True)
class ConnectionPace:
    """The paces of all addresses that have come lately."""

    per_second: float
    burst: int
    """Connections that may come at once."""
    wait_seconds: float
    """Longest wait for a turn."""
    unpaced: Callable[[str], bool] = lambda address: False
    """True for an address, such as that of a proxy, that may come at any pace."""
    _free: dict[str, float] = attrs.field(factory=dict, init=False)
    """Time by which all turns that an address has taken are over."""

    def take(self, address: str, now: float) -> float | None:
        """Take the next turn. Returns seconds until it; None if it is too far off, and is not taken.

        Args:
            address: address of the other side, without a port.
            now: current time, in seconds of any monotonic clock.
        """
        if self.unpaced(address):
            return 0.0
        if address not in self._free and len(self._free) >= ADDRESSES_MAX:
            self._free = {each: free for each, free in self._free.items() if free > now}
            if len(self._free) >= ADDRESSES_MAX:
                address = ""
        free = max(self._free.get(address, now), now)
        wait = max(0.0, free - now - (self.burst - 1) / self.per_second)
        if wait > self.wait_seconds:
            return None
        self._free[address] = free + 1 / self.per_second
        return wait

    def give_back(self, address: str) -> None:
        """Give the turn of a connection back that was of use: so only those of no use count."""
        if address in self._free:
            self._free[address] -= 1 / self.per_second
