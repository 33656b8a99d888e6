"""Pacing of a replica that follows the proposals of others.

The replica waits at the log's servers until the tail moves, then reads and applies what is new: one
look. It costs the same however much it brings: calls to two servers, a read, a transaction. So
looks are rationed. While writes are some milliseconds apart, each is followed at once. In a stream
of them a look comes after a pause, and brings more.

Looks are saved up while no write comes, and spent when writes come close together: a client that
has written a few times and goes to another server finds its writes there. A crowd of clients leaves
gaps between its groups of commands as well. But such a group has so many operations that it costs
more looks than the gap has saved.
"""

from __future__ import annotations

from typing import Final

import attrs

QUIET_SECONDS: Final = 0.005
"""Wait for news that saves up one look, in seconds. A client that waits for each of its writes
leaves shorter gaps, so it does not pay for a look of each replica with each write."""
LOOK_OPERATIONS: Final = 16
"""Operations that cost as much as the rest of a look: 0.3 ms of CPU time, on the machine of
docs/results/performance.md."""


@attrs.define
class PollPacer:
    """Up to `burst` looks without a pause, and others each after `pause` seconds."""

    pause: float
    burst: int
    _saved: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._saved = self.burst

    def next_pause(self, waited: float, operations: int) -> float:
        """Seconds until the next look.

        Args:
            waited: seconds that the last look waited for news.
            operations: operations that were applied since the look before.
        """
        self._saved = min(self.burst, self._saved + int(waited / QUIET_SECONDS))
        price = 1 + operations // LOOK_OPERATIONS
        if price > self._saved:
            return self.pause
        self._saved -= price
        return 0.0
