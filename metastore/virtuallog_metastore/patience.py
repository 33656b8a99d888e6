"""How long a client of the register keeps trying, and how it keeps out of others' way."""

from __future__ import annotations

import random
from typing import Final

import attrs

from virtuallog.errors import UnavailableError
from virtuallog.ports import Clock

PATIENCE_SECONDS: Final = 5.0
"""Time for several rounds with unanswered requests. Callers above have their own patience and come back."""

PAUSE_SECONDS_MIN: Final = 0.02
"""About two rounds over a local network with synced writes: the other proposer can finish."""

PAUSE_SECONDS_MAX: Final = 1.0


@attrs.define(eq=False)
class Patience:
    """Of one operation: jittered pauses that double, and an end.

    Two proposers that keep preempting each other (Paxos Made Simple, section 2.4) draw different pauses; sooner or
    later one of them is alone for two rounds.
    """

    _clock: Clock
    _random: random.Random
    _give_up_at: float = attrs.field(init=False)
    _pause_seconds: float = attrs.field(default=PAUSE_SECONDS_MIN, init=False)

    def __attrs_post_init__(self) -> None:
        self._give_up_at = self._clock.monotonic() + PATIENCE_SECONDS

    async def pause(self, reason: str) -> None:
        """Wait before the next try.

        Raises:
            UnavailableError: it is time to give up; `reason` says what the last try met.
        """
        seconds = self._pause_seconds * self._random.uniform(0.5, 1.5)
        self._pause_seconds = min(self._pause_seconds * 2, PAUSE_SECONDS_MAX)
        if self._clock.monotonic() + seconds > self._give_up_at:
            raise UnavailableError(f"MetaStore: {reason}")
        await self._clock.sleep(seconds)
