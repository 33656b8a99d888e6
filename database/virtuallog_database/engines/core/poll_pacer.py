"""How often a replica looks for what others have proposed.                                                      Pure.

A look costs the same however much it brings: calls to two servers, a read, a transaction. So they are rationed, by a bucket of
tokens: under load a replica looks at a steady pace and each look brings more. What is saved up while little happens is spent at once: a
client that has written a few times and goes to another server finds it there.
"""

from __future__ import annotations

import attrs

HURRY_SECONDS = 0.001
"""Between two looks that were saved up: what is written in one go had better be one look."""


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
        """How long to wait before the next look, `now` being when the last one ended."""
        if self._counted_at is not None:
            self._saved = min(self.burst, self._saved + (now - self._counted_at) / self.pause)
        self._counted_at = now
        if self._saved < 1:
            self._counted_at += self.pause  # the look that this pause is for is not saved up
            return self.pause
        self._saved -= 1
        return min(HURRY_SECONDS, self.pause)
