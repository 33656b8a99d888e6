"""The end of a run with operators: all nodes are back, everything is finished, and the cluster works without the nodes said to be free."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import trio

from virtuallog.admin.membership import DrainNode, Progress, ReplaceNode
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.actions import ExtendChange, MembersChange
from virtuallog_simulation.checks.cluster.lag import live_servers_catch_up
from virtuallog_simulation.checks.cluster.rebuilt_copies import made_copies_are_whole
from virtuallog_simulation.checks.history.facts import chains
from virtuallog_simulation.scenarios.operators.operator import (
    COPIES,
    Operator,
    OperatorsContext,
    check_replaced,
    native_placement,
)
from virtuallog_simulation.workload.actor import Actor, attempt
from virtuallog_simulation.world.cluster import Client

FINISH_SECONDS: Final = 40.0
"""Seconds to finish open work when all nodes are back: suspicions, restarts, and some steps of a
second at most."""
READ_SECONDS: Final = 20.0
SETTLE_SECONDS: Final = 2.0
CATCH_UP_SECONDS: Final = 3.0
_JUDGE: Final = NodeId(2013)
_SETTLER: Final = NodeId(2014)
_READER: Final = 2021


async def finish(scene: OperatorsContext) -> bool:
    """Bring all nodes back, finish what is half done, and drain one node more. Returns True if that
    came to an end."""
    scene.world.network.heal()
    for node, machine in scene.cluster.machines.items():
        if not machine.running and node not in scene.stopped and node not in scene.unsettled:
            machine.start()
    await trio.sleep(SETTLE_SECONDS)
    async with scene.cluster.client("judge", node=_SETTLER, members=scene.running) as client:
        with trio.move_on_after(FINISH_SECONDS):
            for node, store_id in scene.unsettled.items():
                await _settle(scene, client, node, store_id)
    async with scene.cluster.client("judge", node=_JUDGE, members=scene.running) as client:
        operator = Operator(scene, client, scene.world.random("judge"), 9)
        with trio.move_on_after(FINISH_SECONDS) as limit:
            for node in sorted(scene.fragile):
                while True:
                    answer = await operator.ask(ReplaceNode(node=node, store_id=scene.asked[node]), node)
                    if isinstance(answer, Progress) and answer.done:
                        await check_replaced(scene, client, node)
                        break
                    await trio.sleep(0.3)
            await _drain_one_more(scene, operator, client)
        if limit.cancelled_caught:
            scene.object("progress", f"all nodes live, and after {FINISH_SECONDS:g} s something is not finished")
        elif not scene.crashes:
            _count_extensions(scene)
    return not limit.cancelled_caught


async def _settle(scene: OperatorsContext, client: Client, node: NodeId, store_id: bytes) -> None:
    """Start a node: on an empty disk, if the register says that the former one is given up."""
    while not await attempt(client.log.view.refresh()):
        await trio.sleep(0.2)
    register = client.log.view.cached
    assert register is not None
    if register.nodes[node].store_id != store_id:
        scene.fragile.add(node)
        scene.asked[node] = store_id
        scene.cluster.machines[node].wipe()
    scene.cluster.machines[node].start()


async def _drain_one_more(scene: OperatorsContext, operator: Operator, client: Client) -> None:
    """Drain one node more; with a spare node for everything this is never refused."""
    register = await client.log.view.refresh()
    used = [node for node in operator.used(register) if scene.cluster.machines[node].running]
    if len(used) <= max(COPIES, len(register.members)) + 1:
        return
    node = operator.source.choice(used)
    scene.extensions += 3
    answer = await operator.ask(DrainNode(node=node), node)
    if not isinstance(answer, Progress):
        scene.object("progress", f"node {node} cannot be drained, though nodes {used} are used: {answer}")
        return
    scene.stoppable.add(node)


def _count_extensions(scene: OperatorsContext) -> None:
    """No node has failed, so nothing but operators' acts has been a reason to extend the log."""
    opened = {known.chain.last.id for known in chains(scene.world.history).values()}
    scene.did("count the extensions")
    if len(opened) > 2 * scene.extensions + 5:
        scene.object("no needless extension", f"{len(opened)} loglets were open, and {scene.extensions} were asked for")


async def do_without(scene: OperatorsContext) -> None:
    """All that were said to be free go at once. The others have everything, whichever of them is down."""
    for node in sorted(scene.stoppable):
        scene.stop(node)
    await trio.sleep(SETTLE_SECONDS)
    async with scene.cluster.client("reader", node=NodeId(_READER), members=scene.running) as client:
        reader = Actor(scene.stage, client, client.random, "r")
        if not await get(scene, "go on without the nodes that were free", lambda: go_on(scene, reader)):
            return
        await trio.sleep(CATCH_UP_SECONDS)
        scene.world.violations.extend(live_servers_catch_up(scene.cluster, reader.chain.last))
        scene.world.violations.extend(made_copies_are_whole(scene.cluster))
        register = await client.log.view.refresh()
        await _replace_all_members(scene, reader, register)
    stays = [node for node in scene.running if node in register.nodes and register.nodes[node].roles]
    for number, node in enumerate(scene.source.sample(stays, min(2, len(stays))), 1):
        scene.cluster.machines[node].crash(power=False)
        async with scene.cluster.client("reader", node=NodeId(_READER + number), members=scene.running) as client:
            reader = Actor(scene.stage, client, client.random, f"r{number}")
            if not await get(scene, f"read without node {node}", partial(read_all, scene, reader)):
                return
        scene.cluster.machines[node].start()
        await trio.sleep(SETTLE_SECONDS)


async def go_on(scene: OperatorsContext, reader: Actor) -> None:
    register = await reader.client.log.view.refresh()
    for node in sorted(scene.stopped):
        if found := rests_on_stopped(register, node):
            scene.object("done is done", f"node {node} was said to be free, and is needed by {', '.join(found)}")
    await read_all(scene, reader)
    await reader.change(ExtendChange("native", ""), reader.client.log.reconfig_extend("native"))
    for _ in range(3):
        await reader.append()


async def _replace_all_members(scene: OperatorsContext, reader: Actor, register: Register) -> None:
    """Other members, as many; then the former ones are down, all at once, and the register is changed all the same."""
    free = [
        node
        for node in scene.running
        if node in register.nodes and register.nodes[node].roles and node not in register.members
    ]
    former = [node for node in register.members if scene.cluster.machines[node].running]
    if len(free) < len(register.members) or scene.source.random() < 0.3:
        return
    members = tuple(sorted(scene.source.sample(free, len(register.members))))
    log = reader.client.log
    asked = MembersChange(members, register.members)
    if not await get(
        scene,
        "replace all members",
        lambda: reader.change(asked, log.reconfig_members(members, register.members)),
    ):
        return
    for node in former:
        scene.cluster.machines[node].crash()
    scene.did("replace all members")
    await get(scene, "decide without the former members", lambda: _change_and_back(reader, members))
    for node in former:
        scene.cluster.machines[node].start()
    await trio.sleep(SETTLE_SECONDS)


async def _change_and_back(reader: Actor, members: tuple[NodeId, ...]) -> None:
    log, fewer = reader.client.log, members[:-1]
    now = (await log.view.refresh()).members
    if now == members:
        await reader.change(MembersChange(fewer, now), log.reconfig_members(fewer, now))
        now = fewer
    await reader.change(MembersChange(members, now), log.reconfig_members(members, now))


async def read_all(scene: OperatorsContext, reader: Actor) -> None:
    await reader.check_tail()
    at, stop = 0, scene.stage.tail
    while at < stop:
        at = await reader.read(at, stop, 1 << 20)


def rests_on_stopped(register: Register, node: NodeId) -> list[str]:
    """Segments and seats that need the node."""
    found = []
    for segment in register.chain.segments:
        placement = native_placement(segment)
        if placement is not None:
            orders = placement.orders if segment.stop is None else frozenset()
            if node in orders.union(placement.servers):
                found.append(f"segment {segment.id}")
    return [*(["the MetaStore"] if node in register.members else []), *found]


async def get(scene: OperatorsContext, what: str, work: Callable[[], Awaitable[object]]) -> bool:
    """Tried until it succeeds, or its time is over."""
    began = scene.world.now()
    with trio.move_on_after(READ_SECONDS) as limit:
        while not await attempt(work()):
            await trio.sleep(0.2)
    scene.world.demanded(what.rstrip("0123456789 "), scene.world.now() - began)
    if limit.cancelled_caught:
        scene.object("progress", f"within {READ_SECONDS:g} s it could not be done: {what}")
    return not limit.cancelled_caught
