"""Network shapes against the elections of one raft loglet: who hears whom decides who may lead.

One shape after the other, drawn: the leader alone, or heard by no one, or deaf; two halves; two halves that meet in one node; a
ring in which each sees its neighbours; a leader whose disk stands still, or whose process does; a replica that is back after
a while. Clients reach all replicas. In each shape a majority can agree with itself, so an append is demanded there as
well as at the end; a replica that comes back must not depose a leader that works.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

import trio

from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_simulation.scenarios.loglet.race import RaceClients
from virtuallog_simulation.scenarios.raft.replica_group import ReplicaGroup
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

_SHAPES: Final = 4
_STUCK_SECONDS: Final = 1000.0
"""Time that a write takes on a disk that stands still."""
_GOOD_DISK: Final = (0.0, 0.0005)
_APPEND_SECONDS: Final = 60.0
"""Seconds for an append in a shape, or after it. On the worst network that is drawn and with all of the last majority needed, leaders
last some two seconds: one append of a hundred takes 9 s, and one of thousands more than 20."""
LOOKED: Final = "looked: appends in the shape "
Shape: TypeAlias = Callable[[ReplicaGroup, random.Random, NodeId], Awaitable[None]]
"""Brings one shape about; it is given the leader."""


async def _elections(world: World) -> None:
    source = world.random("plan")
    group = ReplicaGroup.begin(world, source.choice((3, 3, 5)))
    world.network.set_quality(
        LinkQuality(
            tail_probability=source.choice((0.01, 0.1)),
            tail_seconds=source.choice((0.02, 0.3)),
            loss=source.choice((0.0, 0.0, 0.05)),
            duplicate=source.choice((0.0, 0.1)),
            reorder=source.choice((0.0, 0.3)),
        )
    )
    group.watch.start()
    cast = RaceClients(
        appenders=source.randint(1, 3), batches=200, in_flight=source.choice((1, 4)), observers=1, looks=200, sealers=0,
        readers=source.randint(0, 1), waiters=source.randint(0, 1), pause_seconds=0.05, conditional=0.01,
    )  # fmt: skip
    async with trio.open_nursery() as nursery:
        nursery.start_soon(group.race.run, cast)
        await group.demand_append("at first")
        for _ in range(_SHAPES):
            shape = source.choice(_ALL if len(group.nodes) > 3 else _OF_THREE)
            if not await _strike(group, source, shape):
                break
        nursery.cancel_scope.cancel()
    world.network.set_quality(LinkQuality())
    await group.finish()


async def _strike(group: ReplicaGroup, source: random.Random, shape: Shape) -> bool:
    """Bring a shape about, demand an append, and heal. Returns False if there was none."""
    world = group.world
    leader = group.leader() or source.choice(group.nodes)
    name = shape.__name__.strip("_").replace("_", " ")
    world.fault(name, f"(leader {leader})")
    await shape(group, source, leader)
    if source.random() < 0.5:
        await trio.sleep(source.uniform(0.0, 2.0))
    appended = await group.demand_append(f"in the shape {name}", _APPEND_SECONDS)
    world.counts[LOOKED + name] += appended
    world.network.heal()
    for machine in group.served.machines.values():
        machine.resume()
        if machine.faults.write_seconds[0] == _STUCK_SECONDS:
            machine.faults.write_seconds = _GOOD_DISK
            machine.crash(power=False)
        if not machine.running:
            machine.start()
    world.history.fault("healed")
    if source.random() < 0.5:
        appended = appended and await group.demand_append("after it", _APPEND_SECONDS)
    return appended


# -- shapes ---------------------------------------------------------------------------------------------------------


async def _leader_alone(group: ReplicaGroup, source: random.Random, leader: NodeId) -> None:
    group.cut(leader, group.nodes)


async def _leader_unheard(group: ReplicaGroup, source: random.Random, leader: NodeId) -> None:
    """It hears the others, and they do not hear it."""
    group.cut(leader, group.nodes, into=False)


async def _leader_deaf(group: ReplicaGroup, source: random.Random, leader: NodeId) -> None:
    """Its heartbeats arrive, and no answer does: it must step down, or no one stands."""
    group.cut(leader, group.nodes, out=False)


async def _one_way_to_one(group: ReplicaGroup, source: random.Random, leader: NodeId) -> None:
    """One follower does not hear the leader, or is not heard. It must not depose it for ever."""
    other = source.choice([node for node in group.nodes if node != leader])
    heard = source.random() < 0.5
    group.cut(leader, [other], out=heard, into=not heard)


async def _halves(group: ReplicaGroup, source: random.Random, leader: NodeId) -> None:
    shuffled = source.sample(group.nodes, len(group.nodes))
    few, many = shuffled[: group.minority], shuffled[group.minority :]
    for node in few:
        group.cut(node, many)


async def _bridge(group: ReplicaGroup, source: random.Random, leader: NodeId) -> None:
    """Two halves that meet in one node: it hears a leader on one side, and is asked for votes by the other."""
    _middle, *others = source.sample(group.nodes, len(group.nodes))
    half, rest = others[::2], others[1::2]
    for node in half:
        group.cut(node, rest)


async def _ring(group: ReplicaGroup, source: random.Random, leader: NodeId) -> None:
    """Each of five sees its two neighbours."""
    ring = source.sample(group.nodes, len(group.nodes))
    for at, node in enumerate(ring):
        group.cut(node, [ring[(at + 2) % len(ring)], ring[(at + 3) % len(ring)]])


async def _changing_halves(group: ReplicaGroup, source: random.Random, leader: NodeId) -> None:
    """Another minority is cut off every half a second or so, most often the one with the leader."""
    for _ in range(source.randint(2, 5)):
        group.world.network.heal()
        first = group.leader()
        few = set(source.sample(group.nodes, group.minority))
        if first is not None and source.random() < 0.7:
            few = {first}
        for node in sorted(few):
            group.cut(node, [other for other in group.nodes if other not in few])
        await trio.sleep(source.uniform(0.2, 1.5))


async def _leader_disk_stands_still(group: ReplicaGroup, source: random.Random, leader: NodeId) -> None:
    """It hears and is heard. Its heartbeats must end, or no append does."""
    group.served.machines[leader].faults.write_seconds = (_STUCK_SECONDS, _STUCK_SECONDS)


async def _leader_stands_still(group: ReplicaGroup, source: random.Random, leader: NodeId) -> None:
    group.served.machines[leader].pause()


async def _minority_down(group: ReplicaGroup, source: random.Random, leader: NodeId) -> None:
    """Some die, the leader among them, and come back when the others have gone on."""
    others = [node for node in group.nodes if node != leader]
    for node in (leader, *source.sample(others, group.minority - 1)):
        group.served.machines[node].crash(power=source.random() < 0.5)


async def _all_restart(group: ReplicaGroup, source: random.Random, leader: NodeId) -> None:
    """All lose their power at once, and come back one after the other."""
    for machine in group.served.machines.values():
        machine.crash()
    for node in source.sample(group.nodes, len(group.nodes)):
        await trio.sleep(source.random() * 0.5)
        group.served.machines[node].start()


_OF_THREE: Final[Sequence[Shape]] = (
    _leader_alone,
    _leader_unheard,
    _leader_deaf,
    _one_way_to_one,
    _halves,
    _bridge,
    _changing_halves,
    _leader_disk_stands_still,
    _leader_stands_still,
    _minority_down,
    _all_restart,
)
_ALL: Final = (*_OF_THREE, _ring)

RAFT_ELECTIONS: Final = Scenario(
    name="raft-elections",
    about="network shapes, stuck leaders and restarts against the elections of a raft loglet",
    story=_elections,
    limit_seconds=600.0,
)
