"""A log over memory loglets and a memory MetaStore: the client layer alone, nothing else to blame."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import attrs
import trio

from loglets.memory import MemoryProvider
from virtuallog import chain
from virtuallog.api import Cluster, Loglet, LogletProvider
from virtuallog.appender import AppenderSettings
from virtuallog.chain_writer import ChainWriterSettings
from virtuallog.ports import Environment, Request, Services
from virtuallog.register import ClusterId, NodeEntry, Register, decode_untrusted
from virtuallog.testing.clock import SimulatedClock
from virtuallog.testing.memory_metastore import MemoryMetaStore
from virtuallog.testing.process import Process
from virtuallog.types import LogPosition, NodeId, PlacedBatch
from virtuallog.virtual_log import VirtualLog, VirtualLogSettings

SETTINGS = VirtualLogSettings(
    appender=AppenderSettings(give_up=20.0), chain=ChainWriterSettings(grace=1.0, watchdog_period=0.5)
)


class NoServices(Services):
    """Memory loglets call nobody."""

    def post(self, *_: object, **__: object) -> None:
        raise AssertionError("no calls expected")

    async def call(self, *_: object, **__: object) -> Request[object]:  # type: ignore[override]
        raise AssertionError("no calls expected")


@attrs.define
class World:
    nursery: trio.Nursery
    providers: Mapping[str, LogletProvider] = attrs.field(
        factory=lambda: {"memory": MemoryProvider(), "sparse": MemoryProvider(kind="sparse", align=4)}
    )
    metastore: MemoryMetaStore = attrs.field(factory=MemoryMetaStore)
    clients: int = 0

    def __attrs_post_init__(self) -> None:
        first = chain.genesis("memory", b"", attempt=1)
        entry = NodeEntry(store_id=b"s" * 16, addresses=(), roles=frozenset())
        nodes = {NodeId(node): entry for node in (1, 2, 3, 4)}
        register = Register(cluster=ClusterId(b"c" * 16), chain=first, members=(NodeId(1),), nodes=nodes)
        self.metastore.values.append(register.encode())
        self.metastore.attempts.append(1)

    def client(self, nursery: trio.Nursery | None = None) -> VirtualLog:
        self.clients += 1
        environment = Environment(
            services=NoServices(),
            clock=SimulatedClock(Process(NodeId(self.clients))),
            random=random.Random(self.clients),
            nursery=nursery or self.nursery,
        )
        return VirtualLog(self.metastore, self.providers, environment, planner=no_nodes, settings=SETTINGS)

    @property
    def register(self) -> Register:
        return decode_untrusted(self.metastore.values[-1])

    @property
    def registers(self) -> list[Register]:
        return [decode_untrusted(value) for value in self.metastore.values]


async def no_nodes(_: Register) -> Cluster:
    return Cluster(members=(), planner=NodeId(1))


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    async with trio.open_nursery() as nursery:
        yield World(nursery)
        nursery.cancel_scope.cancel()


async def contents(log: VirtualLog) -> list[tuple[LogPosition, bytes]]:
    """All data from the start to the tail."""
    tail = LogPosition((await log.check_tail()).tail)
    found = []
    async for placed in log.reader(LogPosition(0), tail).batches():
        if isinstance(placed, PlacedBatch):
            found += [(data.position, data.payload) for data in placed.records()]
    return found


def active_loglet(log: VirtualLog, world: World) -> Loglet:
    """A client of the active loglet, for acting behind the back of the VirtualLog."""
    return log.view.loglet(world.register.chain.last)
