"""A majority of the MetaStore's members lose their disks for good, and the nodes that are left go on from an exported register.

An operator does what the manual says (docs/howto/operate.md, "When the MetaStore is lost", "When a loglet is lost for good"), on the disks of the
simulated nodes, with the product's own functions (`virtuallog_server.storage.register_import`, `virtuallog_metastore.disaster_recovery.chain_edit`). Before it goes right, files are tried that must be
refused. An import may die half-way, and is done again. In the end a member that was believed lost turns up, partly cut off, and a
client that was not started again appends.

Drawn: 3 or 5 nodes and members; who is lost; whether the loglet is lost with them; whether the file is the newest, or one from before a change
that no directory which is left knows of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.client.appender import AppenderSettings
from virtuallog.client.virtual_log import VirtualLogSettings
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog.reconfiguration.node_table_update import update_node_table
from virtuallog.testing.checker.actions import ExtendChange
from virtuallog_loglets.native.config import decode_untrusted as decode_native
from virtuallog_metastore.disaster_recovery.dump import Dump, decode_untrusted, dump
from virtuallog_simulation.checks.cluster import register_import
from virtuallog_simulation.checks.history.chain import CHAIN_CHECKS
from virtuallog_simulation.checks.history.log import LOG_CHECKS
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.scenarios.loglet.native import provider
from virtuallog_simulation.scenarios.operators.offline_import import (
    RecoveryRoles,
    choose_file,
    import_everywhere,
    import_late,
)
from virtuallog_simulation.workload.actor import Actor, WorkloadContext, attempt
from virtuallog_simulation.workload.plan import WorkloadPlan
from virtuallog_simulation.world.cluster import Cluster, ClusterPlan
from virtuallog_simulation.world.machine import Disks
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.transport import STREAMS
from virtuallog_simulation.world.world import World

REVIVED_SECONDS: Final = 30.0
"""Seconds from the start of the imported nodes until the log goes on, and all that can be read has
been."""
_SETTINGS: Final = VirtualLogSettings(appender=AppenderSettings(give_up=3.0))
_FORMER, _OPERATOR, _LATER, _READER = (NodeId(number) for number in range(2001, 2005))


async def _story(world: World) -> None:
    world.options = attrs.evolve(world.options, transport=STREAMS)
    source = world.random("plan")
    nodes = source.choice((3, 5, 5))
    plan = ClusterPlan(nodes=nodes, members=source.choice((3, nodes)), kinds=(provider,))
    cluster = Cluster(world, plan, _SETTINGS, healing="off")
    cluster.start()
    await cluster.wait_serving()
    await trio.sleep(1.5)  # node.following has informed all nodes of the cluster id
    async with trio.open_nursery() as nursery:
        stage = WorkloadContext(cluster, WorkloadPlan.draw(source), nursery)
        async with cluster.client("former", node=_FORMER) as former, cluster.client("operator", node=_OPERATOR) as own:
            cast = RecoveryRoles(stage, source, Actor(stage, own, own.random, "o"), former)
            await _live(cast)
            olds = await _lose_majority(cast)
            chosen, members = await choose_file(cast)
            decision = await import_everywhere(cast, chosen, members)
            if decision is not None:
                began = len(world.history.events)
                returned = await _go_on(cast, olds, chosen, members)
                world.check(*register_import.register_import_checks(decision, began, {former.name, own.name, returned}))
        nursery.cancel_scope.cancel()
    world.check(*LOG_CHECKS, *LOGLET_CHECKS, *CHAIN_CHECKS)


async def _live(cast: RecoveryRoles) -> None:
    """The log goes on, at servers that are drawn. The register is exported now and then; the last change may come after the last export, and
    may be unknown to a member."""
    source, cluster = cast.source, cast.cluster
    quorum = len(cluster.members) // 2 + 1
    cast.lost = source.sample(cluster.members, quorum)
    former = Actor(cast.stage, cast.former, cast.former.random, "f")
    for _ in range(source.randint(1, 2)):
        await attempt(former.append(source.randint(1, 3)))
        servers = source.sample(cluster.nodes, source.choice((1, 3)))
        if source.random() < 0.5:  # it outlives what is to come
            servers = [*cast.left[:2], *cast.lost][:3] if len(cast.left) > 1 else [*cast.left]
        await _extend(cast.operator, servers, source.choice(servers))
    await attempt(former.append(source.randint(1, 3)))
    await _export(cast)
    if source.random() < 0.6:
        member = source.choice([node for node in cast.left if node in cluster.members])
        if source.random() < 0.7:
            cast.unaware = member
            _cut(cast.world, member, [*cluster.nodes, _FORMER, _OPERATOR])
        await _change_last(cast)
        await _export(cast)
    else:
        await attempt(former.append(source.randint(1, 3)))


async def _export(cast: RecoveryRoles) -> None:
    with trio.move_on_after(5.0):
        while True:
            try:
                _, value = await cast.operator.client.log.view.metastore.get()
            except VirtualLogError:
                await trio.sleep(0.2)
                continue
            cast.exports.append(decode_untrusted(dump(value).encode()))
            return


async def _change_last(cast: RecoveryRoles) -> None:
    """A change that may be lost. Nothing is appended to what it may have begun: that would be lost with it."""
    if cast.source.random() < 0.5:
        servers = cast.source.sample(cast.lost, 1)
        await _extend(cast.operator, servers, servers[0])
        return
    with trio.move_on_after(8.0):
        await attempt(
            update_node_table(cast.operator.client.log.view.metastore, _Turn(cast.lost[0]), cast.operator.client.random)
        )


async def _lose_majority(cast: RecoveryRoles) -> Mapping[NodeId, Disks]:
    """Returns the disks that are believed lost. The remaining nodes are asked for changes
    meanwhile, without success, and are stopped."""
    olds = dict[NodeId, Disks]()
    for node in cast.lost:
        cast.cluster.machines[node].crash()
        olds[node] = cast.cluster.machines[node].swap()
        cast.world.fault("lost for good", str(node))
    cast.world.network.heal()
    if cast.source.random() < 0.5:
        with trio.move_on_after(3.0):
            await attempt(
                update_node_table(
                    cast.operator.client.log.view.metastore, _Turn(cast.left[0]), cast.operator.client.random
                )
            )
    for node in cast.left:
        cast.cluster.machines[node].crash(power=cast.source.random() < 0.5)
    return olds


async def _go_on(cast: RecoveryRoles, olds: Mapping[NodeId, Disks], chosen: Dump, members: Sequence[NodeId]) -> str:
    """Let the new cluster serve all that it can, whatever a former member and a former client do.
    Returns the member's name in the history."""
    source, cluster, world = cast.source, cast.cluster, cast.world
    returning, is_first = source.choice(cast.lost), source.random() < 0.5
    if is_first:
        _bring_back(cast, returning, olds[returning])
    for node in cast.left:
        cluster.machines[node].start()
    if not is_first:
        _bring_back(cast, returning, olds[returning])
    life = cluster.machines[returning].process
    assert life is not None
    former = Actor(cast.stage, cast.former, cast.former.random, "g")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_act_as_former, former, returning)
        await _serve(cast, chosen, members)
    world.network.heal()
    await _act_as_former(former, returning)
    cluster.machines[returning].crash(power=False)
    await import_late(cast, chosen, members)
    async with cluster.client("reader", node=_READER, members=members) as client:
        reader = Actor(cast.stage, client, client.random, "r")
        with trio.move_on_after(8.0):
            await attempt(reader.append())
            await attempt(reader.check_tail())
    return f"node {returning}.{life.boot}"


def _bring_back(cast: RecoveryRoles, node: NodeId, old: Disks) -> None:
    """A directory that was believed lost is there again, and reaches some of the others."""
    machine, source = cast.cluster.machines[node], cast.source
    machine.swap(old)
    machine.start()
    others = [*cast.left, _FORMER, _LATER]
    _cut(cast.world, node, source.sample(others, source.randint(0, len(others) - 1)))


async def _act_as_former(former: Actor, returning: NodeId) -> None:
    """A client that was not started again."""
    with trio.move_on_after(10.0):
        await attempt(former.append())
        await _extend(former, [returning], returning, times=1)
        await attempt(former.append())


async def _serve(cast: RecoveryRoles, chosen: Dump, members: Sequence[NodeId]) -> None:
    source, world, began = cast.source, cast.world, cast.world.now()
    servers = source.sample(cast.left, source.choice((1, 3)) if len(cast.left) > 2 else 1)
    done = False
    seats = members if source.random() < 0.7 else cast.left
    with trio.move_on_after(REVIVED_SECONDS):
        async with cast.cluster.client("later", node=_LATER, members=seats) as client:
            later = Actor(cast.stage, client, client.random, "l")
            await _extend(later, servers, servers[0])
            while not await attempt(later.append(2)):
                await trio.sleep(0.2)
            for (
                segment
            ) in chosen.register.chain.segments:  # what was acknowledged there is read, wherever enough copies are left
                holders = decode_native(segment.config).servers
                if 2 * len([holder for holder in holders if holder in cast.left]) > len(holders):
                    await _read(later, segment.start, cast.stage.tail if segment.stop is None else segment.stop)
            done = True
    world.demanded("revived", world.now() - began)
    if not done:
        cast.fail("progress", f"the log does not go on, or cannot be read, {REVIVED_SECONDS:g} s after an import")


async def _read(actor: Actor, start: int, stop: int) -> None:
    """Read until all of it has been read."""
    at = start
    while at < stop:
        try:
            at = await actor.read(at, stop, 1 << 20)
        except VirtualLogError:
            await trio.sleep(0.2)


async def _extend(actor: Actor, servers: Sequence[NodeId], sequencer: NodeId, times: int = 20) -> None:
    """Continue the log on these servers, if that is decided within a while."""
    settings = {"servers": ",".join(map(str, sorted(servers))), "sequencer": str(sequencer)}
    change = partial(actor.client.log.reconfig_extend, "native", settings)
    with trio.move_on_after(8.0):
        for _ in range(times):
            if await attempt(actor.change(ExtendChange("native", f"sequencer={sequencer}"), change())):
                return
            await trio.sleep(0.2)


@attrs.frozen
class _Turn:
    """A change of the table of nodes and of nothing else: a node is used for nothing any more."""

    node: NodeId

    def amend(self, register: Register) -> Register | None:
        entry = attrs.evolve(register.nodes[self.node], roles=frozenset())
        return register.with_nodes({**register.nodes, self.node: entry})


def _cut(world: World, one: NodeId, others: Sequence[NodeId]) -> None:
    for other in others:
        if other != one:
            world.network.link(one, other).blocked = world.network.link(other, one).blocked = True


REVIVED: Final = Scenario(
    name="revived",
    about="a majority of the MetaStore is lost for good, and what is left goes on from an exported register",
    story=_story,
    limit_seconds=400.0,
)
