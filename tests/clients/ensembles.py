"""Ensembles that ZooKeeper's clients are run against: three of our nodes, and three real ZooKeeper servers to compare with.

Both are hurt by the same calls. Servers are numbered from 1; a killed one keeps its data. Only ours can be swapped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

import attrs
import trio

from tests import zookeeper_server
from tests.free_ports import free_ports
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.ports import Services
from virtuallog.contract.types import NodeId
from virtuallog.node_services import open_services_to
from virtuallog_lab.harness.orderer import ASKED, find_orderer
from virtuallog_server.local_cluster import layout
from virtuallog_server.local_cluster.supervisor import LocalCluster, open_local_cluster

SIZE: Final = 3
START_SECONDS: Final = 60.0
"""Timeout of a server that is started again; machines stall."""
DEFAULTS: Final = ("tickTime=2000", "initLimit=10", "syncLimit=5", "minSessionTimeout=4000")
"""Settings of Debian's own zoo.cfg, for the comparison."""


class Ensemble(ABC):
    """Servers that are up, or have been killed and may be started again."""

    name: str
    addresses: Sequence[str]
    """host:port of each server, the first one first."""

    @property
    def hosts(self) -> str:
        """The connection string of all servers."""
        return ",".join(self.addresses)

    @abstractmethod
    async def leader(self) -> int:
        """The server that orders writes now."""

    @abstractmethod
    async def kill(self, server: int) -> None:
        """Kill -9, and wait until it is dead."""

    @abstractmethod
    async def start(self, server: int) -> None:
        """Start it again; return once it serves clients."""

    async def swap(self, kind: str) -> None:
        """Swap the loglet underneath. Real servers have none."""
        raise NotImplementedError(f"{self.name} has one kind of log, and not {kind}")


@attrs.define(eq=False)
class VirtualLogEnsemble(Ensemble):
    """Three node processes, each a server of the database."""

    cluster: LocalCluster
    log: VirtualLog
    services: Services
    addresses: Sequence[str]
    name: str = "virtuallog"

    async def leader(self) -> int:
        """The native sequencer, or the paxos coordinator, of the active segment."""
        return await find_orderer(self.services, (await self.log.view.refresh()).chain.last)

    async def kill(self, server: int) -> None:
        await self.cluster.kill(NodeId(server))

    async def start(self, server: int) -> None:
        await self.cluster.start(NodeId(server))
        await self.cluster.wait_ready()

    async def swap(self, kind: str) -> None:
        await self.log.reconfig_extend(kind, {})


@attrs.define(eq=False)
class ZooKeeperEnsemble(Ensemble):
    """Three servers of Debian's ZooKeeper."""

    servers: Sequence[zookeeper_server.Server]
    addresses: Sequence[str]
    name: str = "ZooKeeper"

    async def leader(self) -> int:
        with trio.fail_after(START_SECONDS):
            while True:
                for number, server in enumerate(self.servers, start=1):
                    if server.is_running and await server.mode() == "leader":
                        return number
                await trio.sleep(0.05)

    async def kill(self, server: int) -> None:
        await self.servers[server - 1].stop()

    async def start(self, server: int) -> None:
        await self.servers[server - 1].start()


@asynccontextmanager
async def open_virtuallog(folder: Path, loglet: str = "native") -> AsyncIterator[VirtualLogEnsemble]:
    """Run three nodes on loopback for the length of the block."""
    first = free_ports(SIZE)
    async with open_local_cluster(
        folder / "virtuallog", SIZE, base_port=0, loglet=loglet, zookeeper_port=first
    ) as cluster:
        await cluster.wait_ready()
        addresses = [f"{layout.HOST}:{first + number}" for number in range(SIZE)]
        async with connect(cluster.file) as log, open_services_to(cluster.file, ASKED) as services:
            yield VirtualLogEnsemble(cluster, log, services, addresses)


@asynccontextmanager
async def open_zookeeper(folder: Path) -> AsyncIterator[ZooKeeperEnsemble]:
    """Run three servers of ZooKeeper on loopback for the length of the block. Skips the test if it cannot be had."""
    async with zookeeper_server.open_ensemble(folder / "zookeeper", SIZE, *DEFAULTS) as servers:
        yield ZooKeeperEnsemble(servers, [server.address for server in servers])


Open = Callable[[Path], AbstractAsyncContextManager[Ensemble]]
ENSEMBLES: Final[Sequence[Open]] = (open_virtuallog, open_zookeeper)
"""For tests that run on both."""
