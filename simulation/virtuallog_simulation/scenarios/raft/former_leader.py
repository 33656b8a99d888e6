"""A leader of a raft loglet that is deposed and does not know, and clients that know of it alone.

They append to it, conditionally and not, ask it for tails and read from it, all the time. Others append at the other replicas, which elect
a leader meanwhile. What comes between is drawn:

    stands still    the process is paused for about an election, and goes on before it has heard of another one
    is cut off      records that it has taken reach no peer, and others are committed in their place
    is lossy        most of what it sends is lost, then it dies: what it alone had is gone
"""

from __future__ import annotations

import random
from functools import partial
from typing import Final

import trio

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import RetryableError, VirtualLogError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.types import LogletOffset, NodeId
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_simulation.scenarios.loglet.race_clients import read_range
from virtuallog_simulation.scenarios.raft.replica_group import ReplicaGroup
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

_ROUNDS: Final = 3
_ELECTION_SECONDS: Final = (0.9, 1.7)
_WAYS: Final = ("stands still", "is cut off", "is lossy")
_LOSS: Final = 0.6
_AFTER_SECONDS: Final = 0.6
_APPEND_SECONDS: Final = 4.0
SUPERSEDED: Final = "looked: appends at others while the former leader "


async def _superseded(world: World) -> None:
    source = world.random("plan")
    group = ReplicaGroup.begin(world, source.choice((3, 3, 5)))
    world.network.set_quality(LinkQuality(tail_probability=0.1, tail_seconds=source.choice((0.01, 0.05)), reorder=0.1))
    group.watch.start()
    for _ in range(_ROUNDS):
        if not await group.demand_append("at first"):
            break
        await trio.sleep(source.uniform(0.0, 0.3))
        leader = group.leader()
        if leader is not None:
            await _depose(group, source, leader, source.choice(_WAYS))
    await group.finish()


async def _depose(group: ReplicaGroup, source: random.Random, leader: NodeId, way: str) -> None:
    """One leader is deposed while clients use it."""
    world, others = group.world, [node for node in group.nodes if node != leader]
    world.fault(f"leader {way}", str(leader))
    async with trio.open_nursery() as nursery:
        for name, act in (("appender", _append), ("bidder", _bid), ("observer", _look), ("observer", _look)):
            here = world.random(f"{name} {world.now()}")
            nursery.start_soon(group.act, name, partial(act, here), [leader])
        await trio.sleep(source.uniform(0.05, 0.2))
        _strike(group, leader, way)
        await trio.sleep(source.uniform(*_ELECTION_SECONDS) if way != "is lossy" else source.uniform(0.05, 0.4))
        if way == "is lossy":
            group.served.machines[leader].crash(power=source.random() < 0.5)
        with trio.move_on_after(_APPEND_SECONDS if source.random() < 0.7 else 0.0):
            await group.act("successor", partial(_append_some, world.random(f"successor {world.now()}"), 2), others)
            world.counts[SUPERSEDED + way] += 1
        nursery.start_soon(_read_at, group, leader, others)
        await trio.sleep(source.choice((0.0, 0.05, _AFTER_SECONDS)))
        _recover(group, leader)
        await trio.sleep(_AFTER_SECONDS)
        nursery.cancel_scope.cancel()


def _strike(group: ReplicaGroup, leader: NodeId, way: str) -> None:
    match way:
        case "stands still":
            group.served.machines[leader].pause()
            group.cut(
                leader, group.nodes
            )  # what its successor says while it stands still is lost, what clients ask is not
        case "is cut off":
            group.cut(leader, group.nodes)
        case "is lossy":
            for node in group.nodes:
                if node != leader:
                    group.world.network.link(leader, node).quality = LinkQuality(loss=_LOSS)


def _recover(group: ReplicaGroup, leader: NodeId) -> None:
    machine = group.served.machines[leader]
    machine.resume()
    group.world.network.heal()
    for node in group.nodes:
        if node != leader:
            group.world.network.link(leader, node).quality = group.world.network.quality
    group.world.history.fault("healed")
    if not machine.running:
        machine.start()


async def _append(source: random.Random, loglet: Loglet) -> None:
    while True:
        await _append_some(source, 40, loglet)


async def _append_some(source: random.Random, count: int, loglet: Loglet) -> None:
    session = SessionId(source.randbytes(16))
    for sequence in range(count):
        batch = Batch.build(session, sequence, [b"%d" % sequence])
        while True:
            try:
                await loglet.append(batch, opens=sequence == 0)
            except RetryableError:
                await trio.sleep(0.02)
                continue
            break
        await trio.sleep(source.expovariate(100.0))


async def _bid(source: random.Random, loglet: Loglet) -> None:
    """Append where the tail is, or is not, in sessions of their own."""
    while True:
        await trio.sleep(source.expovariate(30.0))
        try:
            tail = (await loglet.check_tail()).tail + source.choice((0, 0, 1))
            batch = Batch.build(SessionId(source.randbytes(16)), 0, [b"bid"])
            await loglet.append(batch, opens=True, expected_tail=LogletOffset(tail))
        except VirtualLogError:
            continue


async def _look(source: random.Random, loglet: Loglet) -> None:
    while True:
        await trio.sleep(source.expovariate(50.0))
        try:
            await loglet.check_tail()
        except RetryableError:
            continue


async def _read_at(group: ReplicaGroup, leader: NodeId, others: list[NodeId]) -> None:
    """Read from the former leader what lies below the tail that the others tell."""
    tails: list[int] = []

    async def ask(loglet: Loglet) -> None:
        tails.append((await loglet.check_tail()).tail)

    await group.act("reader", ask, others)
    if tails:
        await group.act("reader", partial(_read, tails[0]), [leader])


async def _read(tail: int, loglet: Loglet) -> None:
    while True:
        try:
            await read_range(loglet, 0, tail)
        except RetryableError:
            continue
        return


RAFT_SUPERSEDED: Final = Scenario(
    name="raft-superseded",
    about="a leader of a raft loglet is deposed and does not know, while clients know of it alone",
    story=_superseded,
    limit_seconds=200.0,
)
