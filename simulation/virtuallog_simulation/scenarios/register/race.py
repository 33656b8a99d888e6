"""The MetaStore alone: acceptors on machines that crash, clients that race to put the next version, changing members."""

from __future__ import annotations

from typing import Final

import trio

from virtuallog_metastore import PaxosProvider
from virtuallog_simulation.checks.cluster.acceptor_watch import AcceptorWatch
from virtuallog_simulation.checks.history.chain import REGISTER_CHECKS
from virtuallog_simulation.faults.nemesis import LOSING, FaultPlan, Nemesis
from virtuallog_simulation.scenarios.register.liveness import demand_put
from virtuallog_simulation.workload.register_clients import NODES, Register, RegisterPlan
from virtuallog_simulation.world.machine import Machine, Program
from virtuallog_simulation.world.role import role
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

CALM_SECONDS: Final = 60.0
WORKLOAD_SECONDS: Final = 60.0
"""Clients that are still busy then are stopped."""


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
    # A client that knows only the first members.
    await demand_put(world, lambda environment: register.open(environment, "judge"), CALM_SECONDS)
    world.check(*REGISTER_CHECKS)
    watch.look()


def _acceptor(world: World, plan: RegisterPlan) -> Program:
    return role(world, lambda environment: PaxosProvider().serve(plan.members, environment))


REGISTER: Final = Scenario(
    name="register",
    about="the MetaStore alone: clients race for the next version, members change, acceptors crash",
    story=_story,
    limit_seconds=600.0,
)
