"""Position from which on a stream needs the log, so that the database on it trims no further.

    batches     ...[--- 6 ---)[--- 7 ---)[--- 8 ---)...
                   ^          ^          ^
                   hold       |          Spark plans batch 8, and says that all below its start is committed
                              what it said before

Spark calls `commit(end)` for a batch when the next one is planned. The hold moves to the end of the
call *before that*: the start of the last batch that is known to be committed, which can then be run
once more. It never goes back by itself, and never ahead of that.

Every move is an entry of the log, which is itself something to read: so there is one in
`EVERY_SECONDS` at most.
"""

from __future__ import annotations

from typing import Final

import attrs

EVERY_SECONDS: Final = 10.0
"""Interval between two tries to move the hold. A database trims after each snapshot, minutes apart:
a fresher hold frees nothing sooner."""


@attrs.define
class HoldPosition:
    """Present and due position of one stream's hold. Times are of any one clock."""

    patience_seconds: float
    """Seconds for which moves may fail until that is an error."""
    every_seconds: float = EVERY_SECONDS
    placed: int | None = None
    """Position of the hold. None if not known yet, so nothing may be read."""
    _known: int = attrs.field(default=0, init=False)
    """Everything below is committed, by Spark's word."""
    _wanted: int = attrs.field(default=0, init=False)
    _tried: float = attrs.field(default=0.0, init=False)
    """Time of the last placement, or of its last failure."""
    _failing: float | None = attrs.field(default=None, init=False)
    """Time since which moves fail. None if they do not."""

    def begin(self, position: int, start: int, now: float) -> None:
        """Note that the hold stands at `position`, and the run reads from `start` on."""
        self.placed = self._wanted = position
        self._known = start
        self._tried = now

    def commit(self, end: int) -> None:
        """Note that Spark has committed all below `end`."""
        if end > self._known:
            self._wanted, self._known = max(self._wanted, self._known), end

    def due(self, now: float) -> int | None:
        """Position to move the hold to now. None if it shall not move."""
        if self.placed is None or self._wanted <= self.placed or now < self._tried + self.every_seconds:
            return None
        return self._wanted

    def moved(self, position: int, now: float) -> None:
        """Note that the hold stands at `position`."""
        self.placed, self._tried, self._failing = position, now, None

    def failed(self, now: float) -> bool:
        """Note a failed or unknown move. Returns True if moves have failed for too long."""
        self._failing = now if self._failing is None else self._failing
        self._tried = now
        return now - self._failing >= self.patience_seconds
