"""Every clause of the MetaStore contract, over the simulated world, over real RocksDB, and over the model."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from tests.metastore.world import FIVE, THREE, A, World, world
from virtuallog.contract.metastore import MetaStore
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import NodeId
from virtuallog.runtime.rocks_map import RocksMap
from virtuallog.testing.memory_metastore import MemoryMetaStore
from virtuallog.testing.metastore_suite import CLAUSES, Clause, run_clause
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process


@attrs.define
class OverWorld:
    """A register of three members on five nodes."""

    world: World
    nodes: Sequence[NodeId] = FIVE
    random: random.Random = attrs.field(factory=lambda: random.Random(5))
    clock: Clock = attrs.field(factory=lambda: SimulatedClock(Process(A)))
    clients: int = 0

    async def open(self) -> MetaStore:
        self.clients += 1
        return self.world.client(*THREE)


@attrs.define
class OverMemory:
    """One object for all clients."""

    store: MemoryMetaStore = attrs.field(factory=MemoryMetaStore)
    nodes: Sequence[NodeId] = FIVE
    random: random.Random = attrs.field(factory=lambda: random.Random(5))
    clock: Clock = attrs.field(factory=lambda: SimulatedClock(Process(A)))
    clients: int = 0

    async def open(self) -> MetaStore:
        self.clients += 1
        return self.store


async def clients_of(clause: Clause, fixture: OverWorld | OverMemory) -> int:
    """Run a clause, which fails the test if its promise is broken; return the number of clients it
    used."""
    await run_clause(clause, fixture)
    return fixture.clients


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.__name__)
async def test_paxos_in_the_simulated_world(clause: Clause, autojump_clock: trio.testing.MockClock) -> None:
    """Our register keeps every clause, on simulated disks and a simulated network."""
    async with world() as metastores:
        await metastores.start(FIVE)
        assert await clients_of(clause, OverWorld(metastores)) > 0


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.__name__)
async def test_paxos_over_rocksdb(clause: Clause, tmp_path: Path) -> None:
    """Our register keeps every clause on real disks and threads. The network is simulated, in real
    time."""
    async with world() as metastores, rocks_stores(tmp_path) as stores:
        metastores.stores = stores
        await metastores.start(FIVE)
        assert await clients_of(clause, OverWorld(metastores)) > 0
        metastores.crash(*FIVE)


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.__name__)
async def test_model(clause: Clause, autojump_clock: trio.testing.MockClock) -> None:
    """The in-memory register that other tests rely on keeps the same promises."""
    assert await clients_of(clause, OverMemory()) > 0


@asynccontextmanager
async def rocks_stores(directory: Path) -> AsyncIterator[dict[NodeId, RocksMap]]:
    stores = {node: await RocksMap.open(directory / str(node)) for node in FIVE}
    try:
        yield stores
    finally:
        for store in stores.values():
            await store.close()
