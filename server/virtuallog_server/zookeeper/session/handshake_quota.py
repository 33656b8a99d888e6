"""Quota of handshakes that cost an entry of the log before the client has proved anything, for each address.

An address may make `BURST` of them at once, and one more each `1 / PER_SECOND` seconds. One that proves right is given back, so
that clients behind one address that resume their sessions are never held up for long.
"""

from __future__ import annotations

from typing import Final

import attrs

BURST: Final = 64
"""Attempts that an address may make at once."""
PER_SECOND: Final = 4.0
"""Attempts per second that an address regains, up to `BURST`."""
ADDRESSES_MAX: Final = 4096
"""Addresses that are remembered. For one more, the one with the oldest count is forgotten: it has been refilled most."""


@attrs.define(eq=False)
class HandshakeQuota:
    """The counts of one server. Times are seconds of a monotonic clock."""

    _left: dict[str, tuple[float, float]] = attrs.field(factory=dict, init=False)
    """Address -> attempts left, and the time of that number. In order of the last count."""

    def take(self, address: str, now: float) -> bool:
        """Count one attempt. False if none is left."""
        left = self._refilled(address, now)
        if left < 1:
            return False
        self._keep(address, left - 1, now)
        return True

    def give_back(self, address: str, now: float) -> None:
        """Give back an attempt that has proved right."""
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
