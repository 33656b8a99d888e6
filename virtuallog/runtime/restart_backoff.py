"""Setback: an error that ends the tasks of a role although the same call may succeed later.                         Pure.

A `RetryableError` is for the caller of one operation. That it reaches the top of a role is a bug of whoever should have tried again, except for
`DiskFullError`. In both cases the role begins anew, after a pause: others go on, and a server that is closed for good because a
queue was full for a moment would wait for an operator.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

from virtuallog.contract.errors import DiskFullError, RetryableError

PAUSE_SECONDS: Final = (0.5, 30.0)
"""Before the next beginning: the first pause, which doubles with each setback, and the longest one."""
RESET_SECONDS: Final = 60.0
"""After so long without a setback the pause is the first one again."""
KEPT_MAX: Final = 16
"""Latest setbacks that are remembered."""


@attrs.define(eq=False)
class RestartBackoff:
    """Those of one role. Times are of a clock that does not jump, in seconds."""

    latest: deque[RetryableError] = attrs.field(factory=lambda: deque(maxlen=KEPT_MAX), init=False)
    """The newest last."""
    count: int = attrs.field(default=0, init=False)
    """Since the process began."""
    _pause: float = attrs.field(default=0.0, init=False)
    _happened: float = attrs.field(default=0.0, init=False)

    def met(self, error: RetryableError, now: float) -> float:
        """A setback has happened; returns the pause before the next beginning."""
        first, longest = PAUSE_SECONDS
        is_calm = self.count == 0 or now - self._happened >= RESET_SECONDS + self._pause
        self._pause = first if is_calm else min(2 * self._pause, longest)
        self._happened = now
        self.count += 1
        self.latest.append(error)
        return self._pause


def is_bug(error: RetryableError) -> bool:
    """Whether an operation should have been tried again where the error was raised. A full disk is nobody's fault."""
    return not isinstance(error, DiskFullError)


def retryable_cause(error: BaseException) -> RetryableError | None:
    """The first error of a group that holds nothing but retryable ones; None for any other error."""
    if isinstance(error, BaseExceptionGroup):
        found = [retryable_cause(inner) for inner in error.exceptions]
        return found[0] if all(found) else None
    return error if isinstance(error, RetryableError) else None
