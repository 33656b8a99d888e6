"""One slot of the MetaStore after the other, fought over by clients that die, with acceptors that lose their power.

Every moment each client can reach other members, so that majorities change in the middle of a ballot, values
stay half accepted, and decisions known to few. Values repeat: who wins is decided by attempts, not by bytes
(Paxos Made Simple, section 2; Delos, OSDI'20, section 4.1).
"""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Final

import trio

from virtuallog.contract.errors import ChainConflictError, RetryableError
from virtuallog.contract.ports import Environment, Handlers, NodeEnvironment
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.recorders import RecordedMetaStore
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_metastore import PaxosProvider
from virtuallog_simulation.checks.history.register import REGISTER_CHECKS
from virtuallog_simulation.scenarios.register.liveness import demand_put
from virtuallog_simulation.world.machine import Machine
from virtuallog_simulation.world.role import role
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

_MEMBERS: Final = tuple(NodeId(number) for number in range(1, 4))
_PLAYERS: Final = 4
_LIVES: Final = 6
"""Lives of each player, one after the other."""
_LIFE_SECONDS: Final = 2.0
CALM_SECONDS: Final = 30.0


async def _story(world: World) -> None:
    source = world.random("plan")
    machines = [Machine(world, node, role(world, _serve)) for node in _MEMBERS]
    for machine in machines:
        machine.faults.write_seconds = (0.0, source.choice((0.001, 0.05)))
        machine.start()
    await trio.sleep(0.1)
    world.network.set_quality(
        LinkQuality(delay_seconds=0.02, tail_probability=0.3, tail_seconds=0.1, reorder=0.2, duplicate=0.05)
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_lose_power, machines, world.random("power"), source.choice((0.1, 0.5, 2.0)))
        nursery.start_soon(_partition, world, source.choice((0.05, 0.3)))
        async with trio.open_nursery() as players:
            for number in range(_PLAYERS):
                players.start_soon(_play, world, number)
        nursery.cancel_scope.cancel()
    world.network.heal()
    world.network.set_quality(LinkQuality())
    await demand_put(world, lambda environment: _open(world, environment, "judge"), CALM_SECONDS)
    world.check(*REGISTER_CHECKS)


async def _serve(environment: NodeEnvironment) -> Handlers:
    return await PaxosProvider().serve(_MEMBERS, environment)


async def _lose_power(machines: list[Machine], source: random.Random, pause_seconds: float) -> None:
    while True:
        await trio.sleep(source.expovariate(1.0 / pause_seconds))
        for machine in source.sample(machines, source.choice((1, 1, 2, 3))):
            machine.crash()
            machine.start()


async def _partition(world: World, pause_seconds: float) -> None:
    """Each player that lives is cut off from one member, in one direction or both, for a moment."""
    source = world.random("partitions")
    while True:
        await trio.sleep(source.expovariate(1.0 / pause_seconds))
        world.network.heal()
        for client in sorted(world.clients):
            member = source.choice(_MEMBERS)
            both = source.random() < 0.7
            world.network.link(client, member).blocked = both or source.random() < 0.5
            world.network.link(member, client).blocked = True


async def _play(world: World, number: int) -> None:
    """Read, or put the next version, as fast as it goes; die in the middle of it, come back knowing nothing."""
    source = world.random(f"player {number}")
    for life in range(_LIVES):
        node = NodeId(1001 + number * _LIVES + life)
        async with world.client(node, source.expovariate(1.0 / _LIFE_SECONDS)) as environment:
            register = _open(world, environment, f"client {node}")
            while True:
                with suppress(RetryableError, ChainConflictError):
                    version, _ = await register.get()
                    if source.random() < 0.3:
                        await register.prepare_put(version)
                    if source.random() < 0.7:
                        await register.put(source.choice((b"red", b"blue")), version, source.getrandbits(63))


def _open(world: World, environment: Environment, name: str) -> RecordedMetaStore:
    return RecordedMetaStore(PaxosProvider().open(_MEMBERS, environment), world.history, name)


CONTENDED: Final = Scenario(
    name="contended",
    about="clients that die fight over each slot of the MetaStore, its members lose their power",
    story=_story,
    limit_seconds=120.0,
)
