"""A node loses its disk just when its vote would count, and comes back with an empty one.

Everything is acknowledged by two of three nodes. One of them is wiped, the other one goes down, and the third one, which
had been cut off, comes back: it and the wiped node look like a majority that has nothing (`server/virtuallog_server/node/formatter.py`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import trio

from virtuallog.client.appender import AppenderSettings
from virtuallog.client.virtual_log import VirtualLogSettings
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog_simulation.checks.history.chain import CHAIN_CHECKS
from virtuallog_simulation.checks.history.log import LOG_CHECKS
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.scenarios.loglet.native import provider
from virtuallog_simulation.workload.actor import Actor, WorkloadContext
from virtuallog_simulation.workload.plan import WorkloadPlan
from virtuallog_simulation.world.cluster import Cluster, ClusterPlan
from virtuallog_simulation.world.machine import Machine
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

_SETTINGS: Final = VirtualLogSettings(appender=AppenderSettings(give_up=3.0))
_FIRST, _SECOND, _THIRD = NodeId(2001), NodeId(2002), NodeId(2003)


async def _story(world: World) -> None:
    source = world.random("plan")
    cluster = Cluster(world, ClusterPlan(nodes=3, members=3, kinds=(provider,)), _SETTINGS)
    cluster.start()
    await cluster.wait_ready()
    await trio.sleep(1.0)
    kept, wiped, apart = source.sample(cluster.nodes, 3)
    async with trio.open_nursery() as nursery:
        stage = WorkloadContext(cluster, WorkloadPlan.draw(source), nursery)
        cut(world, apart, [kept, wiped, _FIRST])
        await act(stage, _FIRST, source.randint(1, 3))
        await _lose(cluster.machines[wiped], source)
        cluster.machines[kept].crash(power=False)
        world.network.heal()
        await act(stage, _SECOND, 1)
        cluster.machines[kept].start()
        await act(stage, _THIRD, 1)
        nursery.cancel_scope.cancel()
    world.check(*LOG_CHECKS, *LOGLET_CHECKS, *CHAIN_CHECKS)


def cut(world: World, node: NodeId, others: Sequence[NodeId]) -> None:
    for other in others:
        world.network.link(node, other).blocked = world.network.link(other, node).blocked = True


async def _lose(machine: Machine, source: random.Random) -> None:
    machine.crash()
    machine.wipe()
    await trio.sleep(source.random())
    machine.start()


async def act(stage: WorkloadContext, node: NodeId, appends: int) -> None:
    """A client that looks at the whole log and appends, as far as it gets within a while."""
    with trio.move_on_after(5.0):
        async with stage.cluster.client("client", node=node) as client:
            actor = Actor(stage, client, client.random, f"{node}")
            with suppress(VirtualLogError):
                tail, at = await actor.check_tail(), 0
                while at < tail:
                    at = await actor.read(at, tail, 1 << 20)
            for _ in range(appends):
                with suppress(VirtualLogError):
                    await actor.append()


WIPED: Final = Scenario(
    name="wiped",
    about="a node comes back with an empty disk when its vote would make a majority",
    story=_story,
    limit_seconds=600.0,
)
