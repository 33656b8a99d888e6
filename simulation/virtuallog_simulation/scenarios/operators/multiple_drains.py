"""Nodes are emptied, several in a row or at once, each by an operator of its own; then all that were said to be free are gone.

Two or three drains begin within moments, asked of different nodes. Beside them operators set the members that they draw,
add nodes that are in use with fewer roles, and extend the log. No node fails. There may be just enough nodes, or one too few:
then a drain must be refused, and only then. In some runs a drained node is taken back, and others are drained in a second round.

Answers are believed: a node that "may be stopped" goes for good, with its disks, at once or in the
end. In some runs the others are then started again. They must decide versions, append, and read all
that was acknowledged, whichever of them is down.

docs/howto/operate.md, "Add, replace, drain"; server/virtuallog_server/membership.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.admin.membership import AddNode, DrainNode, Progress
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.actions import ExtendChange, MembersChange
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_server.healing.policy_registry import DEFAULT, OFF
from virtuallog_server.membership.cluster_state import placement_of
from virtuallog_simulation.checks.cluster.placements import sets_are_amended
from virtuallog_simulation.checks.history.chain import CHAIN_CHECKS
from virtuallog_simulation.checks.history.log import LOG_CHECKS
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.scenarios.loglet.native import provider
from virtuallog_simulation.scenarios.operators.final_checks import get, go_on, read_all
from virtuallog_simulation.scenarios.operators.operator import Operator, OperatorsContext
from virtuallog_simulation.workload.actor import Actor, WorkloadContext, attempt
from virtuallog_simulation.workload.plan import WorkloadPlan
from virtuallog_simulation.world.cluster import Client, Cluster, ClusterPlan
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.transport import CALLS
from virtuallog_simulation.world.world import World

COPIES: Final = 3
ROUND_SECONDS: Final = 20.0
"""Seconds for a round of drains: some steps each, and no node fails."""
SETTLE_SECONDS: Final = 2.0
_ROLES: Final = ("log-server", "replica", "sequencer")
_OPERATOR, _OTHERS, _READER = NodeId(2001), 2002, 2021


async def _story(world: World) -> None:
    world.options = attrs.evolve(world.options, transport=CALLS)
    source = world.random("plan")
    members, nodes = source.choice(((3, 5), (3, 6), (3, 6), (3, 7), (5, 6), (5, 6), (5, 7)))
    plan = ClusterPlan(nodes=nodes, members=members, kinds=(provider,))
    cluster = Cluster(world, plan, healing=source.choice((DEFAULT, OFF)))
    cluster.start()
    await cluster.wait_serving()
    async with trio.open_nursery() as nursery, cluster.client("operator", node=_OPERATOR) as client:
        scene = OperatorsContext(WorkloadContext(cluster, WorkloadPlan.draw(source), nursery), source, crashes=False)
        actor = Actor(scene.stage, client, world.random("operator"), "o")
        await _build(scene, actor)
        if source.random() < 0.6:
            world.network.set_quality(LinkQuality(tail_probability=0.3, tail_seconds=source.choice((0.02, 0.2))))
        if await _empty(scene, client):
            world.network.set_quality(LinkQuality())
            await _do_without(scene)
        nursery.cancel_scope.cancel()
    world.check(
        *LOG_CHECKS, *LOGLET_CHECKS, *CHAIN_CHECKS, partial(sets_are_amended, placement=placement_of(client.log))
    )


async def _build(scene: OperatorsContext, actor: Actor) -> None:
    """One or two segments, anywhere."""
    for _ in range(scene.source.randint(1, 2)):
        servers = sorted(scene.source.sample(scene.cluster.nodes, COPIES))
        await _extend(actor, {"servers": ",".join(map(str, servers))})
        await attempt(actor.append(scene.source.randint(1, 3)))


async def _extend(actor: Actor, settings: dict[str, str]) -> None:
    asked = ExtendChange("native", ",".join(f"{name}={value}" for name, value in settings.items()))
    await attempt(actor.change(asked, actor.client.log.reconfig_extend("native", settings)))


# -- rounds of drains -----------------------------------------------------------------------------------------------


async def _empty(scene: OperatorsContext, client: Client) -> bool:
    """Drain nodes in rounds; returns True if each round came to an end."""
    for number in range(scene.source.choice((1, 2, 2))):
        register = await client.log.view.refresh()
        if number and scene.stoppable:
            await _take_back(scene, client, register)
        if not await _round(scene, number, await client.log.view.refresh()):
            return False
    return True


async def _round(scene: OperatorsContext, number: int, register: Register) -> bool:
    source = scene.source
    used = [node for node, entry in register.nodes.items() if entry.roles and node not in scene.stopped]
    seated = [node for node in register.members if node in used]
    first = source.sample(seated, min(len(seated), source.choice((1, 1, 2, 2, 3))))
    rest = [node for node in used if node not in first]
    leaving = [*first, *source.sample(rest, min(len(rest), source.choice((0, 1, 1))))]
    pause = source.choice((0.0, 0.0, 0.02, 0.3, 30.0))  # the last one: one drain has ended before the next one begins
    acts: list[Callable[[Operator], Awaitable[None]]] = [partial(_drain, node=node) for node in leaving]
    if source.random() < 0.5:
        acts.append(_set_members)
    if source.random() < 0.4:
        acts.append(partial(_add_again, without=leaving))
    if source.random() < 0.4:
        acts.append(_go_on_elsewhere)
    source.shuffle(acts)
    with trio.move_on_after(ROUND_SECONDS * (len(acts) if pause > 1 else 1)) as limit:
        async with trio.open_nursery() as nursery:
            for place, act in enumerate(acts):
                ended = trio.Event()
                nursery.start_soon(_work, scene, 10 * number + place, act, ended)
                with trio.move_on_after(pause * source.random() if pause < 1 else ROUND_SECONDS):
                    await ended.wait()
    if limit.cancelled_caught:
        scene.object("progress", f"no node has failed, and drains of {leaving} have not ended")
    return not limit.cancelled_caught


async def _work(
    scene: OperatorsContext, number: int, act: Callable[[Operator], Awaitable[None]], ended: trio.Event
) -> None:
    able = [node for node in scene.running if node not in scene.stoppable]
    async with scene.cluster.client("operator", node=NodeId(_OTHERS + number), members=able) as client:
        await act(Operator(scene, client, scene.world.random(f"operator {number}"), number))
    ended.set()


async def _drain(operator: Operator, node: NodeId, again: bool = False) -> None:
    """Asked until it is done or refused. It may be refused only if too few others are left."""
    scene = operator.scene
    scene.draining += 1
    if scene.draining > 1:
        scene.did("drain two nodes at once")
    answer = await operator.ask(DrainNode(node=node), node)
    scene.draining -= 1
    if isinstance(answer, Progress):
        scene.did("drain a node")
        if operator.source.random() < 0.3:
            scene.stop(node)
        else:
            scene.stoppable.add(node)
        return
    scene.did("refuse a drain")
    register = await operator.register()
    left = operator.used(register) if register else []
    if register and node in left and len(left) > max(COPIES, len(register.members)):
        if not again:  # it was judged on an older picture, perhaps
            await trio.sleep(SETTLE_SECONDS)
            await _drain(operator, node, again=True)
            return
        scene.object("progress", f"node {node} cannot be drained, though nodes {left} are in use: {answer}")


async def _set_members(operator: Operator) -> None:
    """Change the members to drawn nodes, in the place of those seen a moment ago."""
    register, source = await operator.register(), operator.source
    if register is None:
        return
    await trio.sleep(source.choice((0.0, 0.01, 0.1)))
    used = [node for node in operator.used(register) if node in operator.scene.running]
    if len(used) < len(register.members):
        return
    members, seen = tuple(sorted(source.sample(used, len(register.members)))), register.members
    actor = Actor(operator.scene.stage, operator.client, source, f"m{operator.number}")
    log = operator.client.log
    done = await attempt(actor.change(MembersChange(members, seen), log.reconfig_members(members, seen)))
    operator.scene.did("change the members" if done else "refuse a change of the members")


async def _add_again(operator: Operator, without: Collection[NodeId]) -> None:
    """A node in use that is not drained, with one role."""
    register = await operator.register()
    used = [node for node in operator.used(register) if node not in without] if register else []
    if register and used:
        node, roles = operator.source.choice(used), (operator.source.choice(_ROLES),)
        await operator.ask(AddNode(node=node, addresses=register.nodes[node].addresses, roles=roles), node)
        operator.scene.did("add a node once more with fewer roles")


async def _go_on_elsewhere(operator: Operator) -> None:
    """The log goes on where the planner says, twice."""
    actor = Actor(operator.scene.stage, operator.client, operator.source, f"e{operator.number}")
    for _ in range(2):
        await _extend(actor, {})
        await attempt(actor.append())


async def _take_back(scene: OperatorsContext, client: Client, register: Register) -> None:
    """A drained node that still runs is used again."""
    node = scene.source.choice(sorted(scene.stoppable))
    back = AddNode(node=node, addresses=register.nodes[node].addresses, roles=_ROLES)
    if scene.source.random() < 0.5:
        scene.stoppable.discard(node)
        await Operator(scene, client, scene.source, 9).ask(back, node)
        scene.did("take a drained node back")


# -- the end --------------------------------------------------------------------------------------------------------


async def _do_without(scene: OperatorsContext) -> None:
    """All that were said to be free are gone."""
    for node in sorted(scene.stoppable):
        scene.stop(node)
    if scene.source.random() < 0.3:
        for machine in [scene.cluster.machines[node] for node in scene.running]:
            machine.crash()
            machine.start()
    await trio.sleep(SETTLE_SECONDS)
    async with scene.cluster.client("reader", node=NodeId(_READER), members=scene.running) as client:
        reader = Actor(scene.stage, client, client.random, "r")
        if not await get(scene, "go on without the nodes that were free", partial(go_on, scene, reader)):
            return
        register = await client.log.view.refresh()
    stays = [node for node in scene.running if register.nodes[node].roles]
    down = scene.cluster.machines[scene.source.choice(stays)]
    down.crash()
    async with scene.cluster.client("reader", node=NodeId(_READER + 1), members=scene.running) as client:
        reader = Actor(scene.stage, client, client.random, "s")
        await get(scene, f"read without node {down.node}", partial(read_all, scene, reader))


SHAPES: Final = (
    "add a node once more with fewer roles",
    "change the members",
    "drain a node",
    "drain two nodes at once",
    "refuse a change of the members",
    "refuse a drain",
    "stop a drained node",
    "take a drained node back",
)
"""Shapes that its runs must have brought about."""

EMPTIED: Final = Scenario(
    name="emptied",
    about="several operators drain nodes in a row or at once, all that were said to be free go, and the others do everything",
    story=_story,
    limit_seconds=300.0,
)
