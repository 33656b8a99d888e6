"""A small cluster of acceptors and clients on the simulated network and simulated disks."""

from __future__ import annotations

import inspect
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import attrs
import trio

from virtuallog.contract.ports import Done, DurableMap, Environment, Handlers, NodeEnvironment, Request
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.key_values import SimulatedKeyValues, SimulatedKeyValuesDisk
from virtuallog.testing.sim.network import SimulatedNetwork
from virtuallog.testing.sim.process import CrashedError, Process
from virtuallog.testing.sim.timeline import Timeline
from virtuallog_metastore import PaxosProvider
from virtuallog_metastore.core.acceptor import Acceptor
from virtuallog_metastore.drivers.client import PaxosMetaStore
from virtuallog_metastore.records import restore
from virtuallog_simulation.world import scheduler

Interceptor = Callable[[NodeId, Request[Any]], bool]
"""Called for each request that arrives at a node; True to lose it."""

FIRST_CLIENT = 100
SEED = 1


def ids(*numbers: int) -> tuple[NodeId, ...]:
    return tuple(NodeId(number) for number in numbers)


A, B, C, D, E = ids(1, 2, 3, 4, 5)
THREE = (A, B, C)
FIVE = (A, B, C, D, E)


@attrs.define(eq=False)
class Life:
    """One life of a node or client."""

    process: Process
    scopes: list[trio.CancelScope] = attrs.field(factory=list)
    """Cancel scopes of its tasks."""


@attrs.define(eq=False)
class World:
    nursery: trio.Nursery
    random: random.Random
    network: SimulatedNetwork
    lives: dict[NodeId, Life] = attrs.field(factory=dict)
    disks: dict[NodeId, SimulatedKeyValuesDisk] = attrs.field(factory=dict)
    stores: Mapping[NodeId, DurableMap] = attrs.field(factory=dict)
    """Real stores to use instead of disks."""
    handlers: dict[NodeId, Handlers] = attrs.field(factory=dict)
    failures: list[tuple[NodeId, BaseException]] = attrs.field(factory=list)
    """Failures that nodes reported through `environment.fail`."""
    lost: Interceptor = lambda node, request: False
    requests: list[tuple[NodeId, Request[Any]]] = attrs.field(factory=list)
    """Requests that reached a node."""
    learned: list[bytes] = attrs.field(factory=list)
    """Decided values that clients learned of."""
    taught: list[tuple[NodeId, bytes]] = attrs.field(factory=list)
    """Decided values that acceptors were taught, with their nodes."""

    async def start(self, nodes: Sequence[NodeId], members: Sequence[NodeId] = THREE) -> None:
        """Start (or restart) these nodes; their static configuration lists `members`."""
        for node in nodes:
            life = self._live(node)
            disk = self.disk(node)
            environment = self._node_environment(life, disk)
            handlers = await PaxosProvider().serve(members, environment)
            self.handlers[node] = self._intercepted(node, handlers)
            self.network.listen(life.process, self.handlers[node])

    async def sleep(self, seconds: float) -> None:
        """Sleep in true time."""
        await trio.sleep(seconds)  # noqa: TID251 - the world outside

    def crash(self, *nodes: NodeId) -> None:
        for node in nodes:
            life = self.lives[node]
            life.process.crash()
            for scope in life.scopes:
                scope.cancel()
            if node in self.disks:
                self.disks[node].crash()

    def disk(self, node: NodeId) -> SimulatedKeyValuesDisk:
        if node not in self.disks:
            self.disks[node] = SimulatedKeyValuesDisk(random.Random(self.random.random()))
        return self.disks[node]

    def client(self, *members: NodeId) -> PaxosMetaStore:
        """Make a client on a machine of its own."""
        return self.doomed_client(*members)[1]

    def doomed_client(self, *members: NodeId) -> tuple[NodeId, PaxosMetaStore]:
        """Make a client; return also the name to crash it by."""
        name = NodeId(FIRST_CLIENT + len(self.lives))
        return name, cast(PaxosMetaStore, PaxosProvider().open(members or THREE, self.environment(name)))

    def environment(self, name: NodeId) -> Environment:
        """Make the environment of a client of this name."""
        life = self._live(name)
        clock = SimulatedClock(life.process)
        return Environment(
            services=self.network.services(life.process, clock),
            clock=clock,
            random=random.Random(self.random.random()),
            nursery=self.nursery,
            learned=self.learned.append,
        )

    def isolate(self, *nodes: NodeId) -> None:
        """Lose everything that is sent to these nodes."""
        self.lost = lambda node, request: node in nodes

    def heal(self) -> None:
        self.lost = lambda node, request: False

    def acceptors_lose(self, request_class: type[Request[Any]], *nodes: NodeId) -> None:
        """Lose requests of this class to these nodes."""
        self.lost = lambda node, request: isinstance(request, request_class) and node in nodes

    async def acceptor(self, node: NodeId) -> Acceptor:
        """Restore the acceptor on the disk of a dead node."""
        return await restore(self.disk(node).open(Process(node), SimulatedClock(Process(node))))

    async def living_acceptor(self, node: NodeId) -> Acceptor:
        """Restore the acceptor on the disk of a living node, read in its own name so as to disturb
        nothing."""
        life = self.lives[node]
        return await restore(SimulatedKeyValues(self.disk(node), life.process, SimulatedClock(life.process)))

    def count(self, request_class: type[Request[Any]]) -> int:
        return sum(isinstance(request, request_class) for _, request in self.requests)

    def _live(self, node: NodeId) -> Life:
        before = self.lives.get(node)
        life = Life(Process(node, boot=1 if before is None else before.process.boot + 1))
        self.lives[node] = life
        return life

    def _node_environment(self, life: Life, disk: SimulatedKeyValuesDisk) -> NodeEnvironment:
        process, clock = life.process, SimulatedClock(life.process)

        async def key_values(name: str) -> DurableMap:
            assert name == "metastore"
            return self.stores.get(process.node) or disk.open(process, clock)

        return NodeEnvironment(
            services=self.network.services(process, clock),
            clock=clock,
            random=random.Random(self.random.random()),
            nursery=cast(trio.Nursery, _Spawner(self.nursery, life)),
            learned=lambda value: self.taught.append((process.node, value)),
            node=process.node,
            boot=process.boot,
            storage=cast(Any, None),
            key_values=key_values,
            segment_config=cast(Any, None),
            fail=lambda error: self.failures.append((process.node, error)),
        )

    def _intercepted(self, node: NodeId, handlers: Handlers) -> Handlers:
        def wrap(handler: Callable[[Any, Done], None]) -> Callable[[Any, Done], None]:
            def handle(request: Request[Any], done: Done) -> None:
                if not self.lost(node, request):
                    self.requests.append((node, request))
                    handler(request, done)

            return handle

        return {request: wrap(handler) for request, handler in handlers.items()}


@attrs.define(eq=False)
class _Spawner:
    """A nursery with tasks that die with one process."""

    nursery: trio.Nursery
    life: Life

    def start_soon(self, function: Callable[..., Any], *arguments: Any) -> None:
        async def run() -> None:
            with trio.CancelScope() as scope:
                self.life.scopes.append(scope)
                try:
                    await function(*arguments)
                except CrashedError:
                    assert not self.life.process.alive

        self.nursery.start_soon(run)


def simulated(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test in simulated time, with a scheduler that does the same each time."""

    def run(**arguments: Any) -> None:
        scheduler.run(SEED, lambda: test(**arguments))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    run.__signature__ = inspect.signature(test)  # type: ignore[attr-defined]  # what pytest reads parameters from
    return run


@asynccontextmanager
async def world(seed: int = 1) -> AsyncIterator[World]:
    timeline, source = Timeline(), random.Random(seed)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timeline.run)
        yield World(nursery, source, SimulatedNetwork(timeline, random.Random(source.random())))
        nursery.cancel_scope.cancel()
