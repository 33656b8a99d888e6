"""Compaction of a live cluster: the log is trimmed up to it, and servers that have lost their stores begin with it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
import trio
from pyspark.sql import SparkSession

from pyspark_virtuallog.compact.compaction import CompactionRequest, compact
from tests.free_ports import free_ports
from tests.server.database.test_processes import wait_serving
from virtuallog.connect import connect
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog.replica import open_replica
from virtuallog_database.client import DatabaseClient
from virtuallog_database.snapshots.compaction_manifest import Manifest
from virtuallog_database.snapshots.compaction_store import CompactionStore
from virtuallog_server.local_cluster import layout
from virtuallog_server.local_cluster.supervisor import LocalCluster, open_local_cluster

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.long]

NODES = 3
PATIENCE_SECONDS = 300
"""A machine that is busy stalls for seconds; this is for a snapshot of each server, and for a trim."""


def prepare(folder: Path, place: Path) -> None:
    """Servers that take snapshots often, so that the log is trimmed often, and that know the place."""
    folder.mkdir()
    settings = f'[zookeeper]\nsnapshot_log_bytes = 65536\nsnapshot_seconds = 5.0\ncompacted_url = "file://{place}"\n'
    for node in layout.prepare(folder, NODES, 0, 0, "native", tls=True, zookeeper_port=free_ports(NODES)):
        file = layout.config_file(node)
        file.write_text(file.read_text().replace("[zookeeper]\n", settings))


async def write(client: DatabaseClient, first: int, count: int) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(first, first + count):
            nursery.start_soon(client.create, f"/n{number:05d}", b"%d" % number)


async def read(cluster: LocalCluster, path: Path) -> Mapping[str, bytes]:
    """Everything in the tree, read by a new client."""
    async with open_replica(cluster.file, path) as client:
        names = [name for name in await client.children("/") if name != "zookeeper"]
        return {name: (await client.get(f"/{name}")).data for name in names}


async def compacted(spark: SparkSession, wanted: CompactionRequest) -> Manifest:
    """The same call goes on, wherever servers were too busy to answer."""
    with trio.fail_after(PATIENCE_SECONDS):
        while True:
            try:
                return await trio.to_thread.run_sync(partial(compact, spark, wanted))
            except UnavailableError:
                await trio.sleep(1.0)


async def wait_trimmed(cluster: LocalCluster, position: LogPosition) -> None:
    """Return once the log begins there."""
    with trio.fail_after(PATIENCE_SECONDS):
        async with connect(cluster.file) as log:
            while await log.find_trim_point() < position:
                await trio.sleep(0.5)


async def lose_all_stores(cluster: LocalCluster, folder: Path) -> None:
    """Remove the stores of all servers at a time: no peer has a snapshot any more."""
    for node in range(1, NODES + 1):
        await cluster.kill(NodeId(node))
    for node in range(1, NODES + 1):
        shutil.rmtree(folder / f"node-{node}" / "stores" / "database")
    for node in range(1, NODES + 1):
        await cluster.start(NodeId(node))
    await wait_serving(cluster)


async def test_servers_without_stores_begin_with_a_compaction(spark: SparkSession, tmp_path: Path) -> None:
    """The log is trimmed exactly up to it, as it is held there; what was written before and after is there again. The cluster uses TLS,
    and the job has the certificate of an administrator."""
    place, folder, work = tmp_path / "place", tmp_path / "cluster", tmp_path / "work"
    prepare(folder, place)
    async with open_local_cluster(folder, NODES, tls=True) as cluster:
        await wait_serving(cluster)
        cluster.write_file()
        async with open_replica(cluster.file, tmp_path / "writer") as client:
            await write(client, 0, 300)
            wanted = CompactionRequest(cluster=cluster.file, url=f"file://{place}", work=work, chunk_bytes=8 << 10)
            manifest = await compacted(spark, wanted)
            await write(client, 300, 50)
        await wait_trimmed(cluster, manifest.position)
        expected = await read(cluster, tmp_path / "before")
        assert len(expected) == 350
        await lose_all_stores(cluster, folder)
        assert await read(cluster, tmp_path / "after") == expected
        assert await CompactionStore(f"file://{place}").positions(manifest.cluster) == [manifest.position]
