"""A fourth node is added, and takes over all that one of the first three has: its seat, the open segment, the closed ones.

Appends, trims and extensions go on. The node that does the work may die in the middle of it, and
the operator asks again. In the end the drained node goes for good, with its disks, and nothing
depends on it.

docs/howto/operate.md, "Add, replace, drain"; server/virtuallog_server/membership/drain.py, server/virtuallog_server/node/join.py.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import attrs
import trio

from virtuallog.admin.membership import AddNode, DrainNode, RemoveNode
from virtuallog.contract.chain import Segment
from virtuallog.contract.crash_points import CRASH_POINTS
from virtuallog.contract.ports import Request
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.actions import ExtendChange
from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.violation import Violation, proof
from virtuallog_simulation.checks.history.chain import CHAIN_CHECKS
from virtuallog_simulation.checks.history.facts import chains
from virtuallog_simulation.checks.history.log import LOG_CHECKS
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.faults.crash_points import CrashPointPlan, CrashPoints
from virtuallog_simulation.scenarios.loglet.native import provider
from virtuallog_simulation.workload.actor import Actor, WorkloadContext, attempt
from virtuallog_simulation.workload.plan import WorkloadPlan
from virtuallog_simulation.world.cluster import Cluster, ClusterPlan
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.transport import address_of
from virtuallog_simulation.world.world import World

DRAIN_SECONDS: Final = 60.0
"""Seconds until nothing is on the node: some steps of a second at most, and a suspicion and a
restart for each death."""
ASK_SECONDS: Final = 3.0
SETTLE_SECONDS: Final = 2.0
READ_SECONDS: Final = 20.0
COPIES: Final = 3
"""Copies of each segment, and of the register, on three nodes at the start."""
ADDED: Final = NodeId(4)
_ROLES: Final = ("log-server", "replica", "sequencer")
_OPERATOR, _WRITER, _READER = NodeId(2001), NodeId(2002), NodeId(2003)


@attrs.frozen(eq=False)
class DrainRoles:
    """Nodes and clients of a drain."""

    stage: WorkloadContext
    operator: Actor
    source: random.Random
    drained: NodeId
    writing: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    @property
    def cluster(self) -> Cluster:
        return self.stage.cluster

    @property
    def world(self) -> World:
        return self.cluster.world

    @property
    def others(self) -> list[NodeId]:
        """Other nodes of the first three."""
        return [node for node in self.cluster.nodes if node != self.drained]


async def _story(world: World) -> None:
    source = world.random("plan")
    cluster = Cluster(world, ClusterPlan(nodes=3, members=3, kinds=(provider,)))
    cluster.start()
    await cluster.wait_serving()
    async with trio.open_nursery() as nursery, cluster.client("operator", node=_OPERATOR) as client:
        stage = WorkloadContext(cluster, WorkloadPlan.draw(source), nursery)
        actor = Actor(stage, client, world.random("operator"), "o")
        cast = DrainRoles(stage, actor, source, source.choice(cluster.nodes))
        filled = await _fill(cast)
        nursery.start_soon(_write, cast)
        if await _drain(cast):
            await _part_with_it(cast, filled)
        nursery.cancel_scope.cancel()
    world.check(*LOG_CHECKS, *LOGLET_CHECKS, *CHAIN_CHECKS, nothing_gets_less)


async def _fill(cast: DrainRoles) -> int:
    """Closed segments on all three nodes, some of it trimmed, and an open one; returns where that begins."""
    actor, source = cast.operator, cast.source
    for _ in range(source.randint(1, 3)):
        for _ in range(source.randint(1, 5)):
            await actor.append(source.randint(1, 4), size=source.choice((0, 900)))
        await _extend(actor)
    if source.random() < 0.5:
        await attempt(actor.trim(actor.position()))
    return actor.chain.last.start


async def _extend(actor: Actor) -> None:
    await actor.change(ExtendChange("native", ""), actor.client.log.reconfig_extend("native"))


async def _write(cast: DrainRoles) -> None:
    """Append, trim and extend as a client that knows nothing of the drain."""
    source = cast.world.random("writer")
    with cast.writing:
        async with cast.cluster.client("writer", node=_WRITER) as client:
            actor = Actor(cast.stage, client, source, "w")
            while True:
                await _write_something(actor, source)
                await trio.sleep(source.random() * 0.2)


async def _write_something(actor: Actor, source: random.Random) -> None:
    await attempt(actor.append(source.randint(1, 3), size=100))
    dice = source.random()
    if dice < 0.05:
        await attempt(actor.trim(actor.position()))
    elif dice < 0.1:
        await attempt(_extend(actor))


# -- the operator -------------------------------------------------------------------------------------------------


async def _drain(cast: DrainRoles) -> bool:
    """Add the one, drain the other, ask until that is done; whether it came to an end."""
    world, began = cast.world, cast.world.now()
    points = _arm(cast)
    world.timeline.schedule(cast.source.random(), lambda: cast.cluster.add(ADDED))
    with trio.move_on_after(DRAIN_SECONDS) as limit:
        await _ask(cast, AddNode(node=ADDED, addresses=(address_of(ADDED),), roles=_ROLES), lambda reply: True)
        await _ask(cast, DrainNode(node=cast.drained), lambda progress: bool(progress.done))
    points.stop()
    world.demanded("drain", world.now() - began)
    if limit.cancelled_caught:
        _object(world, "progress", f"node {cast.drained} was not drained within {DRAIN_SECONDS:g} s")
    return not limit.cancelled_caught


def _arm(cast: DrainRoles) -> CrashPoints:
    """Nodes die while they join or drain."""
    reached = sorted(name for name, point in CRASH_POINTS.items() if point.area in {"joining", "draining"})
    points = CrashPoints(cast.world, cast.cluster.machines, clients_die=True)
    armed = cast.source.sample(reached, cast.source.choice((0, 1, 2, 3)))
    points.start(CrashPointPlan({name: cast.source.randint(1, 2) for name in armed}, {}))
    return points


async def _ask(cast: DrainRoles, request: Request[Any], satisfied: Callable[[Any], bool]) -> None:
    """Again and again, any of the first three: also the one that is drained."""
    services = cast.operator.client.log.view.environment.services
    replies: list[Any] = []

    async def ask() -> None:
        replies.append(await services.call(cast.source.choice(cast.cluster.nodes), request, ASK_SECONDS))

    while not (await attempt(ask()) and satisfied(replies[-1])):
        await trio.sleep(0.3)


# -- without it -----------------------------------------------------------------------------------------------------


async def _part_with_it(cast: DrainRoles, filled: int) -> None:
    """The drained node goes with all its disks; the others have everything, and the newcomer alone what was there before it."""
    machines = cast.cluster.machines
    if machines[cast.drained].running:
        machines[cast.drained].crash()
    machines[cast.drained].wipe()
    for node in (*cast.others, ADDED):
        if not machines[node].running:
            machines[node].start()
    await trio.sleep(SETTLE_SECONDS)
    async with cast.cluster.client("reader", node=_READER) as client:
        reader = Actor(cast.stage, client, client.random, "r")
        if not await _get(cast, "go on without the drained node", lambda: _go_on(cast, reader)):
            return
        await _quieten(cast, reader)
        for node in cast.others:
            machines[node].crash()
        await _get(cast, "read from the newcomer alone", lambda: _read(reader, filled))


async def _quieten(cast: DrainRoles, reader: Actor) -> None:
    """Stop the trims: the reader, which will not be able to ask, would take them for a part of the
    chain."""
    cast.writing.cancel()
    await trio.sleep(SETTLE_SECONDS)
    await _get(cast, "learn the newest chain", reader.client.log.view.refresh)


async def _go_on(cast: DrainRoles, reader: Actor) -> None:
    """Nothing rests on the drained node; the log is read, the register is changed, at last to what knows nothing of it."""
    register = await reader.client.log.view.refresh()
    if found := _rests(register, cast.drained):
        _object(cast.world, "healing", f"node {cast.drained} was drained, and is still needed by {', '.join(found)}")
    await reader.check_tail()
    await _read(reader, cast.stage.tail)
    await _extend(reader)
    await reader.append()
    services = reader.client.log.view.environment.services
    await services.call(cast.source.choice(cast.others), RemoveNode(node=cast.drained), ASK_SECONDS)


async def _read(actor: Actor, stop: int) -> None:
    at = 0
    while at < stop:
        at = await actor.read(at, stop, 1 << 20)


async def _get(cast: DrainRoles, what: str, work: Callable[[], Awaitable[object]]) -> bool:
    """Tried until it succeeds, or its time is over."""
    began = cast.world.now()
    with trio.move_on_after(READ_SECONDS) as limit:
        while not await attempt(work()):
            await trio.sleep(0.2)
    cast.world.demanded(what, cast.world.now() - began)
    if limit.cancelled_caught:
        _object(cast.world, "healing", f"within {READ_SECONDS:g} s it could not be done: {what}")
    return not limit.cancelled_caught


# -- checks ---------------------------------------------------------------------------------------------------------


def _rests(register: Register, node: NodeId) -> list[str]:
    """Segments, roles and seats that need the node."""
    found = [f"segment {segment.id}" for segment in register.chain.segments if node in _users(segment)]
    return [*(["the MetaStore"] if node in register.members else []), *found]


def _users(segment: Segment) -> tuple[NodeId, ...]:
    placement = provider().placement(segment.config)
    return (*placement.servers, *(placement.orders if segment.stop is None else ()))


def nothing_gets_less(history: History) -> Iterator[Violation]:
    """In every version of the register each segment has as many copies, and the register as many
    members, as in the beginning."""
    for version, known in chains(history).items():
        register, shown = known.register, proof(known.known_by)
        assert register is not None
        if len(register.members) < COPIES:
            yield Violation("healing", f"version {version}: the MetaStore is {register.members} only", shown)
        for segment in register.chain.segments:
            servers = provider().placement(segment.config).servers
            if len(servers) < COPIES:
                yield Violation("healing", f"version {version}: segment {segment.id} is on {servers} only", shown)


def _object(world: World, check: str, message: str) -> None:
    world.violations.append(Violation(check, message, (len(world.history.events) - 1,)))


DRAINED: Final = Scenario(
    name="drained",
    about="a node is added and another one drained, under load; that one goes with its disks, and no data is missing",
    story=_story,
    limit_seconds=300.0,
)
