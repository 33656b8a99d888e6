"""Rate-limited warnings about misbehaving peers, so that a flood cannot fill the disk with log lines.

A few lines in each period, then a count.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from virtuallog.contract.metrics import Counters
from virtuallog.contract.ports import Clock
from virtuallog.runtime import log

LINES_MAX: Final = 20
"""Lines in one period: enough to see the problem."""
PERIOD_SECONDS: Final = 10.0
"""Length of a period, in seconds. Warnings withheld in it are counted in one line of the next."""


@attrs.define(eq=False)
class RateLimitedLog:
    """Rate-limited warnings of one server."""

    _clock: Clock
    _period_began: float = float("-inf")
    _lines: int = 0
    _withheld: int = 0
    counts: Counters = attrs.field(
        factory=lambda: Counters.of(
            "virtuallog_rpc_complaints_total",
            "What callers did wrong, or one too many: the lines in the log, those not written included.",
            "what",
            ("connection refused", "connection closed", "call refused"),
        )
    )

    def warn(self, event: str, **details: Any) -> None:
        """Log a warning, or count it."""
        self.counts.add(event)
        now = self._clock.monotonic()
        if now - self._period_began >= PERIOD_SECONDS:
            self._period_began, self._lines = now, 0
            self._tell_withheld()
        self._lines += 1
        if self._lines > LINES_MAX:
            self._withheld += 1
        else:
            log.warning(event, **details)

    def _tell_withheld(self) -> None:
        if self._withheld:
            log.warning("more of such warnings were not logged", count=self._withheld)
        self._withheld = 0
