"""A small cluster for the driver tests: real providers over a simulated network and simulated disks.

`cluster.gate` sees every request before its handler does, and may keep it: so that a test can hold one message back.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import attrs
import trio

from loglets.native import NativeProvider
from loglets.native.config import NativeConfig
from loglets.native.loglet import NativeLoglet
from loglets.wal import WalSettings
from virtuallog.batch import Batch, SessionId
from virtuallog.chain import SegmentId
from virtuallog.errors import SealedError
from virtuallog.ports import Done, Environment, Handler, NodeEnvironment, Request
from virtuallog.testing.clock import SimulatedClock
from virtuallog.testing.network import LinkQuality, SimulatedNetwork
from virtuallog.testing.process import Process
from virtuallog.testing.storage import Disk, DiskFaults
from virtuallog.testing.timeline import Timeline
from virtuallog.types import NodeId, PlacedBatch

SEGMENT = SegmentId(1, 7)
CLIENT = NodeId(100)
SMALL_WAL = WalSettings(
    segment_bytes=32 << 10, record_bytes_max=8 << 10, group_bytes_max=16 << 10, queue_bytes_max=1 << 20,
    headroom_bytes=4 << 10,
)  # fmt: skip
"""Segments of 32 KiB, so that a test fills some."""

LARGE_WAL = WalSettings(
    segment_bytes=24 << 20, record_bytes_max=9 << 20, group_bytes_max=10 << 20, queue_bytes_max=20 << 20,
    headroom_bytes=1 << 20,
)  # fmt: skip
"""Takes the largest batches there are."""

Gate: TypeAlias = Callable[[NodeId, Request[Any]], bool]
"""(node, request): True lets it in."""


@attrs.define(eq=False)
class Node:
    """One machine: its disk survives, its process may not."""

    id: NodeId
    disk: Disk
    boot: int = 0
    process: Process | None = None
    provider: NativeProvider | None = None
    scope: trio.CancelScope | None = None
    failures: list[BaseException] = attrs.field(factory=list)
    ready: trio.Event = attrs.field(factory=trio.Event)


@attrs.define(eq=False)
class Cluster:
    """Nodes 1 to N, and as many clients as asked for."""

    nursery: trio.Nursery
    network: SimulatedNetwork
    random: random.Random
    wal_settings: WalSettings
    clock: SimulatedClock = attrs.field(factory=lambda: SimulatedClock(Process(NodeId(0))))
    """Of the test itself."""
    nodes: dict[NodeId, Node] = attrs.field(factory=dict)
    chain: dict[SegmentId, NativeConfig] = attrs.field(factory=dict)
    gate: Gate = attrs.field(default=lambda _node, _request: True)
    kept: list[tuple[Handler, Request[Any], Done]] = attrs.field(factory=list)
    """Requests that the gate kept, oldest first."""
    clients: int = 0

    async def start(self, node_id: int) -> None:
        """Begin a life of the node; returns when it serves."""
        node = self.nodes[NodeId(node_id)]
        node.boot += 1
        node.process = Process(node.id, node.boot)
        node.ready = trio.Event()
        self.nursery.start_soon(self._live, node, node.process)
        await node.ready.wait()

    def crash(self, node_id: int) -> None:
        """Lose power."""
        node = self.nodes[NodeId(node_id)]
        assert node.process is not None and node.scope is not None
        node.process.crash()
        node.disk.crash()
        node.scope.cancel()

    def create(self, servers: int = 3, sequencer: int = 1, segment: SegmentId = SEGMENT) -> NativeConfig:
        """Put a loglet into the chain."""
        ids = tuple(NodeId(n + 1) for n in range(servers))
        boot = self.nodes[NodeId(sequencer)].boot
        self.chain[segment] = NativeConfig(servers=ids, sequencer=NodeId(sequencer), boot=boot)
        return self.chain[segment]

    def client(self, segment: SegmentId = SEGMENT) -> NativeLoglet:
        """A client in a process of its own."""
        self.clients += 1
        process = Process(NodeId(CLIENT + self.clients))
        clock = SimulatedClock(process)
        environment = Environment(
            services=self.network.services(process, clock), clock=clock, random=self.random, nursery=self.nursery
        )
        return NativeLoglet(segment, self.chain[segment], environment)

    def isolate(self, node_id: int, blocked: bool = True) -> None:
        """Cut a node off from everybody, or heal it."""
        others = [*self.nodes, *(NodeId(CLIENT + n + 1) for n in range(self.clients))]
        for other in others:
            self.network.link(NodeId(node_id), other).blocked = blocked
            self.network.link(other, NodeId(node_id)).blocked = blocked

    def release(self) -> None:
        """Let in what the gate kept, in order of arrival, and everything from now on."""
        self.gate = lambda _node, _request: True
        kept, self.kept = self.kept, []
        for handler, request, done in kept:
            handler(request, done)

    async def _live(self, node: Node, process: Process) -> None:
        clock = SimulatedClock(process)

        async def storage(_name: str) -> Any:
            return node.disk.mount()

        async def segment_config(segment: SegmentId) -> tuple[str, bytes]:
            await trio.lowlevel.checkpoint()
            if segment not in self.chain:
                raise SealedError(f"{segment} is not in the chain")
            return "native", self.chain[segment].encode()

        with trio.CancelScope() as node.scope:
            async with trio.open_nursery() as nursery:
                environment = NodeEnvironment(
                    services=self.network.services(process, clock), clock=clock, random=self.random, nursery=nursery,
                    node=node.id, boot=node.boot, storage=storage, key_values=storage, segment_config=segment_config,
                    fail=node.failures.append,
                )  # fmt: skip
                node.provider = NativeProvider(self.wal_settings)
                handlers = await node.provider.serve(environment)
                self.network.listen(process, {cls: self._gated(node.id, fn) for cls, fn in handlers.items()})
                node.ready.set()
                await trio.sleep_forever()

    def _gated(self, node: NodeId, handler: Handler) -> Handler:
        def gated(request: Any, done: Done) -> None:
            if self.gate(node, request):
                handler(request, done)
            else:
                self.kept.append((handler, request, done))

        return gated


@asynccontextmanager
async def running_cluster(
    nodes: int = 3,
    seed: int = 1,
    quality: LinkQuality | None = None,
    faults: DiskFaults | None = None,
    wal_settings: WalSettings = SMALL_WAL,
) -> AsyncIterator[Cluster]:
    """A cluster whose nodes serve."""
    source = random.Random(seed)
    timeline = Timeline()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timeline.run)
        network = SimulatedNetwork(timeline, random.Random(source.random()), quality or LinkQuality())
        cluster = Cluster(nursery, network, source, wal_settings)
        for n in range(1, nodes + 1):
            disk = Disk(random.Random(source.random()), faults, cluster.clock)
            cluster.nodes[NodeId(n)] = Node(NodeId(n), disk)
            await cluster.start(n)
        yield cluster
        nursery.cancel_scope.cancel()


@attrs.define
class Writer:
    """A session: cuts batches one after the other."""

    loglet: NativeLoglet
    session: SessionId
    next_sequence: int = 0

    def batch(self, *payloads: bytes) -> Batch:
        batch = Batch.build(self.session, self.next_sequence, payloads)
        self.next_sequence = batch.stop_sequence
        return batch

    async def append(self, *payloads: bytes) -> range:
        batch = self.batch(*payloads)
        return await self.loglet.append(batch, opens=batch.first_sequence == 0)


def writer(loglet: NativeLoglet, name: bytes = b"w") -> Writer:
    return Writer(loglet, SessionId(name.ljust(16, b".")))


async def read_all(loglet: NativeLoglet, start: int, stop: int) -> list[bytes]:
    """Payloads in [start, stop), which must hold nothing but data."""
    payloads: list[bytes] = []
    at = start
    while at < stop:
        for placed in await loglet.read(at, stop, 1 << 16):  # type: ignore[arg-type]
            assert isinstance(placed, PlacedBatch), placed
            assert placed.start == at
            payloads += [record.payload for record in placed.records()]
            at = placed.stop
    return payloads
