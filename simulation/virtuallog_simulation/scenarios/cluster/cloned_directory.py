"""A copy of a data directory is started on another machine while the original runs: a clone of a disk, a backup that is tried out.

The copy has the votes of its node, its entries, and its store id; but others reach the original. So it must count nothing of its own: neither
a vote for the next version of the register, nor a seal, nor a tail. How it is cut off is drawn: whether it reaches the original in the beginning,
when all others are cut in two halves, each of which would be a majority with "its" node 3; and whether it was copied before the last changes.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.client.appender import AppenderSettings
from virtuallog.client.virtual_log import VirtualLogSettings
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.actions import ExtendChange
from virtuallog_simulation.checks.history.chain import CHAIN_CHECKS
from virtuallog_simulation.checks.history.log import LOG_CHECKS
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.checks.history.register import REGISTER_CHECKS
from virtuallog_simulation.scenarios.cluster.disk_loss import act
from virtuallog_simulation.scenarios.loglet.native import provider
from virtuallog_simulation.workload.actor import Actor, WorkloadContext, attempt
from virtuallog_simulation.workload.plan import WorkloadPlan
from virtuallog_simulation.world.cluster import Client, Cluster, ClusterPlan
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.transport import STREAMS, elsewhere
from virtuallog_simulation.world.world import World

_SETTINGS: Final = VirtualLogSettings(appender=AppenderSettings(give_up=3.0))
_OPERATOR, _LATER, _READER = (NodeId(number) for number in range(2001, 2004))


async def _story(world: World) -> None:
    world.options = attrs.evolve(world.options, transport=STREAMS)
    source = world.random("plan")
    cluster = Cluster(world, ClusterPlan(nodes=3, members=3, kinds=(provider,)), _SETTINGS, healing="off")
    cluster.start()
    await cluster.wait_serving()
    original, near, far = source.sample(cluster.nodes, 3)
    clone = elsewhere(original)
    async with trio.open_nursery() as nursery:
        stage = WorkloadContext(cluster, WorkloadPlan.draw(source), nursery)
        async with cluster.client("operator", node=_OPERATOR) as client:
            operator = Actor(stage, client, client.random, "o")
            await _extend(operator, cluster.nodes, near)
            await attempt(operator.append(source.randint(1, 3)))
            await trio.sleep(source.choice((1.0, 3.0)))  # node.following has informed all nodes of the cluster id
            disks = cluster.machines[original].copied(world.random("copy"))
            if source.random() < 0.5:
                await attempt(operator.append(source.randint(1, 3)))
            if source.random() < 0.5:  # it never meets the original
                _cut(world, clone, [original])
            if source.random() < 0.5:  # its half has no more than the copied votes and one other node
                _cut(world, far, [original, near, _OPERATOR])
            cluster.add(clone, disks)
            await trio.sleep(source.uniform(0.2, 4.0))
            _cut(world, far, [original, near, _OPERATOR])
            _cut(world, clone, [original, near, _OPERATOR])
            async with trio.open_nursery() as acting:
                acting.start_soon(_go_on, operator, original, source.randint(1, 3))
                acting.start_soon(_act_as_copy, cluster, stage, clone, far)
        world.network.heal()
        await act(stage, _LATER, 1)
        cluster.machines[clone].crash(power=False)
        await act(stage, _READER, 1)
        nursery.cancel_scope.cancel()
    world.check(*LOG_CHECKS, *LOGLET_CHECKS, *CHAIN_CHECKS, *REGISTER_CHECKS)


async def _go_on(operator: Actor, server: NodeId, appends: int) -> None:
    await attempt(operator.append(appends))
    with trio.move_on_after(8.0):
        await _extend(operator, [server], server)
        await attempt(operator.append())


async def _act_as_copy(cluster: Cluster, stage: WorkloadContext, clone: NodeId, far: NodeId) -> None:
    """Acts of an operator that tries the copy out, and of the copy's own client."""
    log = cluster.products[clone].virtual_log if clone in cluster.products else None
    if log is None:
        return
    actor = Actor(stage, Client(f"copy {clone}", log, random.Random(1)), random.Random(1), "c")
    with trio.move_on_after(10.0):
        await attempt(actor.check_tail())
        await _extend(actor, [far], far)
        await attempt(actor.append())


async def _extend(actor: Actor, servers: Sequence[NodeId], sequencer: NodeId) -> None:
    settings = {"servers": ",".join(map(str, sorted(servers))), "sequencer": str(sequencer)}
    change = partial(actor.client.log.reconfig_extend, "native", settings)
    with trio.move_on_after(8.0):
        while not await attempt(actor.change(ExtendChange("native", f"sequencer={sequencer}"), change())):
            await trio.sleep(0.2)


def _cut(world: World, one: NodeId, others: Sequence[NodeId]) -> None:
    for other in others:
        world.network.link(one, other).blocked = world.network.link(other, one).blocked = True


COPIED: Final = Scenario(
    name="copied",
    about="a copy of a data directory is started elsewhere while the original runs",
    story=_story,
    limit_seconds=300.0,
)
