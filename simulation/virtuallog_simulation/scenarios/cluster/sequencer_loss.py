"""A cluster loses its sequencer without an operator: appends go on by themselves, soon, and nothing
is lost.

`bereft`   the node of the sequencer dies, stands still or is cut off, again and again, with or without a spare node
`nervous`  no node fails, but every now and then a node is slow to answer: nothing is reconfigured

Delos, OSDI'20, sections 3.3 and 4.2.1; docs/internals/protocols/virtual_log.md, "Healing". The number of
copies never falls, and once all nodes are back the chain stays as it is.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

import attrs
import trio

from virtuallog.contract.placement import Placement, majority_of
from virtuallog.contract.provider import replicated
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.violation import Violation
from virtuallog_loglets.native import NativeProvider
from virtuallog_loglets.striped.provider import StripedProvider
from virtuallog_simulation.checks.history.chain import CHAIN_CHECKS
from virtuallog_simulation.checks.history.facts import newest_chain
from virtuallog_simulation.checks.history.log import LOG_CHECKS
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.scenarios.loglet.native import provider
from virtuallog_simulation.workload.actor import Actor, WorkloadContext, attempt
from virtuallog_simulation.workload.plan import WorkloadPlan
from virtuallog_simulation.world.cluster import SERVER_PATIENCE_SECONDS, Cluster, ClusterPlan
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

RESUME_SECONDS: Final = 5.0
"""Seconds until an append that is offered after a failure is acknowledged: a suspicion takes less
than two seconds, a reconfiguration some milliseconds, a client looks every half second. A node
that kept coming back takes several times as long."""
SPARE_SECONDS: Final = 15.0
"""A suspicion, the patience with log servers, and time for one attempt that fails."""
AWAY_SECONDS: Final = (0.0, 3.0, 12.0)
"""After the append, until the harm ends."""
SETTLE_SECONDS: Final = 6.0
"""Seconds after all nodes are back in which begun changes end."""
STEADY_SECONDS: Final = 12.0
"""After that nothing changes any more."""
HICCUP_SECONDS: Final = 0.5
"""Longer than a node has to answer a probe, shorter than two probes take."""
HICCUPS: Final = 5
COPIES: Final = 3
"""Default copies of each loglet."""
_WITNESS: Final = NodeId(2001)


async def _bereft(world: World) -> None:
    source = world.random("plan")
    nodes = source.choice((3, 3, 4, 5))
    cluster = Cluster(world, ClusterPlan(nodes=nodes, members=nodes - (nodes % 2 == 0), kinds=(provider,)))
    witness = await _begin(world, cluster)
    async with trio.open_nursery() as nursery, cluster.client("witness", node=_WITNESS) as client:
        actor = Actor(WorkloadContext(cluster, WorkloadPlan.draw(source), nursery), client, witness, "w")
        await actor.append()
        for _ in range(source.choice((1, 2, 3))):
            if not await _bereave(actor, source):
                break
        await _settle(actor)
        nursery.cancel_scope.cancel()
    world.check(*LOG_CHECKS, *LOGLET_CHECKS, *CHAIN_CHECKS, copies_are_kept)


async def _begin(world: World, cluster: Cluster) -> random.Random:
    cluster.start()
    await cluster.wait_ready()
    await trio.sleep(2.0)
    return world.random("witness")


async def _bereave(actor: Actor, source: random.Random) -> bool:
    """One failure, from an append before it to its end; whether appends went on."""
    world = actor.stage.cluster.world
    victim = min((await _placement(actor)).orders)
    harm = source.choice(NODE_FAILURES)
    what = f"{harm.__name__} of node {victim}"
    world.history.fault(what)
    heal = harm(NodeFailure(actor.stage.cluster), victim)
    began = world.now()
    with trio.move_on_after(RESUME_SECONDS) as limit:
        while not await attempt(actor.append()):
            await trio.sleep(0.1)
    world.demanded("append after a failure", world.now() - began)
    if limit.cancelled_caught:
        _object(world, "progress", f"no append within {RESUME_SECONDS:g} s after the {what}")
        return False
    await _look_at_spares(actor, victim)
    await _end(actor, heal, source)
    return True


async def _look_at_spares(actor: Actor, victim: NodeId) -> None:
    """Check that a spare node soon takes the place of the dead one: a client that reaches the dead
    one may have planned the successor. Without a spare node the dead one keeps its place."""
    world, servers = actor.stage.cluster.world, (await _placement(actor)).servers
    if _works(actor.stage.cluster, victim, servers):
        return  # clients reach its part of the cluster, and the others cannot seal what they have no majority of
    spare, began = len(actor.stage.cluster.nodes) > len(servers), world.now()
    while spare and victim in servers and world.now() - began < SPARE_SECONDS:
        await trio.sleep(0.5)
        servers = (await _placement(actor)).servers
    if (victim in servers) == spare:
        _object(world, "healing", f"node {victim} is gone, the log servers are {servers}")


def _works(cluster: Cluster, victim: NodeId, servers: tuple[NodeId, ...]) -> bool:
    """True if the victim is cut off together with a majority of the log servers, itself among them."""
    if not cluster.machines[victim].running:
        return False
    together = [other for other in servers if other != victim and not cluster.world.network.link(victim, other).blocked]
    return victim in servers and len(together) < len(servers) - 1 and 1 + len(together) >= majority_of(len(servers))


async def _end(actor: Actor, heal: Heal, source: random.Random) -> None:
    await trio.sleep(source.choice(AWAY_SECONDS))
    heal()
    await trio.sleep(source.choice((0.5, 3.0)))
    await attempt(actor.append())


async def _settle(actor: Actor) -> None:
    """With all nodes back, demand a full read, and then quiet."""
    world, log = actor.stage.cluster.world, actor.client.log
    await trio.sleep(SETTLE_SECONDS + SERVER_PATIENCE_SECONDS)
    tail, at = await actor.check_tail(), 0
    while at < tail:
        at = await actor.read(at, tail, 1 << 20)
    before = (await log.view.refresh()).version
    await trio.sleep(STEADY_SECONDS)
    after = (await log.view.refresh()).version
    if after != before:
        _object(world, "healing", f"no node fails, and the chain went from version {before} to {after}")


async def _nervous(world: World) -> None:
    source = world.random("plan")
    nodes = source.choice((3, 5))
    cluster = Cluster(world, ClusterPlan(nodes=nodes, members=nodes, kinds=(provider,)))
    witness = await _begin(world, cluster)
    async with trio.open_nursery() as nursery, cluster.client("witness", node=_WITNESS) as client:
        actor = Actor(WorkloadContext(cluster, WorkloadPlan.draw(source), nursery), client, witness, "w")
        await actor.append()
        before = (await client.log.view.refresh()).version
        for _ in range(HICCUPS):
            heal = NodeFailure(cluster).pause(source.choice(cluster.nodes))
            await trio.sleep(HICCUP_SECONDS)
            heal()
            await trio.sleep(1.0 + source.random())
            await actor.append()
        after = (await client.log.view.refresh()).version
        if after != before:
            _object(world, "healing", f"no node was gone for long, and the chain went from version {before} to {after}")
        nursery.cancel_scope.cancel()
    world.check(*LOG_CHECKS, *LOGLET_CHECKS, *CHAIN_CHECKS)


async def _placement(actor: Actor) -> Placement:
    """Placement of the open segment."""
    view = actor.client.log.view
    last = (await view.refresh()).chain.last
    kind = replicated(view.provider(last.kind))
    assert kind is not None
    return kind.placement(last.config)


def copies_are_kept(history: History) -> Iterator[Violation]:
    """No segment of the newest chain has fewer servers than the first loglet had."""
    native, striped = provider(), StripedProvider()
    kinds: dict[str, NativeProvider | StripedProvider] = {native.kind: native, striped.kind: striped}
    striped.over(kinds)
    chain = newest_chain(history)
    for segment in chain.segments if chain is not None else ():
        servers = kinds[segment.kind].placement(segment.config).servers
        if len(servers) < COPIES:
            yield Violation("healing", f"segment {segment.id} is on nodes {servers} only", (len(history.events) - 1,))


def _object(world: World, check: str, message: str) -> None:
    world.violations.append(Violation(check, message, (len(world.history.events) - 1,)))


Heal: TypeAlias = Callable[[], None]


@attrs.frozen(eq=False)
class NodeFailure:
    """Failures of one node; each method causes one and returns the function that ends it."""

    cluster: Cluster

    def kill(self, node: NodeId) -> Heal:
        """The process dies."""
        return self._down(node, power=False)

    def crash(self, node: NodeId) -> Heal:
        """The machine loses its power."""
        return self._down(node, power=True)

    def pause(self, node: NodeId) -> Heal:
        """Pause the process: connections stay open, nothing is answered. It wakes up in the belief
        that nothing has happened."""
        machine = self.cluster.machines[node]
        machine.pause()
        return machine.resume

    def isolate(self, node: NodeId) -> Heal:
        """No other node reaches it; clients do."""
        return self._cut([node], [other for other in self.cluster.nodes if other != node])

    def halve(self, node: NodeId) -> Heal:
        """Leave the node with as many others as make no majority."""
        others = [other for other in self.cluster.nodes if other != node]
        few = (len(self.cluster.nodes) - 1) // 2
        return self._cut([node, *others[: few - 1]], others[few - 1 :])

    def _down(self, node: NodeId, *, power: bool) -> Heal:
        machine = self.cluster.machines[node]
        machine.crash(power=power)
        return machine.start

    def _cut(self, some: Iterable[NodeId], others: Iterable[NodeId]) -> Heal:
        network = self.cluster.world.network
        for one in some:
            for other in others:
                network.link(one, other).blocked = network.link(other, one).blocked = True
        return network.heal


NODE_FAILURES: Final = (NodeFailure.kill, NodeFailure.crash, NodeFailure.pause, NodeFailure.isolate, NodeFailure.halve)
"""All of them take a sequencer away from the majority of the others."""
BEREFT: Final = Scenario(
    name="bereft",
    about="the sequencer's node dies, stands still or is cut off; appends go on by themselves",
    story=_bereft,
    limit_seconds=300.0,
)
NERVOUS: Final = Scenario(
    name="nervous",
    about="nodes are slow to answer now and then; nothing is reconfigured because of it",
    story=_nervous,
    limit_seconds=120.0,
)
