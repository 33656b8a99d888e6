"""Callers that cancel appends: appends of other callers go on, independent of the cancelled ones.

Sessions over a slow network, several appends at once, most of them cancelled at some await. None of them may leave
anything behind that blocks its session: the next append must succeed soon (specs: Delos, section 16).
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Final

import trio

from virtuallog.client.appender import Appender
from virtuallog.contract.errors import VirtualLogError
from virtuallog.testing.checker.violation import Violation
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_simulation.checks.history.log import LOG_CHECKS
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.scenarios.loglet.native import provider
from virtuallog_simulation.workload.actor import Actor, WorkloadContext
from virtuallog_simulation.workload.plan import WorkloadPlan
from virtuallog_simulation.world.cluster import Cluster, ClusterPlan
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

_SESSIONS: Final = 4
SOON_SECONDS: Final = 10.0
"""Much less than the appender's own patience, which would hide a session that is stuck."""


async def _story(world: World) -> None:
    source = world.random("plan")
    cluster = Cluster(world, ClusterPlan(nodes=1, members=1, kinds=(provider,)))
    cluster.start()
    await cluster.wait_ready()
    world.network.set_quality(LinkQuality(tail_probability=0.3, tail_seconds=0.02))
    async with trio.open_nursery() as nursery, cluster.client("client") as client:
        actor = Actor(WorkloadContext(cluster, WorkloadPlan.draw(source), nursery), client, client.random, "c")
        for _ in range(_SESSIONS):
            with client.log.appender() as appender:
                async with trio.open_nursery() as callers:
                    callers.start_soon(_append, actor, appender, math.inf)
                    for _ in range(source.randint(1, 4)):
                        await trio.sleep(source.random() * 0.002)
                        callers.start_soon(_append, actor, appender, source.expovariate(1.0 / 0.002))
                await _demand_append(world, actor, appender)
        tail, at = await actor.check_tail(), 0
        while at < tail:
            at = await actor.read(at, tail, 1 << 20)
        nursery.cancel_scope.cancel()
    world.check(*LOG_CHECKS, *LOGLET_CHECKS)


async def _append(actor: Actor, appender: Appender, patience_seconds: float) -> None:
    with trio.move_on_after(patience_seconds), suppress(VirtualLogError):
        await actor.append(appender=appender)


async def _demand_append(world: World, actor: Actor, appender: Appender) -> None:
    with trio.move_on_after(SOON_SECONDS) as limit:
        await actor.append(appender=appender)
    if limit.cancelled_caught:
        message = f"no append within {SOON_SECONDS:g} s after others were cancelled"
        world.violations.append(Violation("progress", message, (len(world.history.events) - 1,)))


CANCELLED: Final = Scenario(
    name="cancelled",
    about="several appends of a session at once, most of them cancelled; then one that must succeed",
    story=_story,
    limit_seconds=300.0,
)
