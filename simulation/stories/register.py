"""The MetaStore alone: acceptors on machines that crash, clients that race to put the next version, changing members."""

from __future__ import annotations

import random
from typing import Final

import attrs
import trio

from metastore import PaxosProvider
from simulation.checks.chain import REGISTER_CHECKS
from simulation.checks.inside import stored_acceptors
from simulation.checks.metastore import acceptors_agree
from simulation.checks.violation import Violation
from simulation.faults.nemesis import LOSING, FaultPlan, Nemesis
from simulation.stories.scenario import Scenario
from simulation.world.machine import Machine, Program
from simulation.world.role import role
from simulation.world.world import World
from virtuallog.api import MetaStore
from virtuallog.errors import ChainConflictError, RetryableError, UnavailableError
from virtuallog.testing.recorded import RecordedMetaStore
from virtuallog.types import NodeId

CALM_SECONDS: Final = 60.0
_NODES: Final = tuple(NodeId(number) for number in range(1, 6))


@attrs.frozen(kw_only=True)
class _Plan:
    members: tuple[NodeId, ...]
    clients: int
    puts: int
    pause_seconds: float
    moves: float
    """Share of the puts that change the members."""

    @classmethod
    def draw(cls, source: random.Random) -> _Plan:
        return cls(
            members=_NODES[: source.choice((1, 3, 5))],
            clients=source.randint(2, 5),
            puts=source.randint(3, 12),
            pause_seconds=source.choice((0.0, 0.05, 0.5)),
            moves=source.choice((0.0, 0.3)),
        )


async def _story(world: World) -> None:
    source = world.random("plan")
    plan = _Plan.draw(source)
    world.draw_transport(PaxosProvider().interfaces, _NODES)
    machines = {node: Machine(world, node, _acceptor(world, plan)) for node in _NODES}
    nemesis = Nemesis(world, machines, FaultPlan.draw(source, without=LOSING))
    for machine in machines.values():
        machine.start()
    nemesis.prepare()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(nemesis.run)
        async with trio.open_nursery() as clients:
            for number in range(plan.clients):
                clients.start_soon(_client, world, plan, NodeId(1001 + number))
        nursery.cancel_scope.cancel()
    nemesis.stop(dead_max=0)  # a register may be down to one member
    await _demand_progress(world, plan)
    world.check(*REGISTER_CHECKS)
    world.violations.extend(acceptors_agree(await stored_acceptors(machines), world.history))


def _acceptor(world: World, plan: _Plan) -> Program:
    return role(world, lambda environment: PaxosProvider().serve(plan.members, environment))


async def _client(world: World, plan: _Plan, node: NodeId) -> None:
    """Read the register, put the next version; an unknown outcome is settled by putting the same attempt again."""
    async with world.client(node) as environment:
        metastore = RecordedMetaStore(PaxosProvider().open(plan.members, environment), world.history, f"client {node}")
        source = environment.random
        for number in range(plan.puts):
            await trio.sleep(source.random() * plan.pause_seconds)
            try:
                version, _ = await metastore.get()
            except UnavailableError:
                continue
            members = source.sample(_NODES, source.choice((1, 3, 5))) if source.random() < plan.moves else None
            await _put(metastore, b"%d %d" % (node, number), version, members, source)


async def _put(
    metastore: MetaStore, value: bytes, version: int, members: list[NodeId] | None, source: random.Random
) -> bool:
    attempt = source.getrandbits(63)
    for _ in range(5):
        try:
            await metastore.put(value, version, attempt, members)
        except ChainConflictError:
            return False
        except RetryableError:
            continue
        return True
    return False


async def _demand_progress(world: World, plan: _Plan) -> None:
    """With all faults gone a client must get a put decided."""
    with trio.move_on_after(CALM_SECONDS):
        async with world.client(NodeId(2000)) as environment:
            metastore = RecordedMetaStore(PaxosProvider().open(plan.members, environment), world.history, "judge")
            for number in range(1000):
                try:
                    version, _ = await metastore.get()
                except UnavailableError:
                    continue
                if await _put(metastore, b"judge %d" % number, version, None, environment.random):
                    return
    message = f"no put was decided within {CALM_SECONDS:g} s after the faults stopped"
    world.violations.append(Violation("progress", message, (len(world.history.events) - 1,)))


REGISTER: Final = Scenario(
    name="register",
    about="the MetaStore alone: clients race for the next version, members change, acceptors crash",
    story=_story,
    limit_seconds=600.0,
)
