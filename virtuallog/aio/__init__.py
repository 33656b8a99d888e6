"""The log for asyncio: the names of the trio API, on a background thread that runs the client.

    async with virtuallog.aio.connect("cluster/cluster.toml") as log:
        position = await log.append(b"entry")

The database is beside it: `virtuallog.aio.embedded`, `virtuallog.aio.replica`, `virtuallog.aio.state` and
`virtuallog.aio.table`. docs/howto/asyncio.md has cancellation, limits and frameworks.
"""

from virtuallog.aio.appender import AsyncioAppender
from virtuallog.aio.log import AsyncioLog, connect, find_time, scan
from virtuallog.aio.reader import AsyncioReader, AsyncioScan
from virtuallog.runtime.bridge_errors import ClientClosedError, CompletedError, WrongLoopError

__all__ = [
    "connect",
    "scan",
    "find_time",
    "AsyncioLog",
    "AsyncioAppender",
    "AsyncioReader",
    "AsyncioScan",
    "ClientClosedError",
    "CompletedError",
    "WrongLoopError",
]
