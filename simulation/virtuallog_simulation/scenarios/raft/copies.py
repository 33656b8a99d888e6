"""Copies of a sealed raft loglet on other nodes, one replica after the other, while nodes and administrators die.

A replica is lost for good, its disks are gone; a newcomer gets a copy from the others, and the config names it. Then another replica
is lost. Administrators die at crash points and are followed by others, sometimes by two at once; nodes die and come back. In the end
one more replica is down, and all that was acknowledged is read from those that are left.
"""

from __future__ import annotations

import random
from contextlib import suppress
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.provider import replicated
from virtuallog.contract.types import LogletOffset, NodeId
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_loglets.raft.config import decode_untrusted
from virtuallog_simulation.faults.crash_points import CrashPoints
from virtuallog_simulation.scenarios.loglet.race import SEGMENT, LogletRace, RaceClients
from virtuallog_simulation.scenarios.raft.replica_group import CALM_SECONDS, ReplicaGroup, raft
from virtuallog_simulation.world.observed_provider import observed
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

_MACHINES: Final = 5
_COPY_SECONDS: Final = 40.0
_ATTEMPT_SECONDS: Final = 5.0
_RACE_SECONDS: Final = 8.0
_ADMINISTRATOR: Final = 4000
COPIED: Final = "looked: copies of raft loglets"


@attrs.define(eq=False)
class _Copies:
    """Present place of the loglet."""

    group: ReplicaGroup
    source: random.Random
    segment: SegmentId = SEGMENT
    administrators: int = _ADMINISTRATOR


async def _copies(world: World) -> None:
    source = world.random("plan")
    group = ReplicaGroup.begin(world, 3, machines=_MACHINES)
    world.network.set_quality(
        LinkQuality(tail_probability=0.1, tail_seconds=0.02, loss=source.choice((0.0, 0.02)), duplicate=0.05)
    )
    points = CrashPoints(world, group.served.machines)
    points.start()
    group.watch.start()
    cast = RaceClients(
        appenders=source.randint(1, 4), batches=source.randint(5, 60), in_flight=source.choice((1, 4)), sealers=0,
        observers=1, readers=1, trimmers=source.randint(0, 1), pause_seconds=0.005, entry_bytes=source.choice((0, 700)),
    )  # fmt: skip
    with trio.move_on_after(_RACE_SECONDS):
        await group.race.run(cast)
    await group.race.demand_seal(CALM_SECONDS)
    points.clients_die = True
    story = _Copies(group, source)
    for number in range(source.choice((1, 2, 2))):
        if not await _replace(story, number):
            break
    points.stop()
    await _read_without_one(story)
    group.check()


async def _replace(story: _Copies, number: int) -> bool:
    """Lose a replica, copy it to a newcomer, and name that in the config; returns False if that took too long."""
    group, source, world = story.group, story.source, story.group.world
    machines = group.served.machines
    former = decode_untrusted(group.served.config(story.segment)).replicas
    lost = source.choice(former)
    newcomer = source.choice([node for node in machines if node not in former and not machines[node].wiped])
    world.fault("replica lost", str(lost))
    if not machines[lost].running:
        machines[lost].start()  # so that it is this life that ends: no restart of an earlier one may come
    machines[lost].crash()
    machines[lost].wipe()
    servers = tuple(sorted({*former, newcomer} - {lost}))
    began, done = world.now(), trio.Event()
    with trio.move_on_after(_COPY_SECONDS):
        async with trio.open_nursery() as nursery:
            while not done.is_set():
                for _ in range(source.choice((1, 1, 2))):
                    nursery.start_soon(_copy, story, servers, lost, done)
                with trio.move_on_after(_ATTEMPT_SECONDS):
                    await done.wait()
                for machine in machines.values():
                    if not machine.running and not machine.wiped:
                        machine.start()
            nursery.cancel_scope.cancel()
    world.demanded("copy of a loglet", world.now() - began)
    if not done.is_set():
        group.object("progress", f"no copy of the loglet on node {newcomer} within {_COPY_SECONDS:g} s")
        return False
    world.counts[COPIED] += 1
    moved = raft().move(story.segment, group.served.config(story.segment), servers)
    story.segment = SegmentId(1, 2 + number)
    group.served.create(story.segment, moved)
    return True


async def _copy(story: _Copies, servers: tuple[NodeId, ...], lost: NodeId, done: trio.Event) -> None:
    """One administrator, who may die."""
    group, world = story.group, story.group.world
    story.administrators += 1
    node = NodeId(story.administrators)
    tail = max(replica.state.tail for replica in group.replicas().values())
    provider = replicated(observed(raft(), world.history, f"administrator {node}"))
    assert provider is not None
    config = group.served.config(story.segment)
    target = provider.move(story.segment, config, servers)
    async with world.client(node) as environment:
        with suppress(VirtualLogError):
            await provider.replicate(story.segment, config, target, LogletOffset(tail), environment, _at_once, (lost,))
            done.set()


async def _at_once(size: int) -> None:
    """Pace of a copy: none."""


async def _read_without_one(story: _Copies) -> None:
    group, world = story.group, story.group.world
    machines = group.served.machines
    for machine in machines.values():
        if not machine.running and not machine.wiped:
            machine.start()
    replicas = decode_untrusted(group.served.config(story.segment)).replicas
    machines[story.source.choice(replicas)].crash()
    world.network.set_quality(LinkQuality())
    race = LogletRace(world, partial(group.served.open, story.segment))
    await race.demand_seal(CALM_SECONDS)


RAFT_COPIES: Final = Scenario(
    name="raft-copies",
    about="replicas of a sealed raft loglet are lost and copied to newcomers, while nodes and administrators die",
    story=_copies,
    limit_seconds=300.0,
)
