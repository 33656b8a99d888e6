"""A log of one real node, for tests that read or write it with Spark."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import trio

from pyspark_virtuallog.clients import close_clients
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog_server.local_cluster.supervisor import LocalCluster, open_local_cluster

ResultT = TypeVar("ResultT")


@asynccontextmanager
async def log_of_one_node(folder: Path) -> AsyncIterator[tuple[str, VirtualLog]]:
    """The path of its cluster file, and a client. Clients that jobs have opened in this process end with it."""
    async with cluster_of_one_node(folder) as cluster, connect(cluster.file) as log:
        yield str(cluster.file_path), log


@asynccontextmanager
async def cluster_of_one_node(folder: Path, *, tls: bool = False) -> AsyncIterator[LocalCluster]:
    """The same without the client; its node may be killed and started again."""
    async with open_local_cluster(folder / "cluster", 1, base_port=0, tls=tls) as cluster:
        await cluster.wait_ready()
        cluster.write_file()
        try:
            yield cluster
        finally:
            await in_thread(close_clients)


async def in_thread(call: Callable[..., ResultT], *arguments: object) -> ResultT:
    """Spark's calls wait, so they are made beside trio."""
    return await trio.to_thread.run_sync(call, *arguments)
