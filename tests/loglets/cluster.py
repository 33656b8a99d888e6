"""A small cluster for tests of one kind of loglet: real providers over a simulated network and
simulated disks.

`cluster.gate` sees every request before its handler does, and may keep it, so that a test can hold
one message back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Generic, TypeAlias, TypeVar

import attrs
import trio

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import SealedError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.ports import Done, Environment, Handler, NodeEnvironment, Request
from virtuallog.contract.provider import LogletProvider
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.network import LinkQuality, SimulatedNetwork
from virtuallog.testing.sim.process import Process
from virtuallog.testing.sim.timeline import Timeline

SEGMENT = SegmentId(1, 7)
CLIENT = NodeId(100)

Gate: TypeAlias = Callable[[NodeId, Request[Any]], bool]
"""(node, request): True to let it in."""

ProviderT = TypeVar("ProviderT", bound=LogletProvider)
ConfigT = TypeVar("ConfigT")
LogletT = TypeVar("LogletT", bound=Loglet)
ClusterT = TypeVar("ClusterT", bound="LogletCluster[Any, Any]")


@attrs.define(eq=False)
class Node(Generic[ProviderT]):
    """One machine: its disk survives, its process may not."""

    id: NodeId
    disk: Any
    boot: int = 0
    joined: int = 0
    process: Process | None = None
    provider: ProviderT | None = None
    scope: trio.CancelScope | None = None
    failures: list[BaseException] = attrs.field(factory=list)
    ready: trio.Event = attrs.field(factory=trio.Event)


@attrs.define(eq=False)
class LogletCluster(Generic[ProviderT, ConfigT]):
    """Nodes 1 to N, and as many clients as asked for."""

    nursery: trio.Nursery
    network: SimulatedNetwork
    random: Random
    clock: SimulatedClock = attrs.field(factory=lambda: SimulatedClock(Process(NodeId(0))), kw_only=True)
    """Clock of the test itself."""
    nodes: dict[NodeId, Node[ProviderT]] = attrs.field(factory=dict, kw_only=True)
    chain: dict[SegmentId, ConfigT] = attrs.field(factory=dict, kw_only=True)
    gate: Gate = attrs.field(default=lambda _node, _request: True, kw_only=True)
    kept: list[tuple[Handler, Request[Any], Done]] = attrs.field(factory=list, kw_only=True)
    """Requests that the gate kept, oldest first."""
    clients: int = attrs.field(default=0, kw_only=True)

    # -- of the kind ----------------------------------------------------------------------------------------------

    def provider(self) -> ProviderT:
        """Make a provider, for a node."""
        raise NotImplementedError

    def segment_config(self, segment: SegmentId) -> tuple[str, bytes]:
        """Return kind and config of a segment of `chain`.

        Raises:
            KeyError: it is not there.
        """
        raise NotImplementedError

    def disks(self, node: Node[ProviderT], process: Process, clock: SimulatedClock) -> dict[str, Any]:
        """Return `storage` and `key_values` of a node's environment: files, unless the kind needs something else."""

        async def storage(_name: str) -> Any:
            return node.disk.mount()

        return {"storage": storage, "key_values": storage}

    # -- of them all ----------------------------------------------------------------------------------------------

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

    async def restart(self, *node_ids: int) -> None:
        """Cut the power of all of them, then start each again."""
        for node_id in node_ids:
            self.crash(node_id)
        for node_id in node_ids:
            await self.start(node_id)

    def environment(self) -> Environment:
        """Return the environment of a client in a process of its own."""
        self.clients += 1
        process = Process(NodeId(CLIENT + self.clients))
        clock = SimulatedClock(process)
        return Environment(
            services=self.network.services(process, clock), clock=clock, random=self.random, nursery=self.nursery
        )

    def isolate(self, node_id: int, blocked: bool = True) -> None:
        """Cut a node off from all others, or heal it."""
        others = [*self.nodes, *(NodeId(CLIENT + n + 1) for n in range(self.clients))]
        for other in others:
            self.network.link(NodeId(node_id), other).blocked = blocked
            self.network.link(other, NodeId(node_id)).blocked = blocked

    def release(self) -> None:
        """Let in the requests that the gate kept, in order of arrival, and everything from now on."""
        self.gate = lambda _node, _request: True
        kept, self.kept = self.kept, []
        for handler, request, done in kept:
            handler(request, done)

    async def _live(self, node: Node[ProviderT], process: Process) -> None:
        clock = SimulatedClock(process)

        async def segment_config(segment: SegmentId) -> tuple[str, bytes]:
            await trio.lowlevel.checkpoint()
            try:
                return self.segment_config(segment)
            except KeyError:
                raise SealedError(f"{segment} is not in the chain") from None

        with trio.CancelScope() as node.scope:
            async with trio.open_nursery() as nursery:
                environment = NodeEnvironment(
                    services=self.network.services(process, clock), clock=clock, random=self.random, nursery=nursery,
                    node=node.id, boot=node.boot, segment_config=segment_config, fail=node.failures.append, joined=node.joined,
                    **self.disks(node, process, clock),
                )  # fmt: skip
                node.provider = self.provider()
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
async def running(
    make: Callable[[trio.Nursery, SimulatedNetwork, Random], ClusterT],
    make_disk: Callable[[Random, SimulatedClock], Any],
    *,
    nodes: int,
    seed: int,
    quality: LinkQuality | None,
) -> AsyncIterator[ClusterT]:
    """Run a cluster whose nodes serve."""
    source = Random(seed)
    timeline = Timeline()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timeline.run)
        network = SimulatedNetwork(timeline, Random(source.random()), quality or LinkQuality())
        cluster = make(nursery, network, source)
        for n in range(1, nodes + 1):
            cluster.nodes[NodeId(n)] = Node(NodeId(n), make_disk(Random(source.random()), cluster.clock))
            await cluster.start(n)
        yield cluster
        nursery.cancel_scope.cancel()


@attrs.define
class Writer(Generic[LogletT]):
    """A session that makes batches one after the other."""

    loglet: LogletT
    session: SessionId
    next_sequence: int = 0

    def batch(self, *payloads: bytes) -> Batch:
        batch = Batch.build(self.session, self.next_sequence, payloads)
        self.next_sequence = batch.stop_sequence
        return batch

    async def append(self, *payloads: bytes) -> range:
        batch = self.batch(*payloads)
        return await self.loglet.append(batch, opens=batch.first_sequence == 0)


def writer(loglet: LogletT, name: bytes = b"w") -> Writer[LogletT]:
    return Writer(loglet, SessionId(name.ljust(16, b".")))
