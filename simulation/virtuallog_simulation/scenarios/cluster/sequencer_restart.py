"""The node of a sequencer dies with a wave that only a minority has, and its process starts again in the same moment.

It has the same disks and the same address. The boot number, counted in its identity file
(`server/virtuallog_server/storage/identity.py`), distinguishes the two lives: a sequencer that went
on would give the places of that wave to other entries.
"""

from __future__ import annotations

import random
from typing import Final

import trio

from virtuallog.contract.types import NodeId
from virtuallog_loglets.native.config import NativeConfig, decode_untrusted
from virtuallog_simulation.checks.cluster.node_state import check_nodes
from virtuallog_simulation.checks.history.chain import CHAIN_CHECKS
from virtuallog_simulation.checks.history.log import LOG_CHECKS
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.scenarios.cluster.disk_loss import act, cut
from virtuallog_simulation.scenarios.loglet.native import provider
from virtuallog_simulation.workload.actor import WorkloadContext
from virtuallog_simulation.workload.plan import WorkloadPlan
from virtuallog_simulation.world.cluster import Cluster, ClusterPlan
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

_FIRST, _SECOND, _THIRD = NodeId(2001), NodeId(2002), NodeId(2003)


async def _story(world: World) -> None:
    source = world.random("plan")
    cluster = Cluster(world, ClusterPlan(nodes=source.choice((3, 5)), members=3, kinds=(provider,)))
    cluster.start()
    await cluster.wait_ready()
    await trio.sleep(1.0)
    config = await _active(cluster)
    async with trio.open_nursery() as nursery:
        stage = WorkloadContext(cluster, WorkloadPlan.draw(source), nursery)
        _leave_a_minority(world, config, source)
        nursery.start_soon(act, stage, _FIRST, source.randint(1, 3))
        await trio.sleep(source.random() * 0.3)
        machine = cluster.machines[config.sequencer]
        machine.crash(power=source.random() < 0.5)
        world.network.heal()
        machine.start()
        await act(stage, _SECOND, source.randint(1, 3))
        await act(stage, _THIRD, 1)
        nursery.cancel_scope.cancel()
    world.check(*LOG_CHECKS, *LOGLET_CHECKS, *CHAIN_CHECKS)
    await check_nodes(cluster)


async def _active(cluster: Cluster) -> NativeConfig:
    async with cluster.client("scout") as client:
        return decode_untrusted((await client.log.view.current()).chain.last.config)


def _leave_a_minority(world: World, config: NativeConfig, source: random.Random) -> None:
    """The sequencer's own server, and less than a majority with it, can be reached from there."""
    others = [server for server in config.servers if server != config.sequencer]
    reached = source.sample(others, source.randint(0, config.majority - 2))
    cut(world, config.sequencer, [server for server in others if server not in reached])


REBORN: Final = Scenario(
    name="reborn",
    about="the node of a sequencer dies with a wave that a minority has, and starts again at once",
    story=_story,
    limit_seconds=600.0,
)
