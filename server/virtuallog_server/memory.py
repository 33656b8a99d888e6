"""Gives memory back to the operating system once it is not needed any more.

The C library keeps what was freed for the next time, often for ever: after a flood a node would stay as large as it was
at its worst, and look like one that leaks. Handing it back takes some milliseconds, so it is done once after each peak.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final

import attrs
import structlog

from virtuallog.ports import Clock

LOOK_SECONDS: Final = 5.0
PEAK_BYTES: Final = 64 << 20
"""What connections must have held for it to be worth the while."""
QUIET_BYTES: Final = 8 << 20
"""And hold no more than this now, or it would be needed again at once."""

log = structlog.get_logger(__name__)


@attrs.define(eq=False)
class Returns:
    """Watches what connections hold.

    Args:
        held_bytes: now.
        give_back: what to do after a peak.
    """

    _clock: Clock
    _held_bytes: Callable[[], int]
    _give_back: Callable[[], None]
    _peaked: bool = attrs.field(default=False, init=False)

    async def run(self) -> None:
        """For ever."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            held_bytes = self._held_bytes()
            if held_bytes >= PEAK_BYTES:
                self._peaked = True
            elif self._peaked and held_bytes <= QUIET_BYTES:
                self._peaked = False
                self._give_back()


def give_back() -> None:
    """By malloc_trim of glibc; other C libraries have none, and then nothing is done."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
        log.info("memory given back")
