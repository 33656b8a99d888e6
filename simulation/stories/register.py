"""The MetaStore alone: acceptors on machines that crash, clients that race to put the next version, changing members."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import trio

from metastore import PaxosProvider
from simulation.checks.chain import REGISTER_CHECKS
from simulation.checks.watch import AcceptorWatch
from simulation.faults.nemesis import LOSING, FaultPlan, Nemesis
from simulation.stories.scenario import Scenario
from simulation.workload.registering import NODES, Register, RegisterPlan
from simulation.world.machine import Machine, Program
from simulation.world.role import role
from simulation.world.world import World
from virtuallog.errors import ChainConflictError, RetryableError
from virtuallog.testing.violation import Violation
from virtuallog.types import NodeId

CALM_SECONDS: Final = 60.0
WORKLOAD_SECONDS: Final = 60.0
"""Clients that are still busy then are stopped."""
JUDGE: Final = NodeId(2000)


async def _story(world: World) -> None:
    source = world.random("plan")
    plan = RegisterPlan.draw(world.random("workload"))
    world.draw_transport(PaxosProvider().interfaces, NODES)
    machines = {node: Machine(world, node, _acceptor(world, plan)) for node in NODES}
    nemesis = Nemesis(world, machines, FaultPlan.draw(source, without=LOSING))
    for machine in machines.values():
        machine.start()
    nemesis.prepare()
    watch = AcceptorWatch(world, machines)
    watch.start()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(nemesis.run)
        register = Register(world, plan, machines, nursery)
        with trio.move_on_after(WORKLOAD_SECONDS if world.options.seconds is None else world.options.seconds):
            await register.run()
        nursery.cancel_scope.cancel()
    watch.look()
    nemesis.stop(dead_max=0)  # a register may be down to one member
    await _demand_progress(register)
    world.check(*REGISTER_CHECKS)
    watch.look()


def _acceptor(world: World, plan: RegisterPlan) -> Program:
    return role(world, lambda environment: PaxosProvider().serve(plan.members, environment))


async def _demand_progress(register: Register) -> None:
    """With all faults gone, a client that knows only the first members must get a put decided."""
    world = register.world
    with trio.move_on_after(CALM_SECONDS):
        async with world.client(JUDGE) as environment:
            metastore = register.open(environment, "judge")
            while True:
                with suppress(RetryableError, ChainConflictError):
                    version, _ = await metastore.get()
                    await metastore.put(b"judge", version, environment.random.getrandbits(63))
                    return
    message = f"no put was decided within {CALM_SECONDS:g} s after the faults stopped"
    world.violations.append(Violation("progress", message, (len(world.history.events) - 1,)))


REGISTER: Final = Scenario(
    name="register",
    about="the MetaStore alone: clients race for the next version, members change, acceptors crash",
    story=_story,
    limit_seconds=600.0,
)
