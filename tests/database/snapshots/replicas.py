"""Replicas without a log: stores that are filled by hand, and the snapshots that they give each other."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.network import SimulatedNetwork
from virtuallog.testing.sim.process import Process
from virtuallog.testing.sim.timeline import Timeline
from virtuallog_database.engines.core.keys import CURSOR
from virtuallog_database.ports import LocalStore, StoreDirectory
from virtuallog_database.snapshots.metrics import SnapshotMetrics
from virtuallog_database.snapshots.policy import NONE, SnapshotSettings
from virtuallog_database.snapshots.restorer import Restorer
from virtuallog_database.snapshots.service import SnapshotService
from virtuallog_database.snapshots.snapshotter import Snapshotter
from virtuallog_simulation.world.store_disk import SimulatedDirectory, StoreDisk

CLUSTER = b"c" * 16
EVERYTHING = (b"", b"\xff")


@attrs.define(eq=False)
class Replica:
    """Progress of a replica, as `Snapshotter` reads it (`AppliedProgress`)."""

    store: LocalStore
    cursor: LogPosition = NONE
    applied_bytes: int = 0
    told: list[int] = attrs.field(factory=list)
    """Positions of snapshots it heard of."""

    def snapshotted(self, position: LogPosition) -> None:
        self.told.append(position)

    def play(self, cursor: int, size: int = 100) -> None:
        """Apply entries up to `cursor`, each with a key of its own."""
        for position in range(self.cursor, cursor):
            value = random.Random(position).randbytes(size)
            self.store.write({b"k%08d" % position: value, CURSOR: (position + 1).to_bytes(8, "big")})
            self.applied_bytes += size
        self.cursor = LogPosition(cursor)


@attrs.define(eq=False)
class Machine:
    """One node with a disk."""

    world: World
    node: NodeId
    disk: StoreDisk
    process: Process
    clock: SimulatedClock
    directory: StoreDirectory
    holds: list[tuple[str, int]] = attrs.field(factory=list)
    """Holds placed for others."""
    refusals: list[VirtualLogError] = attrs.field(factory=list)
    """Outcomes of the next holds."""
    may_hold: trio.Event = attrs.field(factory=trio.Event)
    """Not set: the log takes no entries."""

    async def replica(self, cursor: int, settings: SnapshotSettings | None = None) -> tuple[Replica, Snapshotter]:
        """A replica that has played so far, and serves its snapshots."""
        replica = Replica(await self.directory.open())
        replica.play(cursor)
        snapshots = await Snapshotter.open(self.directory.checkpoints, self.clock, settings)
        service = SnapshotService(snapshots, CLUSTER, self.world.nursery, self.hold, self.clock)
        self.world.network.listen(self.process, service.handlers)
        return replica, snapshots

    async def hold(self, name: str, position: LogPosition, seconds: float) -> None:
        await self.may_hold.wait()
        if self.refusals:
            raise self.refusals.pop()
        self.holds.append((name, position))

    def restorer(self, *, cluster: bytes = CLUSTER, peers: Sequence[int] = (1, 2)) -> Restorer:
        return Restorer(
            directory=self.directory,
            services=self.world.network.services(self.process, self.clock),
            clock=self.clock,
            random=random.Random(1),
            cluster=cluster,
            replica=f"{self.node}-0000",
            peers=lambda: [NodeId(peer) for peer in peers],
            trim_point=self.world.find_trim_point,
            meter=SnapshotMetrics(),
        )

    def crash(self) -> Machine:
        """Lose the power; the next life of the same machine."""
        self.process.crash()
        self.disk.crash()
        return self.world.machine(self.node, self.disk)


@attrs.define(eq=False)
class World:
    """Machines on a simulated network, and where their log begins."""

    nursery: trio.Nursery
    network: SimulatedNetwork
    trim_point: int = 0
    unknown: int = 0
    """Number of further requests that the log refuses with `refusal`."""
    refusal: VirtualLogError = attrs.field(factory=lambda: UnavailableError("the log does not answer"))
    """Error of a refused request."""
    asked: int = 0
    """Number of questions where the log begins."""
    meanwhile: Callable[[], Awaitable[None]] | None = None
    """Hook before the third answer."""

    @property
    def clock(self) -> SimulatedClock:
        """Content for a reader from outside."""
        return SimulatedClock(Process(NodeId(0)))

    async def find_trim_point(self) -> LogPosition:
        await trio.lowlevel.checkpoint()
        self.asked += 1
        if self.asked == 3 and self.meanwhile is not None:
            await self.meanwhile()
        if self.unknown:
            self.unknown -= 1
            raise self.refusal
        return LogPosition(self.trim_point)

    def machine(self, node: int, disk: StoreDisk | None = None) -> Machine:
        process = Process(NodeId(node))
        clock = SimulatedClock(process)
        disk = disk or StoreDisk(random=random.Random(node))
        made = Machine(self, NodeId(node), disk, process, clock, SimulatedDirectory.of(disk, process, clock))
        made.may_hold.set()
        return made


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """For a test on a mock clock."""
    async with trio.open_nursery() as nursery:
        timeline = Timeline()
        nursery.start_soon(timeline.run)
        yield World(nursery, SimulatedNetwork(timeline, random.Random(0)))
        nursery.cancel_scope.cancel()


def content(store: LocalStore) -> list[tuple[bytes, bytes]]:
    return store.scan(EVERYTHING, 1 << 30)
