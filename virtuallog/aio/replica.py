"""A replica of a cluster's database inside an asyncio program: `open_replica`.

    async with open_replica("cluster/cluster.toml", "replica") as client:
        await client.get("/greeting")

A facade: re-exports only, as `virtuallog.replica`.
"""

from virtuallog_database.aio.client import AsyncioDatabaseClient, AsyncioSession, AsyncioTransaction
from virtuallog_database.aio.replica import open_replica
from virtuallog_database.aio.watch_stream import AsyncioWatchStream

__all__ = ["AsyncioDatabaseClient", "AsyncioSession", "AsyncioTransaction", "AsyncioWatchStream", "open_replica"]
