"""Memory and file descriptors of the process.

The C library keeps freed memory for reuse, often for ever: after a flood a node would stay as large as at its worst, and look
as if it leaked. To return memory takes some milliseconds, so it is done once after each peak.

A process without free descriptors cannot open the next segment of its write-ahead log either, and a log that cannot continue
ends its role for good. So the limit is raised before it is needed, and connections never get the last descriptors.
"""

from __future__ import annotations

import ctypes
import resource
from collections.abc import Callable
from typing import Final

import attrs

from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.ports import Clock
from virtuallog.runtime import log
from virtuallog_server.config.node_config import CONNECTIONS_MIN

RESERVED: Final = 640
"""Descriptors that connections may not use: 64 segments kept open for reading, some hundred files of RocksDB, 256 handshakes
in progress, connections to other nodes, and those of Python itself.
"""


def allow_connections(wanted: int) -> int:
    """Raise the limit of open files, to serve `wanted` connections. Return how many the process may serve.

    Raises:
        InvalidSettingError: the operating system allows too few for a node.
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
"""Seconds between two looks at the bytes that connections hold."""
PEAK_BYTES: Final = 64 << 20
"""Least bytes that connections must have held before memory is returned."""
QUIET_BYTES: Final = 8 << 20
"""Most bytes that they may hold then. With more, the memory would be needed again at once."""


@attrs.define(eq=False)
class MemoryTrimmer:
    """Returns memory after each peak of the connections.

    Args:
        held_bytes: the bytes that connections hold now.
        give_back: called after a peak.
    """

    _clock: Clock
    _held_bytes: Callable[[], int]
    _give_back: Callable[[], None]
    _peaked: bool = attrs.field(default=False, init=False)

    async def run(self) -> None:
        """Watch for peaks, for ever."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            held_bytes = self._held_bytes()
            if held_bytes >= PEAK_BYTES:
                self._peaked = True
            elif self._peaked and held_bytes <= QUIET_BYTES:
                self._peaked = False
                self._give_back()


def trim_memory() -> None:
    """Return free memory by glibc's malloc_trim. Other C libraries have no such function; then nothing happens."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
        log.info("memory given back")
