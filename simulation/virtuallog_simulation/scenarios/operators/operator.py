"""An operator that drains, adds, removes and replaces nodes and changes the members, and what the operators of a run share."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
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
from virtuallog_simulation.checks.cluster.placements import Placements
from virtuallog_simulation.scenarios.cluster.load import native as provider
from virtuallog_simulation.workload.actor import Actor, WorkloadContext, attempt
from virtuallog_simulation.workload.required_shapes import count
from virtuallog_simulation.world.cluster import Client, Cluster
from virtuallog_simulation.world.transport import address_of
from virtuallog_simulation.world.world import World

MEMBERS: Final = 3
COPIES: Final = 3
ASK_SECONDS: Final = 3.0
ACT_SECONDS: Final = 8.0
"""An operator gives up, and does not know what came of it."""
ROLES: Final = ("log-server", "replica", "sequencer")


@attrs.define(eq=False)
class OperatorsContext:
    """State shared by the operators of a run: they agree on which node each works, and on nothing
    else."""

    stage: WorkloadContext
    source: random.Random
    crashes: bool
    """True if nodes fail; else only operators act."""
    busy: set[NodeId] = attrs.field(factory=set)
    stoppable: set[NodeId] = attrs.field(factory=set)
    """Drained, and said to be free. They run still."""
    stopped: set[NodeId] = attrs.field(factory=set)
    """Drained nodes that are gone for good."""
    fragile: set[NodeId] = attrs.field(factory=set)
    """Their directories are given up or lost, and their copies are not made again."""
    asked: dict[NodeId, bytes] = attrs.field(factory=dict)
    """Directory to give up, by the node that is replaced."""
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
        """Stop a node that was said to be free, and wipe its disks."""
        machine = self.cluster.machines[node]
        if machine.running:
            machine.crash()
        machine.wipe()
        self.stoppable.discard(node)
        self.stopped.add(node)
        self.did("stop a drained node")

    def object(self, check: str, message: str) -> None:
        self.world.violations.append(Violation(check, message, (len(self.world.history.events) - 1,)))


@attrs.define(eq=False)
class Operator:
    """An operator that draws acts and asks nodes for them."""

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
        """Draw a node that no operator works on."""
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
            answer = await self.ask(AddNode(node=node, addresses=(address_of(node),), roles=ROLES), node)
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
            answer = await self.ask(AddNode(node=node, addresses=addresses, roles=ROLES), node)
            if not isinstance(answer, VirtualLogError):
                scene.did("take a drained node back")
        finally:
            scene.busy.discard(node)

    async def add_again(self) -> None:
        """Add a node again with fewer roles than it has."""
        register = await self.register()
        node = self.free(self.used(register)) if register else None
        if node is None or register is None:
            return
        roles = (self.source.choice(ROLES),)
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
        """Replace a node whose disk is lost, or which does not answer just now; never by force. A
        second such replacement may come while the first one has no copies yet."""
        scene, register = self.scene, await self.register()
        node = self.free(self.used(register)) if register and scene.crashes else None
        if node is None or register is None or node in scene.stoppable | scene.fragile:
            return
        if not scene.cluster.machines[node].running or len(scene.running) < 4:
            return
        weak = scene.fragile.union(scene.unsettled, scene.busy)
        if scene.unsettled or (node in register.members and not set(register.members) <= set(scene.running) - weak):
            return  # with two members down at once nothing is decided, and it is unknown what becomes of the disk
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
        """Change the members to drawn nodes, in the place of those seen a moment ago."""
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
        """Extend the log where the planner says, or on drawn nodes; just when others drain some."""
        scene, register = self.scene, await self.register()
        used = self.used(register) if register else []
        actor = Actor(scene.stage, self.client, self.source, f"e{self.number}.{self._acts}")
        settings = {}
        if self.source.random() < 0.4 and len(used) >= COPIES:
            settings = {"servers": ",".join(map(str, sorted(self.source.sample(used, COPIES))))}
        for _ in range(self.source.choice((1, 1, 3))):
            await extend(scene, actor, settings)


def native_placement(segment: Segment) -> Placement | None:
    """Placement of a native segment; None for other kinds."""
    return provider().placement(segment.config) if segment.kind == "native" else None


async def check_replaced(
    scene: OperatorsContext, client: Client, node: NodeId, place: Placements = native_placement
) -> None:
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


async def extend(scene: OperatorsContext, actor: Actor, settings: dict[str, str]) -> bool:
    scene.extensions += 1
    asked = ExtendChange("native", ",".join(f"{name}={value}" for name, value in settings.items()))
    return await attempt(actor.change(asked, actor.client.log.reconfig_extend("native", settings)))
