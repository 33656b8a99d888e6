"""The database in real processes: servers behind `virtuallog up`, in a program, beside a program, and from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from kazoo.client import KazooClient

from tests.free_ports import free_ports
from tests.server.process.console.test_cluster_metrics import check_documented, scrape
from tests.server.process.test_processes import command
from tests.source_tree import ROOT
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.types import NodeId
from virtuallog.embedded import open_embedded
from virtuallog.replica import open_replica
from virtuallog_database.client import Changed, DatabaseClient, NodeExistsError
from virtuallog_server.local_cluster.supervisor import LocalCluster, open_local_cluster

pytestmark = pytest.mark.processes

PATIENCE_SECONDS = 60


@asynccontextmanager
async def servers(path: Path, port: int, count: int = 3) -> AsyncIterator[LocalCluster]:
    """Servers of the database that answer."""
    async with open_local_cluster(path, count, base_port=0, zookeeper_port=port, console_port=port + count) as cluster:
        await wait_serving(cluster)
        cluster.write_file()
        yield cluster


async def wait_serving(cluster: LocalCluster) -> None:
    """Return once all serve. Asked from here: a command for each look would take longer than what is waited for."""
    await cluster.wait_ready()


def status(cluster: LocalCluster) -> dict[int, dict[str, Any]]:
    """The answer of `virtuallog database status` about each node."""
    done = command("database", "status", "--json", cluster=cluster.file_path)
    assert done.returncode == 0, done.stderr
    return {row["node"]: row for row in json.loads(done.stdout)["replicas"]}


async def test_servers_answer_kazoo_a_replica_and_operators(tmp_path: Path) -> None:
    """Writes at one server are read at the others; a killed server catches up when it comes back; the log is not
    trimmed under them; and docs/howto/monitor.md has each of their metrics.
    """
    port = free_ports(6)
    async with servers(tmp_path / "cluster", port) as cluster:
        await trio.to_thread.run_sync(write_with_kazoo, port)
        async with open_replica(cluster.file, tmp_path / "replica") as client:
            assert (await client.get("/from-kazoo", linearizable=True)).data == b"1"
            async with client.watch("/from-kazoo") as changes:
                await client.set("/from-kazoo", b"2")
                assert isinstance(await anext(changes), Changed)
        check_documented([await scrape(port + 3 + number) for number in range(3)], databases=True)
        found = status(cluster)
        assert [row["state"] for row in found.values()] == ["serving"] * 3
        assert [member["name"].partition("-")[0] for member in found[1]["members"]] == ["1", "2", "3"]
        tail = found[1]["cursor"]
        refused = command("trim", str(tail), cluster=cluster.file_path)
        assert refused.returncode == 1
        assert b"the database needs the log from" in refused.stderr
        for arguments in (["hold", "backup", str(tail)], ["checksum"], ["release", "backup"]):
            done = command("database", *arguments, cluster=cluster.file_path)
            assert done.returncode == 0, done.stderr
        await cluster.kill(NodeId(3))
        await trio.to_thread.run_sync(write_with_kazoo, port)
        await cluster.start(NodeId(3))
        await wait_serving(cluster)
        assert status(cluster)[3]["zxid"] >= found[1]["zxid"]


def write_with_kazoo(port: int) -> None:
    """A client that knows nothing of us, on the second server."""
    client = KazooClient(f"127.0.0.1:{port + 1}", timeout=20)
    client.start(timeout=PATIENCE_SECONDS)
    try:
        client.ensure_path("/from-kazoo")
        client.set("/from-kazoo", b"1")
        assert client.get("/from-kazoo")[0] == b"1"
    finally:
        client.stop()
        client.close()


async def test_a_program_goes_on_with_the_directory_of_a_server(tmp_path: Path) -> None:
    """It is a node like any other, only that nothing listens."""
    async with (
        servers(tmp_path, free_ports(2), 1) as cluster,
        open_replica(cluster.file, tmp_path / "replica") as client,
    ):
        await write(client, 200)
    async with open_embedded(tmp_path / "node-1") as client:
        assert len(await client.children("/")) == 201


async def write(client: DatabaseClient, count: int) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(client.create, f"/{number}")


async def test_an_embedded_tree_needs_no_network_and_outlives_its_process(tmp_path: Path) -> None:
    """One process at a time has it."""
    async with open_embedded(tmp_path) as client:
        await client.create("/a", b"1")
        async with client.session() as session:
            await session.create_ephemeral("/here")
            assert sorted(await client.children("/")) == ["a", "here", "zookeeper"]
        with pytest.raises(InvalidSettingError, match="another process"):
            await open_embedded(tmp_path).__aenter__()
    async with open_embedded(tmp_path) as client:
        assert (await client.get("/a", linearizable=True)).data == b"1"
        with pytest.raises(NodeExistsError):
            await client.create("/a")
        assert await client.children("/") == ["a", "zookeeper"]


async def test_a_program_that_is_interrupted_leaves_no_ephemerals(tmp_path: Path) -> None:
    """Its block is cancelled from outside, and the session in it is closed through the log all the same: who waits for the lock that
    it had need not wait for a timeout."""
    held = trio.Event()

    async def hold() -> None:
        async with open_embedded(tmp_path) as client, client.session(timeout_seconds=60) as session:
            await session.create_ephemeral("/lock")
            held.set()
            await trio.sleep_forever()

    with trio.fail_after(PATIENCE_SECONDS):  # noqa: TID251 -- real time
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hold)
            await held.wait()
            nursery.cancel_scope.cancel()
        async with open_embedded(tmp_path) as client:
            assert await client.children("/") == ["zookeeper"]


def test_the_example_counts_its_starts(tmp_path: Path) -> None:
    """As docs/howto/embed.md has it, word for word."""
    program = ROOT / "examples" / "embedded_kv.py"
    for number in (1, 2):
        done = subprocess.run(
            [sys.executable, program, tmp_path], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
        )
        assert done.stdout.splitlines()[-1] == f"start {number} znodes ['here', 'starts', 'zookeeper']"
    assert program.read_text().partition("import sys")[2] in (ROOT / "docs/howto/embed.md").read_text()
