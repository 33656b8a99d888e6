"""The life of nodes, with real processes and the command line."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.free_ports import free_ports
from tests.server.process.test_processes import COMMAND, command, folder, local_cluster, payloads_of
from virtuallog.connect import connect
from virtuallog.contract.types import NodeId
from virtuallog_server.local_cluster.supervisor import LocalCluster

pytestmark = [pytest.mark.processes, pytest.mark.slow]
__all__ = ["folder"]


async def rows_of(cluster: LocalCluster) -> list[dict[str, Any]]:
    """The status of each node, also of those in trouble."""
    done = await trio.to_thread.run_sync(partial(command, "status", "--json", cluster=cluster.file_path))
    found: list[dict[str, Any]] = json.loads(done.stdout)["nodes"]
    return found


async def run(cluster: LocalCluster, *arguments: str, code: int = 0) -> Any:
    """The JSON that a command prints."""
    done = await trio.to_thread.run_sync(partial(command, *arguments, "--json", cluster=cluster.file_path))
    assert done.returncode == code, done.stderr.decode()
    return json.loads(done.stdout) if done.stdout else done.stderr.decode()


@asynccontextmanager
async def serving(cluster: LocalCluster, node: int, data: Path, address: str) -> AsyncIterator[trio.Process]:
    """One more process, started as `node add` says."""
    peers = ",".join(f"{one.id}@{one.address}" for one in cluster.file.nodes if one.id != node)
    arguments = ["serve", "--end-with-parent", "--id", str(node), "--data", str(data)]
    with data.with_suffix(".log").open("wb") as log:
        process = await trio.lowlevel.open_process(
            [*COMMAND, *arguments, "--peers", f"{peers},{node}@{address}"], stdin=subprocess.PIPE, stderr=log
        )
    try:
        yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            if process.stdin is not None:
                await process.stdin.aclose()


async def wait_running(cluster: LocalCluster, node: int) -> dict[str, Any]:
    """Its status, once it takes part."""
    with trio.fail_after(60):  # noqa: TID251 -- real time, on a machine that may be busy
        while True:
            for row in await rows_of(cluster):
                if row["node"] == node and row["state"] == "running" and row["version"]:
                    return row
            await trio.sleep(0.2)  # noqa: TID251 -- real time


async def wait_drainable(cluster: LocalCluster, node: int) -> None:
    """Until nothing stands against it: a new node has to answer the others within a second, on a machine that may be busy."""
    with trio.fail_after(60):  # noqa: TID251 -- real time, on a machine that may be busy
        while True:
            check = ("node", "drain", str(node), "--check", "--json")
            done = await trio.to_thread.run_sync(partial(command, *check, cluster=cluster.file_path))
            if not json.loads(done.stdout)["problems"]:
                return
            await trio.sleep(0.2)  # noqa: TID251 -- real time


async def test_a_fourth_node_takes_the_place_of_the_first(folder: Path) -> None:
    """Added, formatted by itself; the first one drained, killed and removed: the log goes on, and nothing is lost."""
    async with local_cluster(folder / "data") as cluster:
        cluster.write_file()
        async with connect(cluster.file) as log:
            await log.append_many([b"%d" % number for number in range(100)])
            assert "no other node can take a seat" in await run(cluster, "node", "drain", "1", code=1)
            address = f"127.0.0.1:{free_ports()}"
            assert (await run(cluster, "node", "add", f"4@{address}"))["expected"]
            async with serving(cluster, 4, folder / "node-4", address):
                await wait_running(cluster, 4)
                await wait_drainable(cluster, 1)
                assert (await run(cluster, "node", "drain", "1"))["done"]
                await cluster.kill(NodeId(1))

                assert (await run(cluster, "node", "remove", "1"))["nodes"] == [2, 3, 4]
                members = (await run(cluster, "metastore", "members"))["members"]
                assert [(row["member"], row["state"]) for row in members] == [(n, "answers") for n in (2, 3, 4)]
                await log.append(b"last")
                segments = (await run(cluster, "chain"))["segments"]
                assert {tuple(segment["config"]["servers"]) for segment in segments} == {(2, 3, 4)}
                assert await payloads_of(log) == [*(b"%d" % number for number in range(100)), b"last"]


@pytest.mark.long
async def test_a_node_whose_disk_is_gone_is_replaced(folder: Path) -> None:
    """Its directory is deleted. It stays out, until it is replaced; then it has everything again. The old disk is refused."""
    async with local_cluster(folder / "data") as cluster:
        cluster.write_file()
        async with connect(cluster.file) as log:
            await log.append_many([b"%d" % number for number in range(100)])
            await run(cluster, "reconfigure", "--to", "native", "--set", "sequencer=1")
            await cluster.kill(NodeId(3))
            data = cluster.nodes[NodeId(3)].config.data
            shutil.move(data, folder / "old")
            data.mkdir()
            shutil.copy(folder / "old" / "node.toml", data)
            await cluster.start(NodeId(3))
            await log.append(b"with two")

            assert (await run(cluster, "node", "replace", "3"))["done"]
            before = await wait_running(cluster, 3)
            await cluster.kill(NodeId(2))
            assert await payloads_of(log) == [*(b"%d" % number for number in range(100)), b"with two"]
            await cluster.start(NodeId(2))

            await cluster.kill(NodeId(3))
            shutil.move(data, folder / "new")
            shutil.move(folder / "old", data)
            await cluster.start(NodeId(3))
            with trio.fail_after(30):  # noqa: TID251 -- real time
                while (refused := await row_of(cluster, 3)).get("error") is None and not refused.get("failures"):
                    await trio.sleep(0.2)  # noqa: TID251 -- real time
            assert refused.get("store_id") != before["store_id"]
            await log.append(b"with two again")


async def row_of(cluster: LocalCluster, node: int) -> dict[str, Any]:
    """Its row in `status`."""
    return next(row for row in await rows_of(cluster) if row["node"] == node)
