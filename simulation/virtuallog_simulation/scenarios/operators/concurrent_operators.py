"""Several operators at once: drains, replacements, additions, removals and changes of the members, from different nodes.

Each operator draws its acts and the nodes it asks; one may not know of the others. A writer appends
all the while. Copies have holes: a log server was cut off from its sequencer, and caught up without
what others had committed meanwhile. An answer to an operator is believed:

    "may be stopped"     the node goes for good, with its disks, at once or in the end together with all others
    a replacement        that was accepted without --force: the directory is gone, whole or not
    members changed      all former ones go at once, for a while

Then all faults stop, and the rest must do everything: finish, drain one node more, decide, append,
read all that was acknowledged, also while one node after the other is down. Live servers have
caught up with each other some seconds later.

docs/howto/operate.md, "Add, replace, drain"; server/virtuallog_server/membership.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import attrs
import trio

from virtuallog.admin.membership import AddNode, DrainNode
from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Request
from virtuallog.contract.types import NodeId
from virtuallog_server.healing.policy_registry import DEFAULT, OFF
from virtuallog_simulation.checks.cluster.node_state import log_servers
from virtuallog_simulation.checks.cluster.placements import sets_are_amended
from virtuallog_simulation.checks.history.chain import CHAIN_CHECKS
from virtuallog_simulation.checks.history.log import LOG_CHECKS
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.scenarios.cluster.disk_loss import cut
from virtuallog_simulation.scenarios.cluster.load import native as provider
from virtuallog_simulation.scenarios.operators.final_checks import (
    do_without,
    finish,
)
from virtuallog_simulation.scenarios.operators.operator import (
    ACT_SECONDS,
    COPIES,
    MEMBERS,
    ROLES,
    Operator,
    OperatorsContext,
    extend,
    native_placement,
)
from virtuallog_simulation.workload.actor import Actor, WorkloadContext, attempt
from virtuallog_simulation.workload.plan import WorkloadPlan
from virtuallog_simulation.world.cluster import Cluster, ClusterPlan
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.transport import CALLS, address_of
from virtuallog_simulation.world.world import World

OPERATE_SECONDS: Final = 25.0
HOLE_SECONDS: Final = 2.5
_FIRST_OPERATOR: Final = 2001
_WRITER: Final = NodeId(2011)
_BUILDER: Final = NodeId(2012)


async def _story(world: World) -> None:
    world.options = attrs.evolve(world.options, transport=CALLS)
    source = world.random("plan")
    nodes = source.choice((5, 6, 6, 7))
    cluster = Cluster(
        world, ClusterPlan(nodes=nodes, members=MEMBERS, kinds=(provider,)), healing=source.choice((DEFAULT, OFF))
    )
    cluster.start()
    await cluster.wait_serving()
    async with trio.open_nursery() as nursery:
        scene = OperatorsContext(
            WorkloadContext(cluster, WorkloadPlan.draw(source), nursery), source, source.random() < 0.7
        )
        async with cluster.client("builder", node=_BUILDER) as client:
            await _build(scene, Actor(scene.stage, client, world.random("builder"), "b"))
        writing = trio.CancelScope()
        nursery.start_soon(_write, scene, writing)
        await _operate(scene)
        if await finish(scene):
            writing.cancel()
            await do_without(scene)
        nursery.cancel_scope.cancel()
    world.check(*LOG_CHECKS, *LOGLET_CHECKS, *CHAIN_CHECKS, partial(sets_are_amended, placement=native_placement))


async def _build(scene: OperatorsContext, actor: Actor) -> None:
    """Closed segments on different nodes, some copies with holes."""
    source = scene.source
    for _ in range(source.randint(1, 3)):
        servers = sorted(source.sample(scene.cluster.nodes, COPIES))
        orders = source.choice(servers)
        await extend(scene, actor, {"servers": ",".join(map(str, servers)), "sequencer": str(orders)})
        await attempt(actor.append(source.randint(1, 3)))
        if source.random() < 0.6:
            victim = await _make_hole(scene, actor, servers, orders)
            if source.random() < 0.4:
                await _bring_back(scene, actor, victim, servers)
    if source.random() < 0.8:
        await extend(scene, actor, {})
        await attempt(actor.append())


async def _make_hole(scene: OperatorsContext, actor: Actor, servers: Sequence[NodeId], orders: NodeId) -> NodeId:
    victim = scene.source.choice([server for server in servers if server != orders])
    cut(scene.world, victim, [orders])
    await attempt(actor.append(scene.source.randint(1, 3)))
    await trio.sleep(HOLE_SECONDS)
    for link in (scene.world.network.link(victim, orders), scene.world.network.link(orders, victim)):
        link.blocked = False
    for _ in range(3):
        await attempt(actor.append())
        await trio.sleep(0.3)
    if _has_hole(scene, victim, actor.chain.last):
        scene.did("make a copy with a hole")
    return victim


async def _bring_back(scene: OperatorsContext, actor: Actor, node: NodeId, servers: Sequence[NodeId]) -> None:
    """The node loses its copy to another, is used again, and is the best place for a copy when another server is drained: it has
    least of all, and the old copy still."""
    operator = Operator(scene, actor.client, scene.source, 8)
    other = scene.source.choice([server for server in servers if server != node])
    back = AddNode(node=node, addresses=(address_of(node),), roles=ROLES)
    requests: Sequence[Request[Any]] = (DrainNode(node=node), back, DrainNode(node=other))
    with trio.move_on_after(ACT_SECONDS):
        for request in requests:
            scene.extensions += 3
            if isinstance(await operator.ask(request, other), VirtualLogError):
                return
        scene.stoppable.add(other)
        scene.did("bring an old copy with a hole back")


def _has_hole(scene: OperatorsContext, node: NodeId, segment: Segment) -> bool:
    """True if the node knows of entries behind some that it lacks."""
    server = log_servers(scene.cluster).get(node)
    held = server.durable.loglets.get(segment.id) if server is not None else None
    if held is None:
        return False
    at = 0
    for first, entries, _ in sorted(held.waves):
        if first > at:
            return True
        at = first + entries
    return False


async def _write(scene: OperatorsContext, writing: trio.CancelScope) -> None:
    """A client that knows nothing of all this."""
    source = scene.world.random("writer")
    with writing:
        async with scene.cluster.client("writer", node=_WRITER) as client:
            actor = Actor(scene.stage, client, source, "w")
            while True:
                await attempt(actor.append(source.randint(1, 2), size=source.choice((0, 0, 300))))
                if source.random() < 0.02:
                    await attempt(actor.trim(actor.position() // 2))
                await trio.sleep(source.random() * 0.4)


async def _operate(scene: OperatorsContext) -> None:
    with trio.move_on_after(OPERATE_SECONDS):
        async with trio.open_nursery() as nursery:
            for number in range(scene.source.randint(2, 3)):
                nursery.start_soon(_work, scene, number, scene.source.randint(3, 5))


async def _work(scene: OperatorsContext, number: int, acts: int) -> None:
    async with scene.cluster.client("operator", node=NodeId(_FIRST_OPERATOR + number), members=scene.running) as client:
        operator = Operator(scene, client, scene.world.random(f"operator {number}"), number)
        for _ in range(acts):
            await operator.act()
            await trio.sleep(operator.source.choice((0.0, 0.05, 0.3, 1.0)))


OPERATED: Final = Scenario(
    name="operated",
    about="several operators drain, replace, add and remove nodes and change the members at once, and are believed",
    story=_story,
    limit_seconds=400.0,
)
