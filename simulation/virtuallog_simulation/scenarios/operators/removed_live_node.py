"""A directory that lives is given up, and only partly cut off: it reads the register, and it or others may act as if nothing had happened.

    estranged   another directory has its place, which it does not reach; it reaches a majority, and one server that lags. Its healer has long
                suspected the node that it does not reach, and its client asks for the tail: both must not count what it has itself
    vacant      no directory has its place so far. Others reach it, and it reaches no node, so it does not know: what it takes now, no
                directory will ever have
    expelled    the node is not in the register any more

Times, sizes, and who is who are drawn.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.admin.membership import RemoveNode, ReplaceNode
from virtuallog.client.appender import AppenderSettings
from virtuallog.client.virtual_log import VirtualLogSettings
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.types import NodeId, Tail
from virtuallog.testing.checker.actions import ExtendChange, LogCheckTail
from virtuallog.testing.checker.violation import Violation
from virtuallog_simulation.checks.cluster.removed_node import RemovedNodeWatch
from virtuallog_simulation.checks.history.chain import CHAIN_CHECKS
from virtuallog_simulation.checks.history.log import LOG_CHECKS
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.scenarios.cluster.disk_loss import act
from virtuallog_simulation.scenarios.loglet.native import provider
from virtuallog_simulation.workload.actor import Actor, WorkloadContext, attempt
from virtuallog_simulation.workload.plan import WorkloadPlan
from virtuallog_simulation.world.cluster import Client, Cluster, ClusterPlan
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.transport import STREAMS, Streams, address_of, elsewhere
from virtuallog_simulation.world.world import World

STEP_SECONDS: Final = 40.0
_SETTINGS: Final = VirtualLogSettings(appender=AppenderSettings(give_up=5.0))
_OPERATOR, _READER = NodeId(2001), NodeId(2002)


@attrs.frozen(eq=False)
class RemovedNodeRoles:
    """Clients and nodes of the story."""

    stage: WorkloadContext
    source: random.Random
    given_up: NodeId
    sequencer: NodeId
    lagging: NodeId

    @property
    def cluster(self) -> Cluster:
        return self.stage.cluster

    @property
    def servers(self) -> Sequence[NodeId]:
        return sorted((self.given_up, self.sequencer, self.lagging))


async def _story(world: World, nodes: int, tell: Callable[[RemovedNodeRoles, Actor], Awaitable[None]]) -> None:
    world.options = attrs.evolve(world.options, transport=STREAMS)
    source = world.random("plan")
    cluster = Cluster(world, ClusterPlan(nodes=nodes, members=nodes if nodes == 5 else 3, kinds=(provider,)), _SETTINGS)
    cluster.start()
    await cluster.wait_serving()
    while any(product.virtual_log is None for product in cluster.products.values()):
        await trio.sleep(0.1)
    async with trio.open_nursery() as nursery:
        stage = WorkloadContext(cluster, WorkloadPlan.draw(source), nursery)
        given_up, sequencer = (NodeId(4), NodeId(1)) if nodes == 4 else source.sample(cluster.nodes[:2], 2)
        others = [node for node in cluster.nodes if node != given_up]
        cast = RemovedNodeRoles(
            stage, source, given_up, sequencer, source.choice([node for node in others if node != sequencer])
        )
        async with cluster.client("operator", node=_OPERATOR) as client:
            operator = Actor(stage, client, client.random, "o")
            if await _extend(cast, operator, cast.servers if nodes != 4 else others):
                await attempt(operator.append(source.randint(1, 3)))
                await tell(cast, operator)
        world.network.heal()
        await trio.sleep(2.0)
        await act(stage, _READER, 1)
        nursery.cancel_scope.cancel()
    world.check(*LOG_CHECKS, *LOGLET_CHECKS, *CHAIN_CHECKS)


async def _successor(cast: RemovedNodeRoles, operator: Actor) -> None:
    cluster, world, old, new = cast.cluster, cast.cluster.world, cast.given_up, elsewhere(cast.given_up)
    nodes = [node for node in cluster.nodes if node != old]
    _cut(world, old, [*nodes, new, _OPERATOR])
    cluster.add(new)
    if not await _replace(cast, operator.client, address_of(new), force=False):
        return
    watch = RemovedNodeWatch(cluster, old, (await operator.client.log.view.refresh()).version)
    watch.start()
    await trio.sleep(cast.source.uniform(10.0, 16.0))  # what it had begun to heal has failed, and its pauses are over
    if not await _extend(cast, operator, cast.servers):
        return
    await attempt(operator.append())
    _cut(world, old, [node for node in nodes if node != cast.sequencer], blocked=False)
    _cut(world, cast.lagging, [cast.sequencer])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_look_from, cast, old)
        with trio.move_on_after(cast.source.uniform(2.0, 4.0)):
            while True:
                await attempt(operator.append(cast.source.randint(1, 2)))
                await trio.sleep(0.05)
        nursery.cancel_scope.cancel()
    watch.look()


async def _look_from(cast: RemovedNodeRoles, old: NodeId) -> None:
    """Ask the client of the given-up directory for the tail, again and again. It may have none."""
    log, process = cast.cluster.products[old].virtual_log, cast.cluster.machines[old].process
    assert log is not None
    assert process is not None
    history, name = cast.cluster.world.history, f"given up {old}"
    await trio.sleep(0.3 + cast.source.random())
    settings = {"servers": str(cast.lagging), "sequencer": str(cast.lagging)}
    with process.acting():  # what it starts goes on for longer than the operator's client lives
        with suppress(VirtualLogError), trio.move_on_after(0.3):
            await log.reconfig_extend("native", settings)
        while True:
            with suppress(VirtualLogError), history.record(name, LogCheckTail()) as returned:
                returned(await _or_unavailable(log.check_tail()))
            await trio.sleep(0.05)


async def _or_unavailable(work: Awaitable[Tail]) -> Tail:
    """Turn a refusal, which should happen and is no error of the log, into UnavailableError."""
    try:
        return await work
    except VirtualLogError as error:
        raise UnavailableError(str(error)) from error


async def _expected(cast: RemovedNodeRoles, operator: Actor) -> None:
    cluster, world, old = cast.cluster, cast.cluster.world, cast.given_up
    assert isinstance(world.transport, Streams)
    world.transport.streams.fence(old)
    if not await _replace(cast, operator.client, "", force=True):
        return
    watch = RemovedNodeWatch(cluster, old, (await operator.client.log.view.refresh()).version)
    watch.start()
    if await _extend(cast, operator, ()):  # on those that it was on: a node that does not answer keeps its place
        await attempt(operator.append())
        _cut(world, cast.sequencer, [cast.lagging])
        for _ in range(cast.source.randint(1, 3)):
            with trio.move_on_after(6.0):
                await attempt(operator.append(cast.source.randint(1, 2)))
    watch.look()


async def _removed(cast: RemovedNodeRoles, operator: Actor) -> None:
    """Scenario with an empty removed node. It reaches all others, and gets no updates: its client
    may look, and change nothing."""
    cluster, old = cast.cluster, cast.given_up
    _cut(cluster.world, old, [node for node in (*cluster.nodes, _OPERATOR) if node != old])
    version = (await operator.client.log.view.refresh()).version
    with trio.move_on_after(STEP_SECONDS):
        while old in (await operator.client.log.view.refresh()).nodes:
            with suppress(VirtualLogError):
                await operator.client.log.view.environment.services.call(cast.sequencer, RemoveNode(node=old), 1.0)
        version = (await operator.client.log.view.refresh()).version
    watch = RemovedNodeWatch(cluster, old, version)
    watch.start()
    _cut(cluster.world, old, [node for node in (*cluster.nodes, _OPERATOR) if node != old], blocked=False)
    log = cluster.products[old].virtual_log
    assert log is not None
    with trio.move_on_after(5.0):
        while not watch.knows():
            await trio.sleep(0.05)
        settings = {"servers": str(cast.sequencer), "sequencer": str(cast.sequencer)}
        for work in (partial(log.reconfig_extend, "native", settings), partial(log.append, b"removed")):
            if await attempt(work()):
                _fail(cast, f"node {old} was removed, knows it, and has changed the log")
    watch.look()


async def _replace(cast: RemovedNodeRoles, client: Client, address: str, *, force: bool) -> bool:
    """Give the directory up; with an address wait until the new one has its place."""
    old = (await client.log.view.refresh()).nodes[cast.given_up].store_id
    awaited = {old, b""} if address else {old}
    request = ReplaceNode(
        node=cast.given_up, store_id=old, addresses=(address,) if address else (), force=force
    )  # fmt: skip
    with trio.move_on_after(STEP_SECONDS):
        while True:
            with suppress(VirtualLogError):
                await client.log.view.environment.services.call(cast.sequencer, request, 1.0)
            with suppress(VirtualLogError):
                if (await client.log.view.refresh()).nodes[cast.given_up].store_id not in awaited:
                    return True
            await trio.sleep(0.1)
    return _fail(cast, f"node {cast.given_up} is not replaced")


async def _extend(cast: RemovedNodeRoles, operator: Actor, servers: Sequence[NodeId]) -> bool:
    """Extend the log on these servers and sequencer; returns True on success."""
    settings = {"sequencer": str(cast.sequencer)}
    if servers:
        settings["servers"] = ",".join(map(str, sorted(servers)))
    asked = ExtendChange("native", f"sequencer={cast.sequencer}")
    with trio.move_on_after(STEP_SECONDS):
        while not await attempt(operator.change(asked, operator.client.log.reconfig_extend("native", settings))):
            await trio.sleep(0.1)
        return True
    return _fail(cast, "the log does not go on")


def _fail(cast: RemovedNodeRoles, message: str) -> bool:
    world = cast.cluster.world
    world.violations.append(
        Violation("progress", f"{message}, after {STEP_SECONDS:g} s", (len(world.history.events) - 1,))
    )
    return False


def _cut(world: World, one: NodeId, others: Sequence[NodeId], *, blocked: bool = True) -> None:
    for other in others:
        world.network.link(one, other).blocked = world.network.link(other, one).blocked = blocked


ESTRANGED: Final = Scenario(
    name="estranged",
    about="a directory is given up while it lives and is only partly cut off; it reads that, and must not count its own copies",
    story=partial(_story, nodes=5, tell=_successor),
    limit_seconds=600.0,
)
VACANT: Final = Scenario(
    name="vacant",
    about="a directory is given up, does not know it, and is still there while another one is expected in its place",
    story=partial(_story, nodes=3, tell=_expected),
    limit_seconds=600.0,
)
EXPELLED: Final = Scenario(
    name="expelled",
    about="a node is removed from the register while it lives, reads that, and must change nothing",
    story=partial(_story, nodes=4, tell=_removed),
    limit_seconds=600.0,
)
