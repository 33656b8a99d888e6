"""Pacing of a replica's looks for the proposals of others.

A look costs the same however much it brings: calls to two servers, a read, a transaction. So looks
are rationed by a token bucket. Under load a replica looks at a steady pace, and each look brings
more. Tokens saved while little happens are spent at once: a client that has written a few times and
goes to another server finds its writes there.
"""

from __future__ import annotations

import attrs

HURRY_SECONDS = 0.001
"""Pause between two looks that were saved up, so that a burst of writes is one look."""


@attrs.define
class PollPacer:
    """One look each `pause` seconds; up to `burst` of them are saved up."""

    pause: float
    burst: int
    _saved: float = attrs.field(init=False)
    _counted_at: float | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._saved = self.burst

    def next_pause(self, now: float) -> float:
        """Seconds until the next look; `now` is the end of the last one."""
        if self._counted_at is not None:
            self._saved = min(self.burst, self._saved + (now - self._counted_at) / self.pause)
        self._counted_at = now
        if self._saved < 1:
            self._counted_at += self.pause  # the look that this pause precedes is not saved up
            return self.pause
        self._saved -= 1
        return min(HURRY_SECONDS, self.pause)
