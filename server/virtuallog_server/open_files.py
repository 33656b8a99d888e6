"""How many files and connections the process may have open: enough for all it is meant to have, before it needs them.

A process without descriptors left cannot open the next segment of its write-ahead log either, and a log that cannot
go on ends its role for good. So connections never get the last ones.
"""

from __future__ import annotations

import resource
from typing import Final

import structlog

from virtuallog.errors import InvalidSettingError
from virtuallog_server.config import CONNECTIONS_MIN

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
