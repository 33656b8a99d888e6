"""A node under test, with a register and providers that the test controls."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from virtuallog.admin.control import GetStatus, NodeStatus
from virtuallog.client.cluster_file import NodeAddress
from virtuallog.contract.capnp_interface import Interface, Method
from virtuallog.contract.errors import CorruptionError, UnavailableError
from virtuallog.contract.ports import DurableMap, Environment, Handlers, NodeEnvironment, Request
from virtuallog.contract.provider import LogletProvider
from virtuallog.contract.register import Register, decode_untrusted
from virtuallog.contract.types import NodeId
from virtuallog.testing.memory_metastore import MemoryMetaStore
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.disk import Disk
from virtuallog.testing.sim.key_values import SimulatedKeyValuesDisk
from virtuallog.testing.sim.network import SimulatedNetwork, SimulatedServices
from virtuallog.testing.sim.process import CrashedError, Process
from virtuallog.testing.sim.timeline import Timeline
from virtuallog_loglets.archive.restored_origin import Origin
from virtuallog_loglets.memory import MemoryProvider
from virtuallog_server.config.node_config import NodeConfig
from virtuallog_server.database.role import STORE
from virtuallog_server.node.node import Node
from virtuallog_server.node.ports import NodePorts
from virtuallog_server.storage.identity import Identity
from virtuallog_simulation.world.store_disk import SimulatedDirectory, StoreDisk


@attrs.define
class SharedMetaStore:
    """A MetaStoreProvider with one register for all nodes of a test."""

    register: MemoryMetaStore = attrs.field(factory=MemoryMetaStore)
    interfaces: Sequence[Interface] = ()

    def open(self, members: Sequence[NodeId], environment: Environment) -> MemoryMetaStore:
        return self.register

    async def serve(self, members: Sequence[NodeId], environment: NodeEnvironment) -> Handlers:
        return {}


@attrs.frozen
class Pong:
    """The reply to a Ping."""


@attrs.frozen
class Ping(Request[Pong]):
    """The request that `FragileProvider` serves."""


@attrs.define
class FragileProvider(MemoryProvider):
    """A kind with a role that opens, or does not, and breaks on demand."""

    kind: str = "fragile"
    corrupt: bool = False
    opening_seconds: float = 0.0
    forgotten: list[int] = attrs.field(factory=list)
    environment: NodeEnvironment | None = None
    interfaces: Sequence[Interface] = (
        Interface(schema=None, methods=(Method(name="ping", request=Ping, reply=Pong),)),
    )

    async def serve(self, environment: NodeEnvironment) -> Handlers:
        if self.corrupt:
            raise CorruptionError("a bad block")
        await environment.clock.sleep(self.opening_seconds)
        self.environment = environment
        return {Ping: lambda request, done: done(Pong())}

    async def forget(self, lowest_live_version: int) -> None:
        self.forgotten.append(lowest_live_version)


PEERS = tuple(NodeAddress(id=node, address=f"127.0.0.1:{7000 + node}") for node in (1, 2, 3))


CLIENT = NodeId(99)


@attrs.define
class World:
    """Three disks, one network, one register."""

    network: SimulatedNetwork
    nursery: trio.Nursery
    random: random.Random = attrs.field(factory=lambda: random.Random(7))
    metastore: SharedMetaStore = attrs.field(factory=SharedMetaStore)
    memory: MemoryProvider = attrs.field(factory=MemoryProvider)
    disks: dict[int, Disk] = attrs.field(factory=dict)
    stores: dict[int, SimulatedKeyValuesDisk] = attrs.field(factory=dict)
    replicas: dict[int, StoreDisk] = attrs.field(factory=dict)
    """Stores of databases."""
    opening_seconds: float = 0.0
    """Seconds that a store takes to open."""
    processes: dict[int, tuple[Process, trio.CancelScope]] = attrs.field(factory=dict)
    boots: int = 0
    origins_read: int = 0
    claims: list[tuple[Mapping[NodeId, bytes], int]] = attrs.field(factory=list)
    """Claims of the origin: the data directories, and the number of registers at that time."""

    async def start(
        self,
        node: int,
        *others: LogletProvider,
        config: Mapping[str, Any] | None = None,
        origin: Origin | None = None,
    ) -> Node:
        """Start a node, on the disk that it left behind; if that is new, with what was restored for it."""
        self.boots += 1
        process = Process(NodeId(node), self.boots)
        clock = SimulatedClock(process)
        storage = self.disks.setdefault(node, Disk(self.random)).mount()

        async def key_values(role: str) -> DurableMap:
            assert role == "paxos"
            await clock.sleep(self.opening_seconds)
            return self.stores.setdefault(node, SimulatedKeyValuesDisk(self.random)).open(process, clock)

        async def no_storage(role: str) -> Any:
            raise AssertionError(role)

        async def local_store(role: str) -> SimulatedDirectory:
            disk = self.replicas.setdefault(node, StoreDisk(random=self.random))
            return SimulatedDirectory.of(disk, process, clock)

        async def restored() -> Origin | None:
            self.origins_read += 1
            return origin

        async def claim(stores: Mapping[NodeId, bytes]) -> None:
            self.claims.append((stores, len(self.metastore.register.values)))
            if len(self.claims) <= 2:
                raise UnavailableError("the place is away")

        ports = NodePorts(
            services=self.network.services(process, clock),
            clock=clock,
            random=random.Random(self.random.random()),
            storage=no_storage,
            key_values=key_values,
            local_store=local_store,
            stores_present=[("stores", STORE)] if node in self.replicas and self.replicas[node].content.pairs else [],
            origin=restored,
            claim_origin=claim,
        )
        made = Node(
            ports,
            NodeConfig(
                **{
                    "id": node,
                    "data": Path(),
                    "listen": f"127.0.0.1:{7000 + node}",
                    "peers": PEERS,
                    "loglet": "memory",
                    **(config or {}),
                }
            ),
            await Identity.open(storage, NodeId(node)),
            providers={"memory": self.memory, **{provider.kind: provider for provider in others}},
            metastore=self.metastore,
        )
        self.network.listen(process, made.handlers)
        scope = trio.CancelScope()
        self.processes[node] = process, scope
        await self.nursery.start(self._run, made, scope)
        return made

    async def _run(self, node: Node, scope: trio.CancelScope, *, task_status: trio.TaskStatus[None]) -> None:
        try:
            with scope:
                await node.run(task_status=task_status)
        except* CrashedError:
            assert scope.cancel_called  # a store is flushed in the end, and this one is dead

    def stop(self, node: int) -> None:
        """Pull the plug."""
        process, scope = self.processes.pop(node)
        process.crash()
        scope.cancel()
        self.disks[node].crash()
        if node in self.replicas:
            self.replicas[node].crash()

    def client(self) -> SimulatedServices:
        process = Process(CLIENT)
        return self.network.services(process, SimulatedClock(process))

    async def status(self, node: int) -> NodeStatus:
        return await self.client().call(NodeId(node), GetStatus(), 5)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made:
        yield made


@asynccontextmanager
async def make_world() -> AsyncIterator[World]:
    timeline = Timeline()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timeline.run)
        yield World(SimulatedNetwork(timeline, random.Random(3)), nursery)
        nursery.cancel_scope.cancel()


async def until(condition: Callable[[], bool]) -> None:
    """Let the world go on until something holds; a minute of its time is more than anything needs."""
    with trio.fail_after(60):  # noqa: TID251 -- simulated time
        while not condition():
            await trio.sleep(0.05)  # noqa: TID251 -- simulated time


def register_of(status: NodeStatus) -> Register:
    return decode_untrusted(status.register)
