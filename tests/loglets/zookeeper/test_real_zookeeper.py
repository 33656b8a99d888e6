"""Loglets in a real ZooKeeper, as Debian packages it: the contract, servers that are killed, connections that are cut."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from tests.loglets.zookeeper.load import LoadWriter, check, read_all
from tests.loglets.zookeeper.proxy import open_proxy
from tests.simulation.conformance.fixtures import NoServices
from tests.zookeeper_server import open_ensemble, open_zookeeper
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.diagnosis import COMBINED
from virtuallog.contract.ports import Clock, Environment
from virtuallog.contract.types import Sealed
from virtuallog.exactly_once.slot_offsets import SLOT
from virtuallog.runtime.clock import SystemClock
from virtuallog.testing.loglet_suite import CLAUSES, Clause, Opener, run_clause
from virtuallog_loglets.zookeeper import ZooKeeperProvider
from virtuallog_loglets.zookeeper.config import ZooKeeperConfig
from virtuallog_loglets.zookeeper.loglet import ZooKeeperLoglet

pytestmark = [pytest.mark.processes]
PATIENCE_SECONDS = 60.0
CLIENTS = 3


@attrs.define(eq=False)
class RealClients:
    """Each has a connection of its own. Implements the fixture of the conformance suite, too."""

    hosts: str
    nursery: trio.Nursery
    contiguous: bool = False
    clock: Clock = attrs.field(factory=SystemClock)
    random: random.Random = attrs.field(factory=random.Random)
    providers: list[ZooKeeperProvider] = attrs.field(factory=lambda: [ZooKeeperProvider() for _ in range(CLIENTS)])
    versions: itertools.count[int] = attrs.field(factory=lambda: itertools.count(1))

    def client(self, number: int = 0, segment: SegmentId = SegmentId(1, 1)) -> ZooKeeperLoglet:  # noqa: B008 -- frozen
        environment = Environment(services=NoServices(), clock=self.clock, random=self.random, nursery=self.nursery)
        config = ZooKeeperConfig(hosts=self.hosts, root="/a/b").encode()
        loglet = self.providers[number].open(segment, config, environment)
        assert isinstance(loglet, ZooKeeperLoglet)
        return loglet

    async def fresh(self) -> Opener:
        segment, numbers = SegmentId(next(self.versions), 7), itertools.cycle(range(CLIENTS))
        return lambda: self.client(next(numbers), segment)

    def writers(self) -> list[LoadWriter]:
        return [
            LoadWriter(self.client(number), self.clock, SessionId(bytes([65 + number]) * 16))
            for number in range(CLIENTS)
        ]


@asynccontextmanager
async def clients_of(hosts: str) -> AsyncIterator[RealClients]:
    async with trio.open_nursery() as nursery:
        yield RealClients(hosts, nursery)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def under_load(clients: RealClients) -> AsyncIterator[list[LoadWriter]]:
    """Once each writer has something in the log; then all must come to an end, and nothing be lost, doubled or out of order."""
    writers = clients.writers()
    with clients.clock.timeout(PATIENCE_SECONDS) as patience:
        async with trio.open_nursery() as nursery:
            for writer in writers:
                nursery.start_soon(writer.run)
            await progress(writers, clients.clock)
            yield writers
            await progress(writers, clients.clock)
            for writer in writers:
                writer.stopped = True
        await clients.client().seal()
        tail = await clients.client(1).check_tail()
        assert isinstance(tail, Sealed)
        check(writers, await read_all(clients.client(2)))
    assert not patience.cancelled_caught, f"not done in {PATIENCE_SECONDS} s"


async def progress(writers: list[LoadWriter], clock: Clock) -> None:
    """Every writer has ten batches more in the log."""
    wanted = [len(writer.placed) + 10 for writer in writers]
    while any(len(writer.placed) < count for writer, count in zip(writers, wanted, strict=True)):
        await clock.sleep(0.01)


async def test_contract(tmp_path: Path) -> None:
    """Every clause, with clients on different connections, all at once. The largest entries and batches are among them. `explain`
    asks several loglets at once over a new connection, and finds all of them well."""
    async with (
        open_zookeeper(tmp_path) as server,
        clients_of(server.address) as clients,
        trio.open_nursery() as nursery,
    ):
        for clause in CLAUSES:
            nursery.start_soon(_keep, clause, clients)
        nursery.start_soon(_explain, clients)


async def _explain(clients: RealClients) -> None:
    segments = [SegmentId(1000 + number, 7) for number in range(3)]
    environment = Environment(
        services=NoServices(), clock=clients.clock, random=clients.random, nursery=clients.nursery
    )
    provider, config = ZooKeeperProvider(), ZooKeeperConfig(hosts=clients.hosts, root="/a/b").encode()

    async def ask(segment: SegmentId) -> None:
        *_, together = await provider.explain(segment, config, environment)
        assert together.source == COMBINED
        assert not together.problem
        assert together.facts["tail"] == SLOT

    for segment in segments:
        await clients.client(segment=segment).append(Batch.build(SessionId(b"s" * 16), 0, [b"entry"]), opens=True)
    async with trio.open_nursery() as nursery:
        for segment in segments:
            nursery.start_soon(ask, segment)


async def _keep(clause: Clause, clients: RealClients) -> None:
    try:
        await run_clause(clause, clients)
    except BaseException as error:
        error.add_note(f"clause: {clause.__name__}")
        raise


async def test_a_killed_server_loses_nothing(tmp_path: Path) -> None:
    """kill -9 in the middle of appends; it comes back with what it has synced, and its clients go on by themselves."""
    async with open_zookeeper(tmp_path) as server, clients_of(server.address) as clients, under_load(clients):
        await server.stop()
        await server.start()


async def test_cut_connections_lose_nothing(tmp_path: Path) -> None:
    """Again and again in the middle of appends: unacknowledged ones may have happened, and are found."""
    async with (
        open_zookeeper(tmp_path) as server, open_proxy(server.port) as proxy,
        clients_of(proxy.address) as clients, under_load(clients) as writers,
    ):  # fmt: skip
        for _ in range(5):
            await proxy.cut()
            await progress(writers, clients.clock)
        assert proxy.cuts >= 5 * CLIENTS


async def test_an_ensemble_outlives_its_leader(tmp_path: Path) -> None:
    """One of three is killed, the one that orders: the others elect another one, and clients find it."""
    async with open_ensemble(tmp_path) as servers:
        (leader,) = [server for server in servers if await server.mode() == "leader"]
        async with clients_of(",".join(server.address for server in servers)) as clients, under_load(clients):
            await leader.stop()
