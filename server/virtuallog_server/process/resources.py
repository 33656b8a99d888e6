"""Gives memory back to the operating system once it is not needed any more.

The C library keeps what was freed for the next time, often for ever: after a flood a node would stay as large as it was
at its worst, and look like one that leaks. Handing it back takes some milliseconds, so it is done once after each peak.
"""

from __future__ import annotations

import ctypes
import resource
from collections.abc import Callable
from typing import Final

import attrs
import structlog

from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.ports import Clock
from virtuallog_server.config.node_config import CONNECTIONS_MIN

# FOLDED from virtuallog_server.open_files: How many files and connections the process may have open: enough for all it is meant to have, before it needs them.
#
# A process without descriptors left cannot open the next segment of its write-ahead log either, and a log that cannot
# go on ends its role for good. So connections never get the last ones.

RESERVED: Final = 640
"""Not for connections that are served: 64 segments kept open for reading, some hundred files of RocksDB, 256 handshakes
under way, connections to other nodes, and what Python itself needs."""

log = structlog.get_logger(__name__)


def allow_connections(wanted: int) -> int:
    """Let the process open as many files as it takes to serve `wanted` connections; returns how many it may serve.

    Raises:
        InvalidSettingError: the operating system allows too few to be a node.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + RESERVED
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    allowed = soft - RESERVED
    if allowed < CONNECTIONS_MIN:
        raise InvalidSettingError("limit of open files (ulimit -Hn)", f"{soft} is not enough, {needed} would be")
    log.warning("fewer connections than configured", allowed=allowed, reason=f"only {soft} open files are allowed")
    return allowed


LOOK_SECONDS: Final = 5.0
PEAK_BYTES: Final = 64 << 20
"""What connections must have held for it to be worth the while."""
QUIET_BYTES: Final = 8 << 20
"""And hold no more than this now, or it would be needed again at once."""


@attrs.define(eq=False)
class MemoryTrimmer:
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


def trim_memory() -> None:
    """By malloc_trim of glibc; other C libraries have none, and then nothing is done."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
        log.info("memory given back")
