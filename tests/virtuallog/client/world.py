"""A log over memory loglets and a memory MetaStore: the client layer alone."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import cast

import attrs
import pytest
import trio

from virtuallog.client.appender import AppenderSettings
from virtuallog.client.virtual_log import VirtualLog, VirtualLogSettings
from virtuallog.contract import chain
from virtuallog.contract.batch import Batch
from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.placement import Cluster
from virtuallog.contract.ports import Environment, Request, Services
from virtuallog.contract.provider import LogletProvider
from virtuallog.contract.register import ClusterId, NodeEntry, Register, decode_untrusted
from virtuallog.contract.types import LogPosition, NodeId, PlacedBatch
from virtuallog.reconfiguration.chain_cache import ChainCache
from virtuallog.reconfiguration.chain_writer import ChainWriterSettings
from virtuallog.testing.memory_metastore import MemoryMetaStore
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process
from virtuallog_loglets.memory import MemoryProvider

SETTINGS = VirtualLogSettings(
    appender=AppenderSettings(give_up=20.0), chain=ChainWriterSettings(grace=1.0, watchdog_period=0.5)
)


class NoServices(Services):
    """Services without nodes: memory loglets make no calls."""

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
    roles: frozenset[str] = frozenset({"log-server"})
    """Roles of each of the four nodes."""

    def __attrs_post_init__(self) -> None:
        first = chain.genesis("memory", b"", attempt=1)
        entry = NodeEntry(store_id=b"s" * 16, addresses=(), roles=self.roles)
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


def fill_register(w: World) -> None:
    """Decide a register that is as full as planned changes may make it, and a little more."""
    register = w.register
    nodes = {node: attrs.evolve(entry, addresses=("x" * (20 << 10),)) for node, entry in register.nodes.items()}
    newer = attrs.evolve(register.chain, version=register.version + 1)
    w.metastore.values.append(attrs.evolve(register, nodes=nodes, chain=newer).encode())
    w.metastore.attempts.append(1)


async def contents(log: VirtualLog) -> list[tuple[LogPosition, bytes]]:
    """All payloads from the start to the tail."""
    tail = LogPosition((await log.check_tail()).tail)
    found = []
    async for placed in log.reader(LogPosition(0), tail).batches():
        if isinstance(placed, PlacedBatch):
            found += [(data.position, data.payload) for data in placed.records()]
    return found


def active_loglet(log: VirtualLog, world: World) -> Loglet:
    """A client of the active loglet, for changes that the VirtualLog does not know."""
    found = log.view.loglet(world.register.chain.last)
    return found.inner if isinstance(found, Posting) else found


@attrs.define(eq=False)
class Posting:
    """A loglet with posted appends on top: their outcome is that of its `append`."""

    inner: Loglet
    nursery: trio.Nursery
    _last: trio.Event = attrs.field(init=False)
    """Set when the latest post has been offered."""

    def __attrs_post_init__(self) -> None:
        self._last = trio.Event()
        self._last.set()

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def post_append(self, batch: Batch, *, opens: bool, done: Callable[[range | VirtualLogError], None]) -> None:
        before, self._last = self._last, trio.Event()
        self.nursery.start_soon(self._append, batch, opens, done, before, self._last)

    async def _append(
        self,
        batch: Batch,
        opens: bool,
        done: Callable[[range | VirtualLogError], None],
        before: trio.Event,
        offered: trio.Event,
    ) -> None:
        await before.wait()
        offered.set()
        try:
            places = await self.inner.append(batch, opens=opens)
        except VirtualLogError as error:
            done(error)
        else:
            done(places)


def post_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all loglets opened from now on take posted appends."""
    opened, posting = ChainCache.loglet, dict[int, tuple[Loglet, Posting]]()

    def loglet(view: ChainCache, segment: Segment) -> Loglet:
        inner = opened(view, segment)
        if id(inner) not in posting:
            posting[id(inner)] = inner, Posting(inner, view.environment.nursery)
        return cast(Loglet, posting[id(inner)][1])

    monkeypatch.setattr(ChainCache, "loglet", loglet)
