"""Several operators at once: drains, replacements, additions, removals and changes of the members, from different nodes.

Each operator draws what it does and which node it asks; one may not know of the others. A writer appends all the while. Copies
have holes: a log server was cut off from its sequencer, and caught up without what others had committed meanwhile. What an
operator is told is believed:

    "may be stopped"     the node goes for good, with its disks, at once or in the end together with all others
    a replacement        that was accepted without --force: the directory is gone, whole or not
    members changed      all former ones go at once, for a while

Then nobody fails any more, and the rest must do everything: finish, drain one node more, decide, append, read all that was
acknowledged, also while one node after the other is down. Live servers have caught up with each other some seconds later.

docs/howto/operate.md, "Add, replace, drain"; server/virtuallog_server/membership.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import attrs
import trio

from virtuallog.admin.membership import AddNode, DrainNode, Progress, RemoveNode, ReplaceNode
from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import InvalidSettingError, RetryableError, VirtualLogError
from virtuallog.contract.placement import Placement
from virtuallog.contract.ports import Request
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.actions import ExtendChange, MembersChange
from virtuallog.testing.checker.violation import Violation
from virtuallog_server.healing.policy_registry import DEFAULT, OFF
from virtuallog_simulation.checks.cluster.lag import live_servers_catch_up
from virtuallog_simulation.checks.cluster.node_state import log_servers
from virtuallog_simulation.checks.cluster.placements import Placements, sets_are_amended
from virtuallog_simulation.checks.cluster.rebuilt_copies import made_copies_are_whole
from virtuallog_simulation.checks.history.chain import CHAIN_CHECKS
from virtuallog_simulation.checks.history.facts import chains
from virtuallog_simulation.checks.history.log import LOG_CHECKS
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.scenarios.cluster.disk_loss import cut
from virtuallog_simulation.scenarios.cluster.load import native as provider
from virtuallog_simulation.workload.actor import Actor, WorkloadContext, attempt
from virtuallog_simulation.workload.plan import WorkloadPlan
from virtuallog_simulation.workload.required_shapes import count
from virtuallog_simulation.world.cluster import Client, Cluster, ClusterPlan
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.transport import CALLS, address_of
from virtuallog_simulation.world.world import World

MEMBERS: Final = 3
COPIES: Final = 3
ASK_SECONDS: Final = 3.0
ACT_SECONDS: Final = 8.0
"""An operator gives up, and does not know what came of it."""
OPERATE_SECONDS: Final = 25.0
FINISH_SECONDS: Final = 40.0
"""For what is left, when everybody is back: suspicions, restarts, and some steps of a second at most."""
READ_SECONDS: Final = 20.0
SETTLE_SECONDS: Final = 2.0
HOLE_SECONDS: Final = 2.5
CATCH_UP_SECONDS: Final = 3.0
_ROLES: Final = ("log-server", "replica", "sequencer")
_FIRST_OPERATOR, _WRITER, _BUILDER, _JUDGE, _SETTLER, _READER = (
    2001,
    NodeId(2011),
    NodeId(2012),
    NodeId(2013),
    NodeId(2014),
    2021,
)


@attrs.define(eq=False)
class OperatorsContext:
    """What the operators of a run share: they agree who works on which node, and on nothing else."""

    stage: WorkloadContext
    source: random.Random
    crashes: bool
    """Whether nodes fail; else only operators act."""
    busy: set[NodeId] = attrs.field(factory=set)
    stoppable: set[NodeId] = attrs.field(factory=set)
    """Drained, and said to be free. They run still."""
    stopped: set[NodeId] = attrs.field(factory=set)
    """The same, and gone for good."""
    fragile: set[NodeId] = attrs.field(factory=set)
    """Their directories are given up or lost, and their copies are not made again."""
    asked: dict[NodeId, bytes] = attrs.field(factory=dict)
    """By node that is replaced, the directory to give up."""
    unsettled: dict[NodeId, bytes] = attrs.field(factory=dict)
    """Nodes that are down, whose directories may be given up or not."""
    replacing: int = 0
    """Replacements being asked for."""
    extensions: int = 0
    """Extensions that operators can have caused."""
    draining: int = 0

    @property
    def cluster(self) -> Cluster:
        return self.stage.cluster

    @property
    def world(self) -> World:
        return self.cluster.world

    @property
    def running(self) -> list[NodeId]:
        return sorted(node for node, machine in self.cluster.machines.items() if machine.running)

    def did(self, what: str) -> None:
        count(self.world.counts, what)

    def stop(self, node: NodeId) -> None:
        """It was said to be free: it goes with its disks."""
        machine = self.cluster.machines[node]
        if machine.running:
            machine.crash()
        machine.wipe()
        self.stoppable.discard(node)
        self.stopped.add(node)
        self.did("stop a drained node")

    def object(self, check: str, message: str) -> None:
        self.world.violations.append(Violation(check, message, (len(self.world.history.events) - 1,)))


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
        if await _finish(scene):
            writing.cancel()
            await _do_without(scene)
        nursery.cancel_scope.cancel()
    world.check(*LOG_CHECKS, *LOGLET_CHECKS, *CHAIN_CHECKS, partial(sets_are_amended, placement=_placement))


def _placement(segment: Segment) -> Placement | None:
    return provider().placement(segment.config) if segment.kind == "native" else None


# -- what is there before -------------------------------------------------------------------------------------------


async def _build(scene: OperatorsContext, actor: Actor) -> None:
    """Closed segments on different nodes, some copies with holes."""
    source = scene.source
    for _ in range(source.randint(1, 3)):
        servers = sorted(source.sample(scene.cluster.nodes, COPIES))
        orders = source.choice(servers)
        await _extend(scene, actor, {"servers": ",".join(map(str, servers)), "sequencer": str(orders)})
        await attempt(actor.append(source.randint(1, 3)))
        if source.random() < 0.6:
            victim = await _make_hole(scene, actor, servers, orders)
            if source.random() < 0.4:
                await _bring_back(scene, actor, victim, servers)
    if source.random() < 0.8:
        await _extend(scene, actor, {})
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
    back = AddNode(node=node, addresses=(address_of(node),), roles=_ROLES)
    requests: Sequence[Request[Any]] = (DrainNode(node=node), back, DrainNode(node=other))
    with trio.move_on_after(ACT_SECONDS):
        for request in requests:
            scene.extensions += 3
            if isinstance(await operator.ask(request, other), VirtualLogError):
                return
        scene.stoppable.add(other)
        scene.did("bring an old copy with a hole back")


def _has_hole(scene: OperatorsContext, node: NodeId, segment: Segment) -> bool:
    """Whether the node knows of entries behind some that it lacks."""
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


async def _extend(scene: OperatorsContext, actor: Actor, settings: dict[str, str]) -> bool:
    scene.extensions += 1
    asked = ExtendChange("native", ",".join(f"{name}={value}" for name, value in settings.items()))
    return await attempt(actor.change(asked, actor.client.log.reconfig_extend("native", settings)))


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


# -- operators ------------------------------------------------------------------------------------------------------


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


@attrs.define(eq=False)
class Operator:
    """One of them."""

    scene: OperatorsContext
    client: Client
    source: random.Random
    number: int
    refused: bool = False
    """Its last replacement was."""
    _acts: int = 0

    async def act(self) -> None:
        """Draw one, and do it on a node that no other operator works on."""
        acts: Sequence[tuple[float, Callable[[], Awaitable[None]]]] = (
            (6, self.drain), (2, self.add), (2, self.take_back), (1.5, self.add_again), (2, self.remove),
            (4, self.replace), (3, self.change_members), (2.5, self.extend),
        )  # fmt: skip
        (chosen,) = self.source.choices([act for _, act in acts], [weight for weight, _ in acts])
        self._acts += 1
        with trio.move_on_after(ACT_SECONDS):
            await chosen()

    async def register(self) -> Register | None:
        try:
            return await self.client.log.view.refresh()
        except VirtualLogError:
            return None

    async def ask(self, request: Request[Any], avoid: NodeId) -> Any:
        """The answer, or the refusal; asked again as long as it is neither."""
        while True:
            able = [node for node in self.scene.running if node not in self.scene.stoppable]
            others = [node for node in able if node != avoid or self.source.random() < 0.1]
            try:
                services = self.client.log.view.environment.services
                reply = await services.call(self.source.choice(others or able), request, ASK_SECONDS)
            except InvalidSettingError as error:
                return error
            except VirtualLogError as error:
                if not isinstance(error, RetryableError):
                    return error
            else:
                if not isinstance(reply, Progress) or reply.done or reply.waits:
                    return reply
            await trio.sleep(0.1 + self.source.random() * 0.2)

    def free(self, nodes: Sequence[NodeId]) -> NodeId | None:
        """One of the nodes that no operator works on."""
        able = [node for node in nodes if node not in self.scene.busy and node not in self.scene.stopped]
        return self.source.choice(able) if able else None

    def used(self, register: Register) -> list[NodeId]:
        return [node for node, entry in register.nodes.items() if entry.roles and not entry.is_expected]

    # -- acts ----------------------------------------------------------------------------------------------------

    async def drain(self) -> None:
        scene, register = self.scene, await self.register()
        node = self.free(self.used(register)) if register else None
        if node is None or node in scene.fragile or not scene.cluster.machines[node].running:
            return
        scene.busy.add(node)
        scene.draining += 1
        scene.extensions += 3
        if scene.draining > 1:
            scene.did("drain two nodes at once")
        try:
            answer = await self.ask(DrainNode(node=node), node)
            if isinstance(answer, Progress) and answer.done:
                await self._believe(node)
            else:
                scene.did("refuse a drain")
        finally:
            scene.draining -= 1
            scene.busy.discard(node)

    async def _believe(self, node: NodeId) -> None:
        self.scene.did("drain a node")
        if self.source.random() < 0.4:
            self.scene.stop(node)
        else:
            self.scene.stoppable.add(node)
            self.scene.did("leave a drained node running")

    async def add(self) -> None:
        scene = self.scene
        number = max(scene.cluster.machines) + 1
        if number > len(scene.cluster.nodes) + 4:
            return
        node = NodeId(number)
        scene.busy.add(node)
        try:
            scene.cluster.add(node)
            answer = await self.ask(AddNode(node=node, addresses=(address_of(node),), roles=_ROLES), node)
            if not isinstance(answer, VirtualLogError):
                scene.did("add a node")
        finally:
            scene.busy.discard(node)

    async def take_back(self) -> None:
        """A drained node that still runs is used again. It may have copies from before, with holes."""
        scene, register = self.scene, await self.register()
        node = self.free(sorted(scene.stoppable)) if register else None
        if node is None or register is None:
            return
        scene.busy.add(node)
        scene.stoppable.discard(node)
        try:
            addresses = register.nodes[node].addresses
            answer = await self.ask(AddNode(node=node, addresses=addresses, roles=_ROLES), node)
            if not isinstance(answer, VirtualLogError):
                scene.did("take a drained node back")
        finally:
            scene.busy.discard(node)

    async def add_again(self) -> None:
        """With fewer roles than it has."""
        register = await self.register()
        node = self.free(self.used(register)) if register else None
        if node is None or register is None:
            return
        roles = (self.source.choice(_ROLES),)
        await self.ask(AddNode(node=node, addresses=register.nodes[node].addresses, roles=roles), node)
        self.scene.did("add a node once more with fewer roles")

    async def remove(self) -> None:
        """Any node; that nothing rests on it is for the cluster to say."""
        scene, register = self.scene, await self.register()
        node = self.free(sorted(register.nodes)) if register else None
        if node is None or node in scene.fragile:
            return
        scene.busy.add(node)
        try:
            answer = await self.ask(RemoveNode(node=node), node)
            if isinstance(answer, VirtualLogError):
                scene.did("refuse to remove a node")
            else:
                scene.did("remove a node")
                scene.stop(node)
        finally:
            scene.busy.discard(node)

    async def replace(self) -> None:
        """Of a node whose disk is lost, or which does not answer just now; never by force. The second one of that kind may come
        while the first one has no copies yet."""
        scene, register = self.scene, await self.register()
        node = self.free(self.used(register)) if register and scene.crashes else None
        if node is None or register is None or node in scene.stoppable | scene.fragile:
            return
        if not scene.cluster.machines[node].running or len(scene.running) < 4:
            return
        weak = scene.fragile.union(scene.unsettled, scene.busy)
        if scene.unsettled or (node in register.members and not set(register.members) <= set(scene.running) - weak):
            return  # with two members down at once nothing is decided, and nobody knows what becomes of the disk
        scene.busy.add(node)
        scene.replacing += 1
        machine, store_id = scene.cluster.machines[node], register.nodes[node].store_id
        self.refused = False
        loses = not scene.fragile and scene.replacing == 1 and self.source.random() < 0.6
        machine.crash()
        if loses:
            machine.wipe()
            scene.fragile.add(node)
            scene.asked[node] = store_id
        try:
            if scene.fragile - {node}:
                scene.did("ask for a second replacement")
            await trio.sleep(self.source.random())
            answer = await self.ask(ReplaceNode(node=node, store_id=store_id), node)
            if isinstance(answer, InvalidSettingError):
                self.refused = True
                scene.did("refuse a replacement")
            elif isinstance(answer, Progress):
                await self._give_up(node, store_id, answer)
        finally:
            scene.replacing -= 1
            self._start(node, store_id, loses)
            scene.busy.discard(node)

    async def _give_up(self, node: NodeId, store_id: bytes, progress: Progress) -> None:
        scene, machine = self.scene, self.scene.cluster.machines[node]
        scene.did("replace a node")
        scene.asked[node] = store_id
        if node not in scene.fragile:
            scene.fragile.add(node)
            machine.wipe()
        if self.source.random() < 0.5:
            machine.start()
            answer = await self.ask(ReplaceNode(node=node, store_id=store_id), node)
            if isinstance(answer, Progress) and answer.done:
                await check_replaced(scene, self.client, node)

    def _start(self, node: NodeId, store_id: bytes, loses: bool) -> None:
        """The node comes back: with its disk, unless that is given up. With an unknown answer it stays away: its disk may not come
        back before it is known."""
        machine = self.scene.cluster.machines[node]
        if machine.running:
            return
        if loses or node in self.scene.fragile or self.refused:
            machine.start()
        else:
            self.scene.unsettled[node] = store_id

    async def change_members(self) -> None:
        """To nodes that the operator draws, in the place of what it has seen a moment ago."""
        scene, register = self.scene, await self.register()
        if register is None:
            return
        seen = register.members
        await trio.sleep(self.source.choice((0.0, 0.1, 0.5)))
        drained = self.source.random() < 0.2
        able = sorted(register.nodes) if drained else self.used(register)
        able = [node for node in able if node in scene.running and node not in scene.fragile | scene.busy]
        if len(able) < MEMBERS:
            return
        members = tuple(sorted(self.source.sample(able, MEMBERS)))
        log = self.client.log
        actor = Actor(scene.stage, self.client, self.source, f"m{self.number}.{self._acts}")
        done = await attempt(actor.change(MembersChange(members, seen), log.reconfig_members(members, seen)))
        scene.did("change the members" if done else "refuse a change of the members")

    async def extend(self) -> None:
        """Where the planner says, or on nodes that the operator draws; just when others drain some."""
        scene, register = self.scene, await self.register()
        used = self.used(register) if register else []
        actor = Actor(scene.stage, self.client, self.source, f"e{self.number}.{self._acts}")
        settings = {}
        if self.source.random() < 0.4 and len(used) >= COPIES:
            settings = {"servers": ",".join(map(str, sorted(self.source.sample(used, COPIES))))}
        for _ in range(self.source.choice((1, 1, 3))):
            await _extend(scene, actor, settings)


async def check_replaced(scene: OperatorsContext, client: Client, node: NodeId, place: Placements = _placement) -> None:
    """A replacement was said to be complete: then the register says of no segment that the node has lost it."""
    register = await client.log.view.refresh()
    entry = register.nodes[node]
    lost = [
        str(segment.id)
        for segment in register.chain.segments
        if (found := place(segment)) is not None and node in found.servers and entry.joined >= segment.id.version
    ]
    if entry.is_expected or lost:
        scene.object("done is done", f"node {node} was replaced, and lacks {', '.join(lost) or 'a directory'}")
    scene.fragile.discard(node)
    scene.did("complete a replacement")


# -- the end --------------------------------------------------------------------------------------------------------


async def _finish(scene: OperatorsContext) -> bool:
    """Everybody is back, what is half done is done, and one node more is drained; whether that came to an end."""
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
    """With a spare node for everything this is never refused."""
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


async def _do_without(scene: OperatorsContext) -> None:
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
    """What needs the node."""
    found = []
    for segment in register.chain.segments:
        placement = _placement(segment)
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


OPERATED: Final = Scenario(
    name="operated",
    about="several operators drain, replace, add and remove nodes and change the members at once, and are believed",
    story=_story,
    limit_seconds=400.0,
)
