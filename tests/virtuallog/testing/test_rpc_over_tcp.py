"""The RPC, and whole clusters, over simulated TCP that is cut, stalled, reset and half-open."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import pytest
import trio

from tests.simulation.world.stage import WAL
from tests.virtuallog.rpc.shop import IDENTITY, Everything, Shop, Store, Stored, interfaces
from tests.virtuallog.testing.tcp_pair import A, B, World, simulated
from virtuallog.client.reader import records
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import OverloadedError, UnavailableError
from virtuallog.contract.ports import Services
from virtuallog.contract.types import Data, LogPosition, NodeId
from virtuallog.rpc.link import Peer
from virtuallog.rpc.server import RpcServer
from virtuallog.rpc.services import RpcServices
from virtuallog.rpc.session import SILENCE_SECONDS
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.network import LinkQuality, SimulatedNetwork
from virtuallog.testing.sim.process import CrashedError, Process
from virtuallog.testing.sim.tcp_network import SimulatedConnection, SimulatedTcpNetwork, StreamQuality
from virtuallog.testing.sim.timeline import Timeline
from virtuallog_database.snapshots.wire import SNAPSHOTS
from virtuallog_loglets.native import NativeProvider
from virtuallog_simulation.runs.runner import run_seed
from virtuallog_simulation.world import scheduler
from virtuallog_simulation.world.cluster import Cluster, ClusterPlan
from virtuallog_simulation.world.options import Options
from virtuallog_simulation.world.transport import (
    STREAMS,
    STREAMS_SHARE,
    Calls,
    Streams,
    Transport,
    address_of,
    draw,
    node_at,
)
from virtuallog_simulation.world.world import open_world

# -- RPC over it ------------------------------------------------------------------------------------------------


def _store(position: int) -> Store:
    return Store(segment=SegmentId(1, 2), batch=b"b" * 100, position=position)


@asynccontextmanager
async def shop(world: World) -> AsyncIterator[tuple[Shop, Services]]:
    """Run a shop on B; yield it and the services of a client on A."""
    kept, clock = Shop(), SimulatedClock(world.a)
    server = RpcServer(kept.handlers(), interfaces(), lambda: IDENTITY, SimulatedClock(world.b))
    client = RpcServices(
        interfaces(), lambda _: Peer((address_of(B),)), lambda to: world.streams.connect(world.a, to), clock,
        random.Random(3),
    )  # fmt: skip
    world.nursery.start_soon(server.serve, [world.listener()])
    await world.nursery.start(client.run)
    yield kept, client


@simulated(StreamQuality(read_bytes_max=1))
async def test_calls_over_a_stream_that_is_cut_at_every_byte(world: World) -> None:
    """Calls work over a stream with a frame in as many pieces as it has bytes."""
    async with shop(world) as (kept, client):
        for position in range(40, 45):
            assert await client.call(B, _store(position), 1.0) == Stored(position + 1)
        assert kept.stored == [_store(position) for position in range(40, 45)]


@simulated()
async def test_calls_over_a_reset_connection_are_unknown_and_the_next_one_connects_again(world: World) -> None:
    """A call over a reset connection was executed, and only its answer is gone; the next one
    connects again."""
    async with shop(world) as (kept, client):
        assert await client.call(B, _store(40), 1.0) == Stored(41)
        connection = world.connection
        world.nursery.start_soon(_reset_soon, world)
        world.network.link(B, A).clogged_until = trio.current_time() + 0.1
        with pytest.raises(UnavailableError, match="connection reset by peer"):
            await client.call(B, _store(41), 1.0)

        assert await client.call(B, _store(42), 1.0) == Stored(43)
        assert len(kept.stored) == 3
        assert not connection.is_open


async def _reset_soon(world: World) -> None:
    await trio.sleep(0.05)
    world.connection.reset()


@simulated()
async def test_calls_over_a_half_open_connection_find_another_after_silence(world: World) -> None:
    """A session gives up a half-open connection after a time without bytes, and the next call
    connects again."""
    async with shop(world) as (_, client):
        assert await client.call(B, _store(40), 1.0) == Stored(41)
        world.connection.vanish()
        with pytest.raises(UnavailableError):
            await client.call(B, _store(41), SILENCE_SECONDS + 1)

        assert await client.call(B, _store(42), 1.0) == Stored(43)


# -- chance -----------------------------------------------------------------------------------------------------

SHOP = NodeId(1)
CLIENTS = tuple(NodeId(number) for number in (11, 12, 13))
CHAOS_SECONDS = 30.0
IDLE_SECONDS = 60.0
"""Longer than any end believes in a dead connection."""


@attrs.define(eq=False)
class Market:
    """A shop that dies and comes back, clients that call it all the time, and connections that break."""

    streams: SimulatedTcpNetwork
    random: random.Random
    nursery: trio.Nursery
    shop: Shop = attrs.field(factory=Shop)
    process: Process = attrs.field(factory=lambda: Process(SHOP))
    server: RpcServer = attrs.field(init=False)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    outcomes: dict[int, list[Any]] = attrs.field(factory=dict)
    """Outcomes of each call, by its number."""
    asked: dict[int, Any] = attrs.field(factory=dict)
    """The reply that each call must get, if it gets one."""

    async def open(self) -> None:
        """Start the next life of the shop."""
        process = self.process = Process(SHOP, self.process.boot + 1)
        self.streams.start(SHOP)
        self.server = RpcServer(self.shop.handlers(), interfaces(), lambda: IDENTITY, SimulatedClock(process))
        self.scope = trio.CancelScope()
        listener = self.streams.listen(process, address_of(SHOP))
        try:
            with self.scope:
                await self.server.serve([listener])
        except* CrashedError:
            pass

    def end(self, *, power: bool) -> None:
        self.process.crash()
        self.streams.end(self.process, power=power)
        self.scope.cancel()

    async def client(self, node: NodeId) -> Services:
        process = Process(node)
        services = RpcServices(
            interfaces(), lambda _: Peer((address_of(SHOP),)), lambda to: self.streams.connect(process, to),
            SimulatedClock(process, rate=self.random.uniform(0.9, 1.1)), random.Random(self.random.random()),
        )  # fmt: skip
        await self.nursery.start(services.run)
        return services

    def call(self, services: Services) -> None:
        """Post one call, small or large."""
        number = 10 + len(self.outcomes)
        told = self.outcomes[number] = []
        if self.random.random() < 0.8:
            self.asked[number] = Stored(number + 1)
            services.post(SHOP, _store(number), told.append, self.random.choice((0.5, 2.0, 8.0)))
        else:
            large = Everything(count=number, raw_bytes=bytes(self.random.choice((0, 1000, 40_000))))
            self.asked[number] = large
            services.post(SHOP, large, told.append, self.random.choice((2.0, 8.0)))

    async def call_for_ever(self, services: Services) -> None:
        while True:
            await trio.sleep(self.random.expovariate(1 / self.random.choice((0.01, 0.2, 2.0))))
            for _ in range(self.random.choice((1, 1, 5))):
                self.call(services)

    async def break_for_ever(self) -> None:
        while True:
            await trio.sleep(self.random.expovariate(1.0))
            connections = self.streams.connections
            dice = self.random.random()
            if dice < 0.15:
                self.end(power=self.random.random() < 0.5)
                await trio.sleep(self.random.random() * 3)
                self.nursery.start_soon(self.open)
            elif dice < 0.3:
                self.process.pause()
                await trio.sleep(self.random.random() * 7)
                self.process.resume()
            elif dice < 0.5:
                link = self.streams.network.link(*self.random.sample((SHOP, self.random.choice(CLIENTS)), 2))
                link.blocked = True
                await trio.sleep(self.random.random() * 7)
                link.blocked = False
            elif connections:
                self._hurt(self.random.choice(connections))

    def _hurt(self, connection: SimulatedConnection) -> None:
        match self.random.randrange(4):
            case 0:
                connection.reset()
            case 1:
                connection.reset(self.random.choice(connection.ends))
            case 2:
                connection.stall(self.random.random() * 7)
            case _:
                connection.vanish()


async def _chaos(seed: int) -> int:
    """Run with faults, then check the promises of all calls; return the number of answered ones."""
    source = random.Random(f"market {seed}")
    links = LinkQuality(
        loss=source.choice((0, 0.05)), duplicate=source.choice((0, 0.1)), reorder=source.choice((0, 0.3))
    )
    network = SimulatedNetwork(Timeline(), random.Random(seed), links)
    quality = StreamQuality(
        cut=source.choice((0, 0.3)),
        buffer_bytes=source.choice((1000, 100_000)),
        patience_seconds=source.choice((8, 900)),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(network.timeline.run)
        market = Market(SimulatedTcpNetwork(network, source, node_at, quality), source, nursery)
        nursery.start_soon(market.open)
        clients = [await market.client(node) for node in CLIENTS]
        with trio.move_on_after(CHAOS_SECONDS):
            async with trio.open_nursery() as chaos:
                for services in clients:
                    chaos.start_soon(market.call_for_ever, services)
                await market.break_for_ever()
        answered = await _peace(market, clients)
        nursery.cancel_scope.cancel()
    return answered


async def _peace(market: Market, clients: Sequence[Services]) -> int:
    market.process.resume()
    if not market.process.alive:
        market.nursery.start_soon(market.open)
    market.streams.network.heal()
    market.streams.network.set_quality(LinkQuality())
    await trio.sleep(IDLE_SECONDS)
    for services in clients:
        assert await services.call(SHOP, _store(5000), 1.0) == Stored(5001)
    assert len(market.streams.connections) == len(clients), "each client has one, and the server keeps no dead ones"
    for number, told in market.outcomes.items():
        assert len(told) == 1, f"call {number} was told {told}"
        assert isinstance(told[0], UnavailableError | OverloadedError) or told[0] == market.asked[number]
    executed = [request.position for request in market.shop.stored if request.position != 5000]
    assert len(executed) == len(set(executed)), "no call is executed twice: the RPC repeats nothing"
    answered = {number for number, (outcome,) in market.outcomes.items() if isinstance(outcome, Stored)}
    assert answered <= set(executed)
    return len(answered)


@pytest.mark.parametrize("seed", range(10))
def test_calls_are_executed_once_at_most_and_told_once(seed: int) -> None:
    """Calls are executed at most once and reported once; afterwards calls work again, without dead
    connections."""
    assert scheduler.run(seed, partial(_chaos, seed)) > 10


# -- clusters over it -------------------------------------------------------------------------------------------


def test_registers_appends_and_reads_over_streams_that_are_cut_at_every_byte() -> None:
    """A cluster works with nodes that never read more than one byte at a time."""

    async def story() -> None:
        async with open_world(1, Options(transport=STREAMS)) as world:
            cluster = Cluster(world, ClusterPlan(nodes=3, members=3, kinds=(partial(NativeProvider, WAL),)))
            assert isinstance(world.transport, Streams)
            world.transport.streams.quality = StreamQuality(read_bytes_max=1)
            cluster.start()
            await cluster.wait_ready()
            async with cluster.client("client") as client:
                assert await client.log.append_many([b"one", b"two"]) == range(2)
                assert (await client.log.reconfig_extend("native")).version == 2
                assert await client.log.append(b"three") == 2
                placed = await client.log.read(LogPosition(0), LogPosition(2), 1000)
                found = [record for item in placed for record in records(item)]
                assert [record.payload for record in found if isinstance(record, Data)] == [b"one", b"two"]

    scheduler.run(1, story)


def test_databases_hand_each_other_snapshots_over_streams() -> None:
    """A server that has lost its database gets a snapshot of another one.

    Seed 519 of `zelos`, at 12b3b5d, where its own client refused it, for good.
    """

    async def story() -> None:
        async with open_world(1, Options(transport=STREAMS)) as world:
            Cluster(world, ClusterPlan(nodes=3, members=3, kinds=(partial(NativeProvider, WAL),)))
            assert isinstance(world.transport, Streams)
            assert SNAPSHOTS in world.transport.interfaces

    scheduler.run(1, story)


@pytest.mark.parametrize(("scenario", "seed"), [("cluster", 1), ("cluster", 2), ("register", 1), ("register", 2)])
def test_every_promise_is_kept_over_byte_streams(scenario: str, seed: int) -> None:
    """The product's whole RPC stack keeps every promise under the faults of TCP."""
    report = run_seed(seed, scenario, options=Options(transport=STREAMS))

    assert report.violations == ()
    assert report.counts["rpc over streams"] == 1
    assert report.counts["segments"] > 100


@pytest.mark.parametrize("transport", [None, STREAMS])
def test_a_run_says_how_its_processes_talked(transport: str | None) -> None:
    """The trace names calls, also those that travelled as bytes, and the segments that carried them."""
    report = run_seed(3, "register", options=Options(transport=transport), messages=True)
    told = "".join(map(repr, report.history.events))

    assert "Prepare(" in told
    assert ("Carried(" in told) == bool(report.counts["rpc over streams"])


def test_a_share_of_the_seeds_runs_over_streams() -> None:
    """About the announced share of the seeds runs over streams."""
    network = SimulatedNetwork(Timeline(), random.Random(1))

    def draw_for(seed: int) -> Transport:
        return draw(network, lambda purpose: random.Random(f"{seed} {purpose}"), None, (), ())

    drawn = [draw_for(seed) for seed in range(1000)]
    share = sum(not isinstance(transport, Calls) for transport in drawn) / len(drawn)

    assert share == pytest.approx(STREAMS_SHARE, abs=0.03)
