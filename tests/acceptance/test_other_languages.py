"""A client in C++ with stock Cap'n Proto, built from `virtuallog schema`, on real processes that fail and a log that is swapped."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

from tests import debian
from tests.source_tree import ROOT
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.address import split_address
from virtuallog.contract.register import Register
from virtuallog.contract.types import Data, LogPosition, NodeId
from virtuallog.node_services import open_services_to
from virtuallog_lab.harness.orderer import ASKED, find_orderer
from virtuallog_lab.harness.trial import extend
from virtuallog_loglets.native.config import decode_untrusted
from virtuallog_server.config.config_file import spell_config
from virtuallog_server.local_cluster import layout
from virtuallog_server.local_cluster.supervisor import LocalCluster, open_local_cluster

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.xdist_group("c++")]

PATIENCE_SECONDS = 120.0
"""For a machine that is busy with other things."""
WAVE = b"VW\1"
"""In what the sequencer sends to log servers, and in no append."""
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
    process = await trio.lowlevel.open_process(
        [program, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        yield Client(process)
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


@attrs.define(eq=False)
class LostAnswer:
    """The answer to one append, which does not arrive."""

    marker: bytes
    """Part of the entry."""
    falls_silent: bool
    """True if nothing that the node says arrives from then on; else that one connection is closed."""
    node: NodeId | None = None
    """The node that gave the answer, once it is lost."""


@attrs.frozen(eq=False)
class Proxy:
    """The way to one node, for clients and other nodes."""

    node: NodeId
    address: str
    lost: LostAnswer

    async def serve(self, caller: trio.SocketStream) -> None:
        """Carry one connection."""
        with suppress(OSError, trio.BrokenResourceError):
            async with (
                caller,
                await trio.open_tcp_stream(*split_address(self.address)) as node,
                trio.open_nursery() as nursery,
            ):
                carried = trio.Event()
                nursery.start_soon(self._ask, caller, node, carried, nursery.cancel_scope)
                nursery.start_soon(self._answer, caller, node, carried, nursery.cancel_scope)

    async def _ask(
        self, caller: trio.SocketStream, node: trio.SocketStream, carried: trio.Event, scope: trio.CancelScope
    ) -> None:
        with suppress(trio.BrokenResourceError):
            async for chunk in caller:
                if self.lost.marker in chunk and WAVE not in chunk:
                    carried.set()
                await node.send_all(chunk)
        scope.cancel()

    async def _answer(
        self, caller: trio.SocketStream, node: trio.SocketStream, carried: trio.Event, scope: trio.CancelScope
    ) -> None:
        lost = self.lost
        with suppress(trio.BrokenResourceError):
            async for chunk in node:
                if carried.is_set() and lost.node is None:
                    lost.node = self.node
                    if not lost.falls_silent:
                        break
                if lost.node != self.node or not lost.falls_silent:
                    await caller.send_all(chunk)
        scope.cancel()


@asynccontextmanager
async def cluster_behind_proxies(folder: Path, lost: LostAnswer) -> AsyncIterator[tuple[LocalCluster, str]]:
    """A cluster whose register has the addresses of proxies, and that of the first one."""
    with layout.hold(folder):
        known = layout.prepare(folder, 3, 0, 0, "native")
        ports = layout.free_ports(len(known))
        moved = [attrs.evolve(each, listen=f"127.0.0.1:{port}") for each, port in zip(known, ports, strict=True)]
        for config in moved:
            layout.config_file(config).write_text(spell_config(config))
    async with trio.open_nursery() as nursery:
        for before, after in zip(known, moved, strict=True):
            host, port = split_address(before.listen)
            proxy = Proxy(after.node, after.listen, lost)
            await nursery.start(partial(trio.serve_tcp, proxy.serve, port, host=host))
        with trio.fail_after(PATIENCE_SECONDS):  # noqa: TID251 -- real processes
            async with open_local_cluster(folder) as cluster:
                await cluster.wait_ready()
                yield cluster, known[0].listen
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def cluster_of_three(folder: Path) -> AsyncIterator[LocalCluster]:
    with trio.fail_after(PATIENCE_SECONDS):  # noqa: TID251 -- real processes
        async with open_local_cluster(folder, base_port=0) as cluster:
            await cluster.wait_ready()
            yield cluster


async def orderer_of(cluster: LocalCluster, log: VirtualLog) -> NodeId:
    async with open_services_to(cluster.file, ASKED) as services:
        return await find_orderer(services, (await log.view.refresh()).chain.last)


async def swap(cluster: LocalCluster, kind: str = "native") -> Register:
    """Go on with another loglet, while the log is in use."""
    async with open_services_to(cluster.file) as services:
        return await extend(services, cluster.file, kind, {})


async def entries(log: VirtualLog) -> dict[int, bytes]:
    """All entries by position, in the order of the log, as the Python client reads them."""
    found: dict[int, bytes] = {}
    async for record in log.reader(LogPosition(0), LogPosition((await log.check_tail()).tail)):
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


@pytest.mark.parametrize("falls_silent", [False, True], ids=["connection-lost", "node-silent"])
async def test_an_entry_without_an_answer_is_not_appended_again(
    program: Path, tmp_path: Path, falls_silent: bool
) -> None:
    """The node that orders has put an entry into the log, and its answer is lost. If just the connection ends, the same node tells
    the place again; if the node falls silent, others replace it, and the client finds the entry in the sealed segment."""
    lost = LostAnswer(b"line 10", falls_silent)
    async with cluster_behind_proxies(tmp_path, lost) as (cluster, first), connect(cluster.file) as log:
        async with running(program, first) as client:
            await client.offer(LINES)
            await client.end()

        holders = [
            segment
            for segment in (await log.view.refresh()).chain.segments
            if segment.start <= client.places[10] and (segment.stop is None or client.places[10] < segment.stop)
        ]
        assert [decode_untrusted(segment.config).sequencer for segment in holders] == [lost.node]
        assert await entries(log) == dict(zip(client.places, client.offered, strict=True))
        assert client.places == sorted(client.places)


async def test_a_kind_that_the_client_does_not_know_ends_it(program: Path, tmp_path: Path) -> None:
    """When the log goes on as another kind, the client ends with a reason, and has printed the position of each entry that is in
    the log."""
    async with cluster_of_three(tmp_path) as cluster, connect(cluster.file) as log:
        async with running(program, cluster.nodes[NodeId(1)].config.listen) as client:
            await client.offer(1)
            await client.settled(1)
            await swap(cluster, "raft")
            await client.offer(1)
            assert await client.process.wait() == 1
        assert client.process.stderr is not None
        assert await client.process.stderr.receive_some() == b"a segment is not native\n"
        assert await entries(log) == {0: b"line 0"}
