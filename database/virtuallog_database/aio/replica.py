"""A replica of a cluster's database in an asyncio program."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from virtuallog.client.cluster_file import ClusterFile
from virtuallog_database.aio.client import AsyncioDatabaseClient, open_client
from virtuallog_database.client.passive_replica import open_replica as open_trio_replica


@asynccontextmanager
async def open_replica(cluster: str | Path | ClusterFile, path: str | Path) -> AsyncIterator[AsyncioDatabaseClient]:
    """Run a replica on a thread of its own while the block runs; arguments and errors as `virtuallog.replica.open_replica`."""
    async with open_client(partial(open_trio_replica, cluster, path), "virtuallog replica") as client:
        yield client
