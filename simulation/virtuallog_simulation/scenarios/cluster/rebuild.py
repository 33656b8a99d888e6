"""Closed segments lose a copy for good: the cluster makes another one, while appends and trims go on.

The closed segments are native loglets, or striped over native ones. A log server dies, or comes
back with an empty disk. A node notices, copies the data of the dead one to the spare nodes and lets
the chain name them. It may die in the middle of it, at a crash point of the rebuild. In the end all
original servers of the segments are removed: the data must be on the newcomers.

Delos, OSDI'20, section 3.2; docs/internals/protocols/virtual_log.md, "Rebuild".
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

import trio

from virtuallog.contract.chain import Segment
from virtuallog.contract.crash_points import CRASH_POINTS
from virtuallog.contract.provider import replicated
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.actions import ExtendChange
from virtuallog.testing.checker.violation import Violation
from virtuallog_loglets.striped.provider import StripedProvider
from virtuallog_simulation.checks.history.chain import CHAIN_CHECKS
from virtuallog_simulation.checks.history.log import LOG_CHECKS
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.faults.crash_points import CrashPointPlan, CrashPoints
from virtuallog_simulation.scenarios.cluster.sequencer_loss import copies_are_kept
from virtuallog_simulation.scenarios.loglet.native import provider
from virtuallog_simulation.workload.actor import Actor, WorkloadContext, attempt
from virtuallog_simulation.workload.plan import WorkloadPlan
from virtuallog_simulation.world.cluster import Cluster, ClusterPlan
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

REBUILD_SECONDS: Final = 40.0
"""Seconds until no closed segment rests on the lost node: a suspicion, the patience, and as much
again for each death."""
READ_SECONDS: Final = 20.0
_FORMER: Final = (NodeId(1), NodeId(2), NodeId(3))
_OPERATOR, _WRITER, _READER = NodeId(2001), NodeId(2002), NodeId(2003)


async def _story(world: World) -> None:
    source = world.random("plan")
    cluster = Cluster(world, ClusterPlan(nodes=6, members=5, kinds=(provider, StripedProvider)))
    cluster.start()
    await cluster.wait_serving()
    points = CrashPoints(world, cluster.machines)
    async with trio.open_nursery() as nursery, cluster.client("operator", node=_OPERATOR) as client:
        stage = WorkloadContext(cluster, WorkloadPlan.draw(source), nursery)
        actor = Actor(stage, client, world.random("operator"), "o")
        await _fill(actor, source)
        gone = source.choice(_FORMER)
        _arm(points, source)
        _lose(cluster, gone, source)
        nursery.start_soon(_write, stage, source)
        if await _rebuilt(actor, gone):
            points.stop()
            await _only_newcomers(stage, gone)
        nursery.cancel_scope.cancel()
    world.check(*LOG_CHECKS, *LOGLET_CHECKS, *CHAIN_CHECKS, copies_are_kept)


async def _fill(actor: Actor, source: random.Random) -> None:
    """Two or three closed segments on the former servers, and an open one on the others; some of it is trimmed."""
    log = actor.client.log
    for _ in range(source.choice((2, 3))):
        kind, orders = source.choice((("native", "sequencer"), ("native", "sequencer"), ("striped", "sequencers")))
        settings = {"servers": "1,2,3", orders: str(source.randint(1, 3))}
        await actor.change(ExtendChange(kind, "servers=1,2,3"), log.reconfig_extend(kind, settings))
        for _ in range(source.randint(2, 6)):
            await actor.append(source.randint(1, 4), size=source.choice((0, 900)))
    settings = {"servers": "4,5,6", "sequencer": "4"}
    await actor.change(ExtendChange("native", "servers=4,5,6"), log.reconfig_extend("native", settings))
    await actor.append()
    if source.random() < 0.5:
        await attempt(actor.trim(actor.position()))


def _arm(points: CrashPoints, source: random.Random) -> None:
    """A node dies in the middle of a rebuild, perhaps twice."""
    rebuilding = sorted(name for name, point in CRASH_POINTS.items() if point.area in {"rebuild", "healing"})
    armed = source.sample(rebuilding, source.choice((0, 1, 1, 2)))
    points.clients_die = True
    points.start(CrashPointPlan({name: source.randint(1, 3) for name in armed}, {}))


def _lose(cluster: Cluster, gone: NodeId, source: random.Random) -> None:
    """Lose the node for good: it stays away, or comes back as a new node."""
    machine = cluster.machines[gone]
    machine.crash()
    if source.random() < 0.5:
        machine.wipe()
        cluster.world.timeline.schedule(source.random(), machine.start)


async def _write(stage: WorkloadContext, source: random.Random) -> None:
    """Append and trim as a client that notices nothing of all this."""
    async with stage.cluster.client("writer", node=_WRITER) as client:
        actor = Actor(stage, client, client.random, "w")
        while True:
            await attempt(actor.append(source.randint(1, 3), size=100))
            if source.random() < 0.05:
                await attempt(actor.trim(actor.position()))
            await trio.sleep(source.random() * 0.3)


async def _rebuilt(actor: Actor, gone: NodeId) -> bool:
    world, began = actor.stage.cluster.world, actor.stage.cluster.world.now()
    with trio.move_on_after(REBUILD_SECONDS) as limit:
        while any(gone in _servers(actor, segment) for segment in await _closed(actor)):
            await trio.sleep(0.2)
    world.demanded("rebuild", world.now() - began)
    if limit.cancelled_caught:
        message = f"node {gone} is gone, and {REBUILD_SECONDS:g} s later closed segments still rest on it"
        world.violations.append(Violation("healing", message, (len(world.history.events) - 1,)))
    return not limit.cancelled_caught


async def _closed(actor: Actor) -> Sequence[Segment]:
    view = actor.client.log.view
    while not await attempt(view.refresh()):
        await trio.sleep(0.2)
    assert view.cached is not None
    return [segment for segment in view.cached.chain.segments if segment.stop is not None]


def _servers(actor: Actor, segment: Segment) -> Sequence[NodeId]:
    kind = replicated(actor.client.log.view.provider(segment.kind))
    assert kind is not None
    return kind.placement(segment.config).servers


async def _only_newcomers(stage: WorkloadContext, gone: NodeId) -> None:
    """Remove the original servers of the segments; another client reads the whole log without them."""
    cluster, world = stage.cluster, stage.cluster.world
    async with cluster.client("reader", node=_READER) as client:
        actor = Actor(stage, client, client.random, "r")
        while not await attempt(actor.check_tail()):
            await trio.sleep(0.2)
        for node, machine in cluster.machines.items():
            if node not in _FORMER and not machine.running:  # it died at a crash point that is not armed any more
                machine.start()
        for node in _FORMER:
            if cluster.machines[node].running:
                cluster.machines[node].crash()
        with trio.move_on_after(READ_SECONDS) as limit:
            while not await attempt(_read_all(actor)):
                await trio.sleep(0.2)
    if limit.cancelled_caught:
        message = f"the copies of node {gone} were rebuilt, and cannot be read without the others"
        world.violations.append(Violation("healing", message, (len(world.history.events) - 1,)))


async def _read_all(actor: Actor) -> None:
    tail, at = actor.stage.tail, 0
    while at < tail:
        at = await actor.read(at, tail, 1 << 20)


REBUILT: Final = Scenario(
    name="rebuilt",
    about="a node with copies of closed segments is gone for good; the segments are rebuilt under load, and read without the rest",
    story=_story,
    limit_seconds=300.0,
)
