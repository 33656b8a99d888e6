"""A client in C++ with stock Cap'n Proto, built from `virtuallog schema`, on real processes that fail and a log that is swapped."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from tests import debian
from tests.source_tree import ROOT
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.register import Register
from virtuallog.contract.types import Data, LogPosition, NodeId
from virtuallog.node_services import open_services_to
from virtuallog_lab.harness.orderer import ASKED, find_orderer
from virtuallog_lab.harness.trial import extend
from virtuallog_server.local_cluster.supervisor import LocalCluster, open_local_cluster

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.xdist_group("c++")]

PATIENCE_SECONDS = 120.0
"""For a machine that is busy with other things."""
LINES = 200
"""Entries between two events."""


def has_capnp() -> bool:
    return bool(shutil.which("capnp") and shutil.which("g++") and Path("/usr/include/capnp/rpc-twoparty.h").exists())


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client, built by its script."""
    debian.require("Cap'n Proto for C++", has_capnp, "capnproto", "libcapnp-dev", "g++")
    folder = tmp_path_factory.mktemp("c++")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = [str(ROOT / "examples/cpp/build"), str(folder)]
    done = subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "append_lines"


@attrs.define(eq=False)
class Client:
    """The running client: entries go in, their positions come out."""

    process: trio.Process
    offered: list[bytes] = attrs.field(factory=list)
    places: list[int] = attrs.field(factory=list)
    _rest: bytes = b""

    async def offer(self, count: int) -> None:
        """Write so many lines more into the pipe, which holds them."""
        assert self.process.stdin is not None
        more = [b"line %d" % number for number in range(len(self.offered), len(self.offered) + count)]
        self.offered += more
        await self.process.stdin.send_all(b"".join(line + b"\n" for line in more))

    async def settled(self, count: int) -> None:
        """Return once so many positions have been printed."""
        assert self.process.stdout is not None
        while len(self.places) < count:
            chunk = await self.process.stdout.receive_some()
            assert chunk, f"the client ended with {len(self.places)} positions"
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            self.places += map(int, lines)

    async def end(self) -> None:
        """Close the input; the client has then nothing more to do."""
        assert self.process.stdin is not None
        await self.process.stdin.aclose()
        await self.settled(len(self.offered))
        assert await self.process.wait() == 0


@asynccontextmanager
async def running(program: Path, address: str) -> AsyncIterator[Client]:
    """The client, asked to append through the node at an address."""
    process = await trio.lowlevel.open_process([program, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield Client(process)
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


@asynccontextmanager
async def cluster_of_three(folder: Path) -> AsyncIterator[LocalCluster]:
    with trio.fail_after(PATIENCE_SECONDS):  # noqa: TID251 -- real processes
        async with open_local_cluster(folder, base_port=0) as cluster:
            await cluster.wait_ready()
            yield cluster


async def orderer_of(cluster: LocalCluster, log: VirtualLog) -> NodeId:
    async with open_services_to(cluster.file, ASKED) as services:
        return await find_orderer(services, (await log.view.refresh()).chain.last)


async def swap(cluster: LocalCluster) -> Register:
    """Go on with another loglet, while the log is in use."""
    async with open_services_to(cluster.file) as services:
        return await extend(services, cluster.file, "native", {})


async def entries(log: VirtualLog) -> dict[int, bytes]:
    """All entries by position, in the order of the log, as the Python client reads them."""
    found: dict[int, bytes] = {}
    async for record in log.reader(LogPosition(0), (await log.check_tail()).tail):
        assert isinstance(record, Data), record
        found[record.position] = record.payload
    return found


async def test_each_entry_is_there_once_over_swaps_and_a_killed_sequencer(program: Path, tmp_path: Path) -> None:
    """Lines that a client in C++ appends are in the log once, in order, at the positions that it prints, although the log is
    swapped twice under it and the node that orders is killed with SIGKILL."""
    async with cluster_of_three(tmp_path) as cluster, connect(cluster.file) as log:
        async with running(program, cluster.nodes[NodeId(1)].config.listen) as client:
            await client.offer(4 * LINES)
            await client.settled(LINES)
            await swap(cluster)
            await client.settled(2 * LINES)
            killed = await orderer_of(cluster, log)
            await cluster.kill(killed)
            await client.settled(3 * LINES)
            await cluster.start(killed)
            await swap(cluster)
            await client.end()

        chain = (await log.view.refresh()).chain
        assert [segment.kind for segment in chain.segments] == ["native"] * len(chain.segments)
        assert len(chain.segments) >= 3
        assert await entries(log) == dict(zip(client.places, client.offered, strict=True))
        assert client.places == sorted(client.places)
