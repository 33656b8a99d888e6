"""Pauses before a role restarts after a setback.

A setback is an error that ends the tasks of a role although the same call may succeed later. A
`RetryableError` is meant for the caller of one operation. If it reaches the top of a role, some
caller should have retried: a bug, except for `DiskFullError`. In both cases the role restarts after
a pause. Other roles go on. A server that closed for good because a queue was full for a moment
would wait for an operator.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

from virtuallog.contract.errors import DiskFullError, RetryableError

PAUSE_SECONDS: Final = (0.5, 30.0)
"""First and longest pause before a restart. The pause doubles with each setback."""
RESET_SECONDS: Final = 60.0
"""Time without a setback after which the pause is the first one again."""
KEPT_MAX: Final = 16
"""Number of latest setbacks that are remembered."""


@attrs.define(eq=False)
class RestartBackoff:
    """The setbacks of one role. Times are in seconds, of a clock that does not jump."""

    latest: deque[RetryableError] = attrs.field(factory=lambda: deque(maxlen=KEPT_MAX), init=False)
    """The latest setbacks, the newest last."""
    count: int = attrs.field(default=0, init=False)
    """Number of setbacks since the process began."""
    _pause: float = attrs.field(default=0.0, init=False)
    _happened: float = attrs.field(default=0.0, init=False)

    def met(self, error: RetryableError, now: float) -> float:
        """Record a setback; return the pause before the restart, in seconds."""
        first, longest = PAUSE_SECONDS
        is_calm = self.count == 0 or now - self._happened >= RESET_SECONDS + self._pause
        self._pause = first if is_calm else min(2 * self._pause, longest)
        self._happened = now
        self.count += 1
        self.latest.append(error)
        return self._pause


def is_bug(error: RetryableError) -> bool:
    """True if a caller should have retried the operation. A full disk is no bug."""
    return not isinstance(error, DiskFullError)


def retryable_cause(error: BaseException) -> RetryableError | None:
    """Return the first error of a group of retryable errors only; None for any other error."""
    if isinstance(error, BaseExceptionGroup):
        found = [retryable_cause(inner) for inner in error.exceptions]
        return found[0] if all(found) else None
    return error if isinstance(error, RetryableError) else None
