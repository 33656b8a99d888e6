"""Handshakes that cost an entry of the log before anything is proved, counted for each address.                       Pure.

An address may make `BURST` of them at once, and one more each `1 / PER_SECOND` seconds. One that proves to be right is given back, so that
clients behind one address that come back to their sessions are never held up for long.
"""

from __future__ import annotations

from typing import Final

import attrs

BURST: Final = 64
PER_SECOND: Final = 4.0
ADDRESSES_MAX: Final = 4096
"""Addresses that are remembered. One more: the one that has been counted for longest is forgotten, which has been refilled most."""


@attrs.define(eq=False)
class HandshakeQuota:
    """The counts of one server. Times are seconds of a monotonic clock."""

    _left: dict[str, tuple[float, float]] = attrs.field(factory=dict, init=False)
    """By address: attempts left, as of when. In order of the last count."""

    def take(self, address: str, now: float) -> bool:
        """Count one attempt; False: there is none left."""
        left = self._refilled(address, now)
        if left < 1:
            return False
        self._keep(address, left - 1, now)
        return True

    def give_back(self, address: str, now: float) -> None:
        """One that was counted has proved to be right."""
        self._keep(address, self._refilled(address, now) + 1, now)

    def _refilled(self, address: str, now: float) -> float:
        left, since = self._left.get(address, (float(BURST), now))
        return min(left + (now - since) * PER_SECOND, BURST)

    def _keep(self, address: str, left: float, now: float) -> None:
        self._left.pop(address, None)
        if left < BURST:
            self._left[address] = (left, now)
        if len(self._left) > ADDRESSES_MAX:
            del self._left[next(iter(self._left))]
