"""Curator's EnsembleTracker on real nodes: it follows servers that are removed from /zookeeper/config, come back, and are new."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio

from tests.clients.client_program import SESSION_MS, ClientProgram, running
from tests.clients.curator.jars import build
from tests.clients.ensembles import SIZE, VirtualLogEnsemble, open_virtuallog
from tests.clients.observer import observing
from tests.free_ports import free_ports
from tests.interop.node import SUPER
from virtuallog.contract.types import NodeId
from virtuallog_server.local_cluster import layout
from virtuallog_server.local_cluster.supervisor import PROGRAM

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.xdist_group("clients")]

SOURCES: Final = Path(__file__).with_name("tracker")
WRITES: Final = 30
ADDED: Final = SIZE + 1
"""The node that is not there at the beginning."""


async def test_curator_follows_servers_that_are_removed_and_added(tmp_path: Path) -> None:
    """At first it knows one server alone. That one is killed and taken off the list: Curator goes on at the others, which it knows from
    the list. It learns when the server is back, and when a node joins, and at last knows only that one. (It stays connected to a server that is taken off the list, until that connection is lost.)
    """
    command = build(SOURCES, "FollowServers", tmp_path)
    async with open_virtuallog(tmp_path) as ensemble:
        await name_super_user(ensemble)
        first, others = ensemble.addresses[0], ensemble.addresses[1:]
        async with running(command, first, "/writes", str(SESSION_MS), errors=tmp_path / "errors") as program:
            await knows(program, ensemble.addresses)
            await ensemble.kill(1)
            await program.advance(WRITES)
            await remove(ensemble, 1)
            await knows(program, others)
            await ensemble.start(1)
            await knows(program, ensemble.addresses)
            async with joined(ensemble, tmp_path / "node-4") as address:
                await knows(program, [*ensemble.addresses, address])
                for server, left in ((1, [*others, address]), (2, [others[1], address]), (3, [address])):
                    await remove(ensemble, server)
                    await knows(program, left)
                await program.advance(WRITES)
                await program.end()
        assert (tmp_path / "errors").read_text() == ""


async def knows(program: ClientProgram, addresses: Iterable[str]) -> None:
    """Return once Curator lists these servers, and would connect to them when it needs a connection."""
    wanted = set(addresses)
    await program.wait_for(
        lambda: any(
            set(line["listed"].split(",")) == set(line["known"].split(",")) == wanted
            for line in program.history.events("servers")[-1:]
        )
    )


async def remove(ensemble: VirtualLogEnsemble, server: int) -> None:
    """Take a server off the list, as the super user."""
    async with observing(ensemble.hosts) as observer:
        await observer.call(observer.client.add_auth, "digest", "super:test")
        await observer.call(observer.client.reconfig, "", str(server), None)


async def name_super_user(ensemble: VirtualLogEnsemble) -> None:
    """Give each node a super user in its config, one after the other."""
    for server in range(1, SIZE + 1):
        await ensemble.kill(server)
        file = layout.config_file(ensemble.cluster.nodes[NodeId(server)].config)
        section = f'[zookeeper]\nsuperuser_digest = "{SUPER}"'
        file.write_text(file.read_text().replace("[zookeeper]", section))
        await ensemble.start(server)


@asynccontextmanager
async def joined(ensemble: VirtualLogEnsemble, data: Path) -> AsyncIterator[str]:
    """One more node that serves clients, for the length of the block: its address for them."""
    first = free_ports(2)
    address, clients = f"{layout.HOST}:{first}", f"{layout.HOST}:{first + 1}"
    cluster = ensemble.cluster
    cluster.write_file()
    command = [*PROGRAM, "node", "add", f"{ADDED}@{address}", "--cluster", str(cluster.file_path)]
    await trio.run_process(command, capture_stdout=True)
    peers = ",".join(f"{node.id}@{node.address}" for node in cluster.file.nodes)
    options = {"id": ADDED, "data": data, "peers": f"{peers},{ADDED}@{address}", "zookeeper": clients}
    arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    with data.with_suffix(".log").open("wb") as log:
        process = await trio.lowlevel.open_process(
            [*PROGRAM, "serve", "--end-with-parent", *arguments], stdin=subprocess.PIPE, stdout=log, stderr=log
        )
    try:
        yield clients
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            assert process.stdin is not None
            await process.stdin.aclose()
