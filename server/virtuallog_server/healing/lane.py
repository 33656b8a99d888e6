"""When a kind of action may be taken: one at a time, not too often, and after a failure not at once.                Pure."""

from __future__ import annotations

from typing import Final

import attrs

BACKOFF_SECONDS: Final = (0.5, 8.0)
"""After a failure: first and longest pause. What is missing, a majority or a disk, comes back in its own time."""


@attrs.define(kw_only=True)
class Lane:
    """Urgent actions have one of their own, so that they never wait for a rebuild, or for the calm after one."""

    calm_seconds: tuple[float, float]
    """After a success: first and longest pause. Doubles until all has been well once."""
    acting: bool = False
    problem: str = ""
    """What came of the last action, if it failed."""
    _not_before: float = 0.0
    _successes: int = 0
    _failures: int = 0

    def is_free(self, now: float) -> bool:
        return not self.acting and now >= self._not_before

    def begin(self) -> None:
        assert not self.acting
        self.acting = True

    def succeeded(self, now: float) -> None:
        self.acting, self.problem, self._failures = False, "", 0
        self._not_before = now + _doubled(self.calm_seconds, self._successes)
        self._successes += 1

    def failed(self, problem: str, now: float) -> None:
        self.acting, self.problem = False, problem
        self._not_before = now + _doubled(BACKOFF_SECONDS, self._failures)
        self._failures += 1

    def all_is_well(self) -> None:
        """Nothing is left to do."""
        self.problem, self._successes, self._failures = "", 0, 0


def _doubled(seconds: tuple[float, float], times: int) -> float:
    first, longest = seconds
    return min(longest, first * 2.0 ** min(times, 16))
