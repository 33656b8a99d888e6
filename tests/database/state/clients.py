"""Two clients of one storage, of any kind, as two processes have them. All but RocksDB's run on simulated networks and disks."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs
import trio

from tests.database.state.replica_world import worlds
from tests.loglets.paxos.world import World, playing
from tests.loglets.zookeeper.world import running_bench
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process
from virtuallog.testing.sim.zookeeper import ZooKeeperFaults
from virtuallog_database.state.state import State
from virtuallog_database.state.storage import StateStorage
from virtuallog_database.state.storages.memory import MemoryStorage
from virtuallog_database.state.storages.replicated_log import ReplicatedLogStorage
from virtuallog_database.state.storages.rocks import open_rocks_storage
from virtuallog_database.state.storages.zookeeper import ZooKeeperStorage
from virtuallog_database.state.variable import VERSION_BYTES, StateEntry

ROOT: Final = "/a/state"
VERSIONS: Final = random.Random(7)
"""Source of versions, one for all: no two may be the same."""


@attrs.define(eq=False)
class Clients:
    """Two storages that keep the same entries; they may be one object."""

    first: StateStorage
    second: StateStorage
    clock: Clock = attrs.field(factory=lambda: SimulatedClock(Process(NodeId(9))))
    _random: random.Random = attrs.field(default=VERSIONS)

    def state(self, storage: StateStorage | None = None, settle_seconds: float = 20.0) -> State:
        """A state over the first storage, or this one."""
        return State(storage or self.first, settle_seconds=settle_seconds, clock=self.clock, random=self._random)

    def entry(self, value: bytes) -> StateEntry:
        """An entry with a new version."""
        return StateEntry(value, self._random.randbytes(VERSION_BYTES))


Opened: TypeAlias = Callable[[], AbstractAsyncContextManager[Clients]]
"""Opens clients of a new storage."""


VALUE_BYTES_MAX: Final = 10 << 20
"""Largest value of those that have no limit of their own: to write 64 MiB takes long."""


@asynccontextmanager
async def memory(_: Path) -> AsyncIterator[Clients]:
    storage = MemoryStorage(value_bytes_max=VALUE_BYTES_MAX)
    yield Clients(storage, storage)


@asynccontextmanager
async def rocks(folder: Path) -> AsyncIterator[Clients]:
    async with open_rocks_storage(folder / "state") as storage:
        storage.value_bytes_max = VALUE_BYTES_MAX
        yield Clients(storage, storage)


@asynccontextmanager
async def replicated_log(_: Path) -> AsyncIterator[Clients]:
    """Three replicas, and a client beside each of two."""
    async with playing(replicas=3) as world:
        first, second, _log = await storages(world, 1, 2, 3)
        yield Clients(first, second)


@asynccontextmanager
async def zookeeper(_: Path) -> AsyncIterator[Clients]:
    """Three servers, of which each lags behind."""
    async with running_bench(ZooKeeperFaults(lag_seconds=0.05)) as bench:
        yield Clients(ZooKeeperStorage(bench.znodes(), ROOT), ZooKeeperStorage(bench.znodes(), ROOT))


@asynccontextmanager
async def virtual_log(_: Path) -> AsyncIterator[Clients]:
    """A replica for each client."""
    async with worlds() as world:
        first, second = await world.storage(1), await world.storage(2)
        for storage in (first, second):
            storage.value_bytes_max = VALUE_BYTES_MAX
        yield Clients(first, second, world.handles[1].clock)


STORAGES: Final[Mapping[str, Callable[[Path], AbstractAsyncContextManager[Clients]]]] = {
    "memory": memory,
    "rocks": rocks,
    "replicated log": replicated_log,
    "zookeeper": zookeeper,
    "virtual log": virtual_log,
}


async def storages(world: World, *nodes: int, **settings: Any) -> list[ReplicatedLogStorage]:
    """A log with a replica and a client on each of these nodes."""
    return [ReplicatedLogStorage(await world.start_log(node), **settings) for node in nodes]


@attrs.define(eq=False)
class Deaf:
    """A storage whose answers to writes are lost, or whose requests are."""

    inner: StateStorage
    answers_lost: int = 0
    """Writes that happen, and are not answered."""
    requests_lost: int = 0
    """Writes that do not happen, and are not answered."""
    behind: Callable[[], Awaitable[Any]] | None = None
    """Called once, when the next answer is lost: what other clients do meanwhile."""

    @property
    def value_bytes_max(self) -> int:
        return self.inner.value_bytes_max

    async def get(self, name: str) -> StateEntry | None:
        return await self.inner.get(name)

    async def names(self) -> frozenset[str]:
        return await self.inner.names()

    async def set(self, name: str, entry: StateEntry, expected: bytes, *, may_create: bool) -> bool:
        return await self._lossy(lambda: self.inner.set(name, entry, expected, may_create=may_create))

    async def expunge(self, name: str, expected: bytes) -> bool:
        return await self._lossy(lambda: self.inner.expunge(name, expected))

    async def _lossy(self, write: Callable[[], Awaitable[bool]]) -> bool:
        if self.requests_lost:
            self.requests_lost -= 1
            raise UnavailableError("the request is lost")
        done = await write()
        if self.answers_lost:
            self.answers_lost -= 1
            behind, self.behind = self.behind, None
            if behind is not None:
                await behind()
            raise UnavailableError("the answer is lost")
        return done


@attrs.define(eq=False)
class _CancelAt(trio.abc.Instrument):
    """Cancels a scope when its task has come to its n-th wait."""

    task: trio.lowlevel.Task
    scope: trio.CancelScope
    left: int

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self.task:
            self.left -= 1
            if self.left == 0:
                self.scope.cancel()


async def cancelled_at(wait: int, call: Callable[[], Awaitable[Any]]) -> bool:
    """Call, and cancel it at its n-th wait; False if it has fewer."""
    with trio.CancelScope() as scope:
        instrument = _CancelAt(trio.lowlevel.current_task(), scope, wait)
        trio.lowlevel.add_instrument(instrument)
        try:
            await call()
        finally:
            trio.lowlevel.remove_instrument(instrument)
    return scope.cancelled_caught
