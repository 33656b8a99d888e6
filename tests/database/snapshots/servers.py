"""Servers of a database on one log in memory: hosts with disks of their own, that give each other snapshots."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

from tests.virtuallog.client.world import World
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.network import SimulatedNetwork
from virtuallog.testing.sim.process import CrashedError, Process
from virtuallog.testing.sim.timeline import Timeline
from virtuallog_database.engines.base.base_engine import BaseSettings
from virtuallog_database.engines.stack import StackSettings
from virtuallog_database.engines.view_tracking import ViewSettings, ViewTrackingEngine
from virtuallog_database.identity import ReplicaIdentity
from virtuallog_database.replica.host import Host, HostSettings, ReplicaIncarnation
from virtuallog_database.replica.replica import ReplicaSettings
from virtuallog_database.snapshots.policy import SnapshotSettings
from virtuallog_database.snapshots.service import SnapshotService
from virtuallog_database.tree.commands import Create, Origin, SetData
from virtuallog_simulation.world.store_disk import SimulatedDirectory, StoreDisk

CLUSTER = b"c" * 16
NODES = (1, 2, 3)
SETTINGS = HostSettings(
    replica=ReplicaSettings(
        stack=StackSettings(
            base=BaseSettings(follow_pause_seconds=0.5, follow_burst=0, trim_pause_seconds=0.5),
            view=ViewSettings(announce_seconds=0.5, eject_seconds=10.0),
        )
    ),
    snapshots=SnapshotSettings(log_bytes=2000, seconds=30.0, seconds_min=1.0),
)


@attrs.define(eq=False)
class Server:
    """One life of one."""

    host: Host
    disk: StoreDisk
    process: Process
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    lives: int = 0
    """Number of times it has served."""
    served: trio.Event = attrs.field(factory=trio.Event)

    @property
    def life(self) -> ReplicaIncarnation:
        assert self.host.life is not None
        return self.host.life

    @property
    def view(self) -> ViewTrackingEngine:
        found = self.life.replica.stack.find(ViewTrackingEngine)
        assert found is not None
        return found

    async def write(self, number: int) -> None:
        await self.life.database.proposals.execute(SetData("/a", b"%100d" % number), Origin())


@attrs.define(eq=False)
class Servers:
    """Starts and stops them."""

    world: World
    network: SimulatedNetwork
    nursery: trio.Nursery
    clock: SimulatedClock
    running: dict[int, Server] = attrs.field(factory=dict)
    _boots: int = 0

    async def start(self, node: int, disk: StoreDisk | None = None) -> Server:
        """Returns once it serves."""
        self._boots += 1
        process = Process(NodeId(node), self._boots)
        clock = SimulatedClock(process)
        source = random.Random(self._boots)
        environment = Environment(
            services=self.network.services(process, clock), clock=clock, random=source, nursery=self.nursery
        )
        disk = disk or StoreDisk(random=random.Random(node))
        host = Host(
            log=self.world.client(),
            directory=SimulatedDirectory.of(disk, process, clock),
            environment=environment,
            identity=ReplicaIdentity(node=NodeId(node), store=disk_id(disk), boot=self._boots),
            cluster=CLUSTER,
            peers=lambda: [NodeId(other) for other in NODES if other != node],
            settings=SETTINGS,
        )
        server = self.running[node] = Server(host, disk, process)
        self.nursery.start_soon(self._run, server)
        await server.served.wait()
        return server

    async def crash(self, node: int) -> StoreDisk:
        """Returns its disk."""
        server = self.running.pop(node)
        server.process.crash()
        server.scope.cancel()
        server.disk.crash()
        return server.disk

    async def write(self, count: int) -> None:
        """Make `count` writes, spread over some time."""
        for number in range(count):
            node = sorted(self.running)[number % len(self.running)]
            await self.running[node].write(number)
            await self.clock.sleep(0.05)

    async def settle(self) -> None:
        """Return once all have all."""
        for server in self.running.values():
            await server.life.replica.sync()

    async def log_begins(self) -> LogPosition:
        return await self._log.find_trim_point()

    @property
    def _log(self) -> VirtualLog:
        return next(iter(self.running.values())).host.log

    async def _run(self, server: Server) -> None:
        async def attend(life: ReplicaIncarnation) -> None:
            service = SnapshotService(
                life.snapshots, CLUSTER, life.environment.nursery, server.view.hold_exactly, life.environment.clock
            )
            self.network.listen(server.process, service.handlers)
            server.lives += 1
            server.served.set()

        with server.scope:
            try:
                await server.host.run(attend)
            except* CrashedError:
                pass  # what tasks of a dead process still tried


def disk_id(disk: StoreDisk) -> bytes:
    """Id of a disk, as if it had been formatted."""
    return (id(disk) % (1 << 64)).to_bytes(16, "big")


@asynccontextmanager
async def servers() -> AsyncIterator[Servers]:
    """Three, with one znode."""
    async with trio.open_nursery() as nursery:
        timeline = Timeline()
        nursery.start_soon(timeline.run)
        network = SimulatedNetwork(timeline, random.Random(0))
        made = Servers(World(nursery, roles=frozenset()), network, nursery, SimulatedClock(Process(NodeId(9))))
        for node in NODES:
            await made.start(node)
        await made.running[1].life.database.proposals.execute(Create("/a", b""), Origin())
        yield made
        nursery.cancel_scope.cancel()
