"""Two servers of one segment are replaced, without --force, while the third one may lack what they acknowledged.

A server is cut off while entries are acknowledged by the two others, so its copy has a hole, or it lags, or it is a paxos replica
that recovers. Which of the three has the hole, and which are replaced, is drawn; so is what happens:

    in a row    one disk is lost and replaced, its copies are not made yet, perhaps it has not even started; another one stops
    at once     each of two operators reaches all but one server, another one each, and gives up the one that is silent to it
    unseen      one disk is lost and the operator does not know yet; another one stops for a moment, and is asked about first
    recovering  a paxos replica has lost its store and recovers; another one stops

Answers are believed: a directory that was given up is gone, whatever was on it; one that was
refused starts again. Then all servers come back, the replaced one is completed, and the second
server is replaced after all, which must not be refused any more. All that was acknowledged is read,
with one server of each group down.

docs/howto/operate.md, "Add, replace, drain"; server/virtuallog_server/membership/replace.py.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.admin.membership import Progress, ReplaceNode
from virtuallog.contract.errors import RetryableError, UnavailableError, VirtualLogError
from virtuallog.contract.provider import ReportsPartialCopies
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.actions import ExtendChange
from virtuallog_loglets.paxos.drivers.store_incarnation import STORE
from virtuallog_loglets.paxos.provider import PaxosProvider
from virtuallog_loglets.striped.provider import StripedProvider
from virtuallog_server.healing.policy_registry import DEFAULT, OFF
from virtuallog_server.membership.cluster_state import placement_of
from virtuallog_simulation.checks.cluster.placements import sets_are_amended
from virtuallog_simulation.checks.history.chain import CHAIN_CHECKS
from virtuallog_simulation.checks.history.log import LOG_CHECKS
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.scenarios.cluster.disk_loss import cut
from virtuallog_simulation.scenarios.loglet.native import provider
from virtuallog_simulation.scenarios.operators.final_checks import get, read_all
from virtuallog_simulation.scenarios.operators.operator import OperatorsContext, check_replaced
from virtuallog_simulation.scenarios.raft.replica_group import raft
from virtuallog_simulation.workload.actor import Actor, WorkloadContext, attempt
from virtuallog_simulation.workload.plan import WorkloadPlan
from virtuallog_simulation.world.cluster import Client, Cluster, ClusterPlan, ProviderMaker
from virtuallog_simulation.world.machine import Machine
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.stop_reasons import REPLACEMENT_ASKED
from virtuallog_simulation.world.transport import CALLS
from virtuallog_simulation.world.world import World

HOLE_SECONDS: Final = 2.5
"""Seconds until a server that was cut off is left behind by its sequencer."""
ASK_SECONDS: Final = 3.0
ANSWER_SECONDS: Final = 15.0
FINISH_SECONDS: Final = 40.0
SETTLE_SECONDS: Final = 1.0
_OPERATOR, _OTHER, _READER = NodeId(2001), NodeId(2002), NodeId(2021)
_KINDS: Final = ("native", "native", "striped", "paxos")
RAFT: Final = "raft"
_MAKERS: Final[Mapping[str, tuple[ProviderMaker, ...]]] = {
    "native": (provider,),
    "striped": (provider, StripedProvider),
    "paxos": (provider, PaxosProvider),
    RAFT: (provider, raft),
}


@attrs.frozen(eq=False)
class ReplacementRoles:
    """Parts of the three servers of one group."""

    scene: OperatorsContext
    actor: Actor
    kind: str
    groups: Sequence[Sequence[NodeId]]
    first: NodeId
    second: NodeId
    lagging: NodeId
    """One of the three, drawn: often neither of those two."""
    stores: Mapping[NodeId, bytes]
    """The directories that are there at first."""
    to_complete: list[NodeId] = attrs.field(factory=list)
    """Their directories are lost or given up."""

    @property
    def client(self) -> Client:
        return self.actor.client

    @property
    def source(self) -> random.Random:
        return self.scene.source

    @property
    def vias(self) -> list[NodeId]:
        """Nodes to ask, which nothing happens to."""
        return [node for node in self.scene.cluster.nodes if node not in {self.first, self.second}]

    def machine(self, node: NodeId) -> Machine:
        return self.scene.cluster.machines[node]


async def _story(world: World, of: str = "") -> None:
    world.options = attrs.evolve(world.options, transport=CALLS)
    source = world.random("plan")
    kind = of or source.choice(_KINDS)
    nodes = 7 if kind == "striped" else 5
    kinds = _MAKERS[kind]
    plan = ClusterPlan(nodes=nodes, members=nodes, kinds=kinds)
    cluster = Cluster(world, plan, healing=source.choice((DEFAULT, OFF, OFF)))
    cluster.start()
    await cluster.wait_serving()
    async with trio.open_nursery() as nursery, cluster.client("operator", node=_OPERATOR) as client:
        scene = OperatorsContext(WorkloadContext(cluster, WorkloadPlan.draw(source), nursery), source, crashes=True)
        cast = await _fill(scene, Actor(scene.stage, client, world.random("operator"), "o"), kind)
        ways = [_in_a_row, _in_a_row, _at_once, _at_once, _unseen, *([_recovering] * 3 if kind == "paxos" else [])]
        await source.choice(ways)(cast)
        if await _finish(cast):
            await _read_without_one(cast)
        nursery.cancel_scope.cancel()
    world.check(
        *LOG_CHECKS, *LOGLET_CHECKS, *CHAIN_CHECKS, partial(sets_are_amended, placement=placement_of(client.log))
    )


# -- what is there before -------------------------------------------------------------------------------------------


async def _fill(scene: OperatorsContext, actor: Actor, kind: str) -> ReplacementRoles:
    """A segment with entries that one server lacks, closed in most runs."""
    source, cluster = scene.source, scene.cluster
    shuffled = source.sample(cluster.nodes, len(cluster.nodes))
    groups = [sorted(shuffled[:3]), sorted(shuffled[3:6])] if kind == "striped" else [sorted(shuffled[:3])]
    lagging, orders, _ = source.sample(groups[0], 3)
    await _extend(actor, kind, groups, [orders, *(group[0] for group in groups[1:])])
    await attempt(actor.append())
    cut(scene.world, lagging, [orders] if source.random() < 0.7 else [node for node in groups[0] if node != lagging])
    for _ in range(source.randint(2, 3)):
        await attempt(actor.append(source.randint(1, 3)))
    await trio.sleep(HOLE_SECONDS)
    closes = source.random() < 0.8
    if closes and source.random() < 0.3:  # the last entries never get there
        await _extend(actor, "native", [sorted(shuffled[-3:])], [shuffled[-1]])
    scene.world.network.heal()
    for _ in range(3):
        await attempt(actor.append())
        await trio.sleep(0.2)
    if closes and actor.chain.last.kind == kind and len(actor.chain.segments) < 3:
        await _extend(actor, "native", [sorted(shuffled[-3:])], [shuffled[-1]])
    scene.did("make a copy with a hole")
    register = await actor.client.log.view.refresh()
    first, second = source.sample([node for node in groups[0] if node != lagging or source.random() < 0.3], 2)
    stores = {node: entry.store_id for node, entry in register.nodes.items()}
    return ReplacementRoles(scene, actor, kind, groups, first, second, lagging, stores)


async def _extend(actor: Actor, kind: str, groups: Sequence[Sequence[NodeId]], orders: Sequence[NodeId]) -> None:
    spelled = [",".join(map(str, group)) for group in groups]
    settings = {
        "native": {"servers": spelled[0], "sequencer": str(orders[0])},
        "striped": {"groups": ";".join(spelled), "sequencers": ",".join(map(str, orders))},
        "paxos": {"servers": spelled[0], "coordinator": str(orders[0])},
        RAFT: {"servers": spelled[0], "leader": str(orders[0])},
    }[kind]
    asked = ExtendChange(kind, " ".join(f"{name}={value}" for name, value in settings.items()))
    await attempt(actor.change(asked, actor.client.log.reconfig_extend(kind, settings)))


# -- two replacements -----------------------------------------------------------------------------------------------


async def _in_a_row(cast: ReplacementRoles) -> None:
    first, second = cast.machine(cast.first), cast.machine(cast.second)
    first.crash()
    if await _replace(cast, cast.client, cast.first, cast.source.choice(cast.vias), lost=True):
        await trio.sleep(cast.source.choice((0.0, 0.3, 1.5)))
    second.crash()
    await trio.sleep(cast.source.choice((0.0, 1.0)))
    await _replace(cast, cast.client, cast.second, cast.source.choice(cast.vias))


async def _at_once(cast: ReplacementRoles) -> None:
    """Both directories are whole, and both nodes serve."""
    one, other = cast.source.sample([node for node in cast.vias if node != cast.lagging], 2)
    cut(cast.scene.world, one, [cast.first])
    cut(cast.scene.world, other, [cast.second])
    async with (
        cast.scene.cluster.client("operator", node=_OTHER, members=cast.vias) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(_replace, cast, cast.client, cast.first, one)
        await trio.sleep(cast.source.choice((0.0, 0.0, 0.002, 0.01, 1.0)))
        nursery.start_soon(_replace, cast, client, cast.second, other)


async def _unseen(cast: ReplacementRoles) -> None:
    first, second = cast.machine(cast.first), cast.machine(cast.second)
    second.crash()
    first.crash()
    await _replace(cast, cast.client, cast.first, cast.source.choice(cast.vias))
    await trio.sleep(SETTLE_SECONDS)
    await _replace(cast, cast.client, cast.second, cast.source.choice(cast.vias), lost=True)


async def _recovering(cast: ReplacementRoles) -> None:
    """Cut the replica off from all that could help it, but the node that is asked."""
    first, second, via = cast.machine(cast.first), cast.machine(cast.second), cast.source.choice(cast.vias[-2:])
    first.crash()
    first.lose(STORE)
    cut(cast.scene.world, cast.first, [node for node in cast.groups[0] if node not in {cast.first, via}])
    first.start()
    await trio.sleep(SETTLE_SECONDS)
    second.crash()
    await _replace(cast, cast.client, cast.second, via)
    cast.scene.world.network.heal()


async def _replace(cast: ReplacementRoles, client: Client, node: NodeId, via: NodeId, lost: bool = False) -> bool:
    """Ask for a replacement and believe the answer: a directory that is given up is gone. One that
    is not starts again, unless its disk is lost."""
    scene, machine = cast.scene, cast.machine(node)
    if lost:
        machine.wipe()
        cast.to_complete.append(node)
    machine.counts[REPLACEMENT_ASKED] += 1
    answer = await _ask(client, via, ReplaceNode(node=node, store_id=cast.stores[node]))
    if not isinstance(answer, Progress) or not answer.waits:
        scene.did("refuse a replacement")
        if not (machine.running or lost):
            machine.start()
        return False
    scene.did("replace a node")
    if not lost:
        cast.to_complete.append(node)
    if machine.running:
        machine.crash()
    machine.wipe()
    if cast.source.random() < 0.6:
        machine.start()
    return True


async def _ask(client: Client, via: NodeId, request: ReplaceNode) -> Progress | VirtualLogError | None:
    """The answer, or the refusal; None: there is neither in time."""
    with trio.move_on_after(ANSWER_SECONDS):
        while True:
            try:
                progress = await client.log.view.environment.services.call(via, request, ASK_SECONDS)
            except RetryableError:
                await trio.sleep(0.3)
                continue
            except VirtualLogError as error:
                return error
            if progress.done or progress.waits:
                return progress
            await trio.sleep(0.3)
    return None


# -- the end --------------------------------------------------------------------------------------------------------


async def _finish(cast: ReplacementRoles) -> bool:
    """Bring everything back and complete the replacement. Then nothing prevents replacing one more."""
    scene = cast.scene
    scene.world.network.heal()
    for machine in scene.cluster.machines.values():
        if not machine.running:
            machine.start()
    await trio.sleep(SETTLE_SECONDS)
    if not await get(scene, "look at the directories", partial(_settle, cast)):
        return False
    if not await get(scene, "recover what lost its store", partial(_recover, cast)):
        return False
    for node in cast.to_complete:
        if not await _complete(cast, node):
            return False
    if cast.to_complete and cast.second not in cast.to_complete and cast.source.random() < 0.7:
        cast.machine(cast.second).crash()
        work: Callable[[], Awaitable[object]] = partial(_replace_at_last, cast)
        if not await get(scene, f"replace node {cast.second}, as others have everything", work):
            return False
        return await _complete(cast, cast.second)
    return True


async def _settle(cast: ReplacementRoles) -> None:
    """Learn what came of requests that were not answered in time."""
    register = await cast.client.log.view.refresh()
    for node in sorted({cast.first, cast.second}.difference(cast.to_complete)):
        if register.nodes[node].store_id != cast.stores[node]:
            cast.to_complete.append(node)
            cast.machine(node).crash()
            cast.machine(node).wipe()
            cast.machine(node).start()


async def _recover(cast: ReplacementRoles) -> None:
    """A replica that lost its store counts as a lost copy until it has recovered. Those that are given up are copied later."""
    view = cast.client.log.view
    for segment in (await view.refresh()).chain.segments:
        provider: object = view.providers.get(segment.kind)
        if isinstance(provider, ReportsPartialCopies):
            partial_copies = await provider.partial_copies(segment.id, segment.config, view.environment)
            if recovering := set(partial_copies).difference(cast.to_complete):
                raise UnavailableError(f"{recovering} recover")


async def _replace_at_last(cast: ReplacementRoles) -> None:
    machine, request = cast.machine(cast.second), ReplaceNode(node=cast.second, store_id=cast.stores[cast.second])
    services = cast.client.log.view.environment.services
    progress = await services.call(cast.source.choice(cast.vias), request, ASK_SECONDS)
    if not progress.waits:
        raise RetryableError("it is not given up yet")
    machine.wipe()
    machine.start()


async def _complete(cast: ReplacementRoles, node: NodeId) -> bool:
    request = ReplaceNode(node=node, store_id=cast.stores[node])
    via = cast.source.choice([other for other in cast.vias if other != node])
    with trio.move_on_after(FINISH_SECONDS):
        while True:
            answer = await _ask(cast.client, via, request)
            if isinstance(answer, Progress) and answer.done:
                await check_replaced(cast.scene, cast.client, node, placement_of(cast.client.log))
                return True
            await trio.sleep(0.3)
    cast.scene.object("progress", f"all nodes live, and node {node} lacks copies after {FINISH_SECONDS:g} s")
    return False


async def _read_without_one(cast: ReplacementRoles) -> None:
    """Read with one server of each group down. The log goes on."""
    scene = cast.scene
    down = [scene.source.choice(group) for group in cast.groups]
    for node in down:
        cast.machine(node).crash()
    async with scene.cluster.client("reader", node=_READER, members=scene.running) as client:
        reader = Actor(scene.stage, client, client.random, "r")
        if await get(scene, "read all that was acknowledged", partial(read_all, scene, reader)):
            await get(scene, "append", partial(_extend_and_append, reader))


async def _extend_and_append(actor: Actor) -> None:
    """Extend and append: the sequencer may be down, and healing is off."""
    await actor.change(ExtendChange("native", ""), actor.client.log.reconfig_extend("native"))
    await actor.append()


SHAPES: Final = (
    "complete a replacement",
    "make a copy with a hole",
    "refuse a replacement",
    "replace a node",
)
"""Shapes that its runs must have brought about."""

REPLACED: Final = Scenario(
    name="replaced",
    about="servers of one segment are replaced in a row or at once, while another one has a hole or recovers",
    story=_story,
    limit_seconds=300.0,
)
RAFT_REPLACED: Final = Scenario(
    name="raft-replaced",
    about="the same with raft loglets: replicas are replaced while another one lags",
    story=partial(_story, of=RAFT),
    limit_seconds=300.0,
)
