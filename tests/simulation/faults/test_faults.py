"""The nemesis: each class of faults takes effect and is counted, none depends on another, and what is promised holds."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import attrs
import pytest
import trio

from virtuallog.contract.errors import CorruptionError, StorageError, VirtualLogError
from virtuallog.contract.ports import Done, DurableMap, Environment, File, Request, Services, Storage
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.history import Fault
from virtuallog_database.engines.core.keys import CURSOR
from virtuallog_loglets.native import NativeProvider
from virtuallog_simulation.faults import registry
from virtuallog_simulation.faults.fault_class import FaultClass
from virtuallog_simulation.faults.nemesis import LOST_MAX, FaultPlan, Nemesis
from virtuallog_simulation.faults.network import _across_ring
from virtuallog_simulation.faults.processes import DATABASE, REPLICAS
from virtuallog_simulation.faults.registry import CLASSES, LOSING, NAMES
from virtuallog_simulation.world import scheduler
from virtuallog_simulation.world.cluster import Cluster, ClusterPlan
from virtuallog_simulation.world.machine import Machine, MachinePorts
from virtuallog_simulation.world.options import Options
from virtuallog_simulation.world.world import World, open_world

NODES = tuple(NodeId(number) for number in range(1, 4))
CLIENT = NodeId(1001)
SECONDS = 3.0
LIMIT_SECONDS = 60.0
ACTS = tuple(fault for fault in CLASSES if fault.act is not None)
CARRIED_OUT = tuple(fault for fault in CLASSES if fault not in registry.ELSEWHERE)


@attrs.frozen
class Pong:
    """An answer."""


@attrs.frozen
class Ping(Request[Pong]):
    """A question."""


def answer(_: Any, done: Done) -> None:
    done(Pong())


async def busy(ports: MachinePorts) -> None:
    """A program that does, without an aim, all that faults can spoil. Its disk fails now and then: it carries on."""
    ports.listen({Ping: answer})
    storage, store = await ports.storage("native"), await ports.key_values(REPLICAS)
    with suppress(StorageError):
        await _refuse_damage(storage)
    with suppress(VirtualLogError):
        (await (await ports.local_store(DATABASE)).open()).write({CURSOR: bytes(8)})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_talk, ports.services, ports.clock.sleep)
        nursery.start_soon(_scribble, storage, ports.clock.sleep)
        nursery.start_soon(_note_down, store, ports.clock.sleep)


async def _talk(services: Services, sleep: Callable[[float], Awaitable[None]]) -> None:
    while True:
        for node in NODES:
            services.post(node, Ping(), lambda _: None, 1.0)
        await sleep(0.05)


async def _refuse_damage(storage: Storage) -> None:
    """Files hold nothing but what is written below, and zeros."""
    for name in await storage.names():
        file = await storage.open(name)
        if (await file.read(0, file.size)).strip(b"\0\xaa"):
            raise CorruptionError(f"{name} is damaged")


async def _scribble(storage: Storage, sleep: Callable[[float], Awaitable[None]]) -> None:
    """A new file, twenty writes over several sectors each, some reads."""
    number = 0
    while True:
        number += 1
        try:
            await storage.remove(str(number % 8))
            file: File = await storage.create(str(number % 8), 100_000)
            for at in range(20):
                await file.write_synced(at * 2000, [b"\xaa" * 2000])
                await file.read(at * 2000, 2000)
                await sleep(0.01)
        except VirtualLogError:
            await sleep(0.02)


async def _note_down(store: DurableMap, sleep: Callable[[float], Awaitable[None]]) -> None:
    try:
        while True:
            await store.write({b"key": b"value"})
            await store.get(b"key")
            await sleep(0.02)
    except StorageError:
        return  # for the rest of this life


def under(
    plan: FaultPlan,
    seed: int = 1,
    *,
    seconds: float = SECONDS,
    until: Sequence[str] = (),
    options: Options | None = None,
) -> tuple[World, Nemesis]:
    """Effects of the plan on busy machines, for so long, or until all these counters have gone up."""
    ended: list[tuple[World, Nemesis]] = []

    async def story() -> None:
        async with open_world(seed, options) as world:
            nemesis = Nemesis(world, start_machines(world), plan)
            nemesis.prepare()
            async with trio.open_nursery() as nursery, world.client(CLIENT) as client:
                nursery.start_soon(nemesis.run)
                nursery.start_soon(_call_around, client)
                await wait_for(world, until, seconds)
                nursery.cancel_scope.cancel()
            nemesis.stop()
            ended.append((world, nemesis))

    scheduler.run(seed, story)
    return ended[0]


def start_machines(world: World) -> dict[NodeId, Machine]:
    machines = {node: Machine(world, node, busy) for node in NODES}
    for machine in machines.values():
        machine.start()
    return machines


async def wait_for(world: World, counters: Sequence[str], seconds: float) -> None:
    await trio.sleep(SECONDS / 10 if counters else seconds)
    with trio.move_on_after(LIMIT_SECONDS):
        while missing(world, counters):
            await trio.sleep(0.2)


def missing(world: World, counters: Sequence[str]) -> list[str]:
    counts = world.counts + world.network.counts
    return [name for name in counters if not counts[name]]


async def _call_around(client: Environment) -> None:
    while True:
        for node in NODES:
            client.services.post(node, Ping(), lambda _: None, 1.0)
        await client.clock.sleep(0.05)


def struck(world: World, name: str) -> list[tuple[float, str]]:
    """When a class struck, and what."""
    events = [event for event in world.history.events if isinstance(event, Fault)]
    return [(event.time, event.what) for event in events if event.what.startswith(f"{name} ")]


# -- effect -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault", [fault for fault in CARRIED_OUT if "connection" not in fault.name], ids=lambda f: f.name
)
def test_each_class_takes_effect_and_proves_it(fault: FaultClass) -> None:
    """All its counters go up when it works alone, on disks that are slow enough to be hit in the middle of a write."""
    world, _ = under(FaultPlan(active={fault.name: 0.2, "slow disks": 1.0}, pace=0.3), until=fault.counters)

    assert missing(world, fault.counters) == []
    assert set(world.counts) & {other.name for other in ACTS} <= {fault.name}


@pytest.mark.parametrize("fault", [fault for fault in ACTS if "connection" in fault.name], ids=lambda fault: fault.name)
def test_connections_break_where_there_are_some(fault: FaultClass) -> None:
    """Between the nodes of a cluster whose messages travel as bytes."""

    async def story(world: World, cluster: Cluster) -> None:
        nemesis = Nemesis(world, cluster.machines, FaultPlan(active={fault.name: 0.2}))
        nemesis.prepare()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(nemesis.run)
            await wait_for(world, fault.counters, 0.0)
            nursery.cancel_scope.cancel()
        assert missing(world, fault.counters) == []

    with_cluster(story, Options(transport="streams"))


def with_cluster(story: Callable[[World, Cluster], Awaitable[None]], options: Options | None = None) -> None:
    """Three nodes of the product, that are ready."""

    async def main() -> None:
        async with open_world(1, options) as world:
            cluster = Cluster(world, ClusterPlan(nodes=3, members=3, kinds=(NativeProvider,)))
            cluster.start()
            await cluster.wait_ready()
            await story(world, cluster)

    scheduler.run(1, main)


def test_a_run_without_faults_has_none() -> None:
    """Nothing but calls is counted."""
    world, _ = under(FaultPlan(active={}))

    assert set(world.counts + world.network.counts) == {"requests", "replies"}


def test_what_an_option_forbids_does_not_happen() -> None:
    """Not even prepared."""
    plan = FaultPlan(active={"loss": 1.0, "kill": 1.0})
    world, nemesis = under(plan, options=Options(faults=("kill",)))

    assert (list(nemesis.plan.active), world.network.counts["lost"]) == (["kill"], 0)
    assert world.counts["kill"] > 0


# -- independence -------------------------------------------------------------------------------------------------


def test_acts_do_not_depend_on_what_other_classes_do() -> None:
    """The same links are clogged at the same times, by themselves and beside all classes that kill no process."""
    others = {
        "clog": 0.5,
        "halves": 0.5,
        "pause": 0.5,
        "stalls": 0.5,
        "wall clock jump": 0.5,
        "loss": 1.0,
        "delay": 1.0,
    }
    alone, _ = under(FaultPlan(active={"clog": 0.5}))
    among, _ = under(FaultPlan(active=others))

    assert struck(alone, "clog") == struck(among, "clog") != []


# -- what is promised ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(1, 5))
def test_no_more_machines_lose_data_than_a_loglet_survives(seed: int) -> None:
    """However often disks are replaced and rot: it is always the same ones."""
    world, nemesis = under(FaultPlan(active=dict.fromkeys((*LOSING, "crash", "failing syncs"), 0.2), pace=0.3), seed)

    told = r"(?:wipe|bit rot|lost store) (\d+)"
    nodes = {found[1] for name in LOSING for _, what in struck(world, name) if (found := re.match(told, what))}
    assert nodes == {str(node) for node in nemesis.wounds.lost}
    assert len(nodes) == LOST_MAX


@pytest.mark.parametrize("seed", range(1, 9))
def test_peace_heals_all_but_a_few(seed: int) -> None:
    """Links carry, disks work, processes run; dead are at most as many as may be, those that lost data included."""
    healthy: list[bool] = []

    async def story() -> None:
        async with open_world(seed) as world:
            machines = start_machines(world)
            nemesis = Nemesis(world, machines, FaultPlan(active=dict.fromkeys(NAMES, 0.3), pace=0.3))
            nemesis.prepare()
            async with world.client(CLIENT) as client:
                with trio.move_on_after(SECONDS):
                    await nemesis.run()
                dead = nemesis.stop()
                await trio.sleep(1)
                alive = [node for node in NODES if machines[node].running]
                assert set(dead) | set(alive) | nemesis.wounds.lost == set(NODES)  # rot may be refused for good
                assert len(set(dead) | nemesis.wounds.lost) <= LOST_MAX
                assert not any(machine.faults.failing for machine in machines.values())
                for node in alive:
                    await client.services.call(node, Ping(), 1.0)
                healthy.append(True)

    scheduler.run(seed, story)
    assert healthy == [True]


def test_in_a_bridge_everybody_sees_a_majority() -> None:
    """Each node of a ring reaches the nearest ones; no two see the same nodes."""
    for size in (4, 5, 7):
        ring = [NodeId(number) for number in range(size)]
        cut = set(_across_ring(ring))
        seen = {node: frozenset(other for other in ring if (node, other) not in cut) for node in ring}

        assert {len(nodes) for nodes in seen.values()} == {size // 2 + 1 if size % 4 != 3 else size // 2 + 2}
        assert len(set(seen.values())) == size
        assert cut == {(other, node) for node, other in cut}


@pytest.mark.parametrize("store", ["identity", "native", "metastore"])
def test_rot_on_a_node_is_refused(store: str) -> None:
    """Whichever disk it was on: the node, or the role that the disk belongs to, says so after the next start."""

    async def story(world: World, cluster: Cluster) -> None:
        async with cluster.client("writer") as client:
            for _ in range(5):
                await client.log.append(b"entry" * 100)
        machine = cluster.machines[NodeId(1)]
        machine.crash()
        disk = machine._disks.get(store) or machine._key_values[store]
        place = disk.rot()
        machine.start()
        await trio.sleep(2)
        product = cluster.products.get(NodeId(1))  # none if it did not even start
        told = " ".join([machine.failure, *(product.status().failures if product else ())])
        assert "damaged" in told or "checksum" in told, (place, told)

    with_cluster(story)
