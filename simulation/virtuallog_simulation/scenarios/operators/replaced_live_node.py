"""A directory that lives is given up, and does not know it: a firewall lets others in to it, and nothing of its own out.

Its node has another directory now, at another address. Those that had talked to the former one must not go on with it: what
it takes copies of, the new one does not have. When the only other node with a copy goes, and the former directory with it,
a majority is left, and must have all that was acknowledged.
"""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Final

import attrs
import trio

from virtuallog.admin.membership import ReplaceNode
from virtuallog.client.appender import AppenderSettings
from virtuallog.client.virtual_log import VirtualLogSettings
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.actions import ExtendChange
from virtuallog.testing.checker.violation import Violation
from virtuallog_simulation.checks.history.chain import CHAIN_CHECKS
from virtuallog_simulation.checks.history.log import LOG_CHECKS
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.scenarios.cluster.disk_loss import act, cut
from virtuallog_simulation.scenarios.loglet.native import provider
from virtuallog_simulation.workload.actor import Actor, WorkloadContext, attempt
from virtuallog_simulation.workload.plan import WorkloadPlan
from virtuallog_simulation.world.cluster import Client, Cluster, ClusterPlan
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.transport import STREAMS, Streams, address_of, elsewhere
from virtuallog_simulation.world.world import World

STEP_NEXTS: Final = 30.0
_SETTINGS: Final = VirtualLogSettings(appender=AppenderSettings(give_up=3.0))
_OPERATOR, _NEXT, _LAST = (NodeId(number) for number in range(2001, 2004))


@attrs.frozen(eq=False)
class ReplacedNodeRoles:
    """Clients and nodes of the story."""

    stage: WorkloadContext
    source: random.Random
    replaced: NodeId
    sequencer: NodeId
    """Sequencer, which has talked to the former directory all the while."""
    late: NodeId
    """Server without a copy of the last entries."""


async def _story(world: World) -> None:
    world.options = attrs.evolve(world.options, transport=STREAMS)
    source = world.random("plan")
    cluster = Cluster(world, ClusterPlan(nodes=3, members=3, kinds=(provider,)), _SETTINGS)
    cluster.start()
    await cluster.wait_serving()
    async with trio.open_nursery() as nursery:
        cast = ReplacedNodeRoles(
            WorkloadContext(cluster, WorkloadPlan.draw(source), nursery), source, *source.sample(cluster.nodes, 3)
        )
        async with cluster.client("operator", node=_OPERATOR) as client:
            operator = Actor(cast.stage, client, client.random, "o")
            if await _extended(cast, operator):
                await attempt(operator.append(source.randint(1, 3)))
                if await _usurp(cast, client) and await _extended(cast, operator):
                    await attempt(operator.append())
                    cut(world, cast.late, [cast.sequencer, _OPERATOR])
                    await attempt(operator.append(source.randint(1, 3)))
                    await _only_the_new_one(cast)
        nursery.cancel_scope.cancel()
    world.check(*LOG_CHECKS, *LOGLET_CHECKS, *CHAIN_CHECKS)


async def _extended(cast: ReplacedNodeRoles, operator: Actor) -> bool:
    """Extend the log on all three servers with this sequencer; returns True on success."""
    settings = {"servers": "1,2,3", "sequencer": str(cast.sequencer)}
    asked = ExtendChange("native", f"sequencer={cast.sequencer}")
    with trio.move_on_after(STEP_NEXTS):
        while not await attempt(operator.change(asked, operator.client.log.reconfig_extend("native", settings))):
            await trio.sleep(0.1)
        return True
    return _failed(cast, "the log does not go on on three nodes that live")


def _failed(cast: ReplacedNodeRoles, message: str) -> bool:
    world = cast.stage.cluster.world
    world.violations.append(
        Violation("progress", f"{message}, after {STEP_NEXTS:g} s", (len(world.history.events) - 1,))
    )
    return False


async def _usurp(cast: ReplacedNodeRoles, client: Client) -> bool:
    """Give the place of the live directory to a new one, on another machine; returns True on
    success."""
    cluster, world, node = cast.stage.cluster, cast.stage.cluster.world, cast.replaced
    assert isinstance(world.transport, Streams)
    old = (await client.log.view.refresh()).nodes[node].store_id
    world.transport.streams.fence(node)
    cluster.add(elsewhere(node))
    request = ReplaceNode(node=node, store_id=old, addresses=(address_of(elsewhere(node)),), force=True)
    with trio.move_on_after(STEP_NEXTS):
        while (await _store_id(client, node)) in {old, b""}:
            with suppress(VirtualLogError):
                await client.log.view.environment.services.call(cast.sequencer, request, 1.0)
        for connection in world.transport.connections:
            if connection.nodes == (_OPERATOR, node):
                connection.reset()  # so that the operator, whatever it does with old connections, finds the new directory
        return True
    return _failed(cast, f"no new directory has taken the place of node {node}")


async def _store_id(client: Client, node: NodeId) -> bytes:
    """Store id of the directory that the register names; empty also if it cannot be read."""
    with suppress(VirtualLogError):
        return (await client.log.view.refresh()).nodes[node].store_id
    return b""


async def _only_the_new_one(cast: ReplacedNodeRoles) -> None:
    """The sequencer goes, and the former directory, which is no part of the cluster any more; two of three are left."""
    machines, world = cast.stage.cluster.machines, cast.stage.cluster.world
    for node in (cast.sequencer, cast.replaced):
        machines[node].crash()
    world.network.heal()
    await act(cast.stage, _NEXT, 1)
    machines[cast.sequencer].start()
    await act(cast.stage, _LAST, 1)


USURPED: Final = Scenario(
    name="usurped",
    about="a directory is given up while it lives, does not know it, and is still asked to take copies",
    story=_story,
    limit_seconds=600.0,
)
