"""A node's disk is replaced by an empty one, the node joins again, and later the old disk turns up.

`returned`   what was acknowledged by the new directory and one more node must not be outvoted by the old one
`unseated`   the same for the register: the old directory must not vote in slots that the new one has voted in

All that know better are down at that moment: only the old directory, and a node that was cut off
all the while, are there. They look like a majority (`server/virtuallog_server/node/join.py`;
docs/internals/protocols/metastore.md, "Seats").
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.admin.membership import Progress, ReplaceNode
from virtuallog.client.appender import AppenderSettings
from virtuallog.client.virtual_log import VirtualLogSettings
from virtuallog.contract.crash_points import CRASH_POINTS
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog.reconfiguration.node_table_update import update_node_table
from virtuallog.testing.checker.violation import Violation
from virtuallog_simulation.checks.history.chain import CHAIN_CHECKS
from virtuallog_simulation.checks.history.log import LOG_CHECKS
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.faults.crash_points import CrashPointPlan, CrashPoints
from virtuallog_simulation.scenarios.cluster.disk_loss import act, cut
from virtuallog_simulation.scenarios.loglet.native import provider
from virtuallog_simulation.workload.actor import Actor, WorkloadContext, attempt
from virtuallog_simulation.workload.plan import WorkloadPlan
from virtuallog_simulation.world.cluster import Client, Cluster, ClusterPlan
from virtuallog_simulation.world.machine import Disks
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.transport import CALLS, STREAMS
from virtuallog_simulation.world.world import World

REPLACE_SECONDS: Final = 60.0
"""Seconds until a replacement is complete, with deaths of nodes that do the work."""
ASK_SECONDS: Final = 3.0
WITNESS_SECONDS: Final = 5.0
"""Seconds for a tail, if any node returned one."""
_SETTINGS: Final = VirtualLogSettings(appender=AppenderSettings(give_up=3.0))
_OPERATOR, _BEFORE, _FIRST, _SECOND, _THIRD, _WITNESS = (NodeId(number) for number in range(2001, 2007))
"""Clients; each number lives once, as it names sources of chance."""


@attrs.frozen(eq=False)
class ReturnedDiskRoles:
    """Clients and nodes of the story."""

    stage: WorkloadContext
    source: random.Random
    replaced: NodeId
    apart: NodeId
    """Cut off while the new directory and `other` go on."""
    other: NodeId

    @property
    def world(self) -> World:
        return self.stage.cluster.world


async def _tell(world: World, transport: str, scene: Callable[[ReturnedDiskRoles, Disks], Awaitable[None]]) -> None:
    world.options = attrs.evolve(world.options, transport=transport)
    source = world.random("plan")
    cluster = Cluster(world, ClusterPlan(nodes=3, members=3, kinds=(provider,)), _SETTINGS)
    cluster.start()
    await cluster.wait_ready()
    await trio.sleep(1.0)
    async with trio.open_nursery() as nursery:
        stage = WorkloadContext(cluster, WorkloadPlan.draw(source), nursery)
        cast = ReturnedDiskRoles(stage, source, *source.sample(cluster.nodes, 3))
        await act(stage, _BEFORE, source.randint(1, 3))
        old = await _replace(cast)
        if old is not None:
            await scene(cast, old)
        nursery.cancel_scope.cancel()
    world.check(*LOG_CHECKS, *LOGLET_CHECKS, *CHAIN_CHECKS)


async def _replace(cast: ReturnedDiskRoles) -> Disks | None:
    """Give up the directory, start on an empty one, wait until it has all; returns the old disks, None if that failed."""
    cluster, world = cast.stage.cluster, cast.world
    machine = cluster.machines[cast.replaced]
    machine.crash()
    old = machine.swap()
    points = CrashPoints(world, cluster.machines)
    points.clients_die = True
    joining = sorted(name for name, point in CRASH_POINTS.items() if point.area in {"joining", "replacing"})
    points.start(CrashPointPlan(dict.fromkeys(cast.source.sample(joining, cast.source.choice((0, 1, 2))), 1), {}))
    machine.start()
    began, done = world.now(), False
    async with cluster.client("operator", node=_OPERATOR) as client:
        with trio.move_on_after(REPLACE_SECONDS):
            store_id = (await client.log.view.current()).nodes[cast.replaced].store_id
            while not done:
                done = await _ask(client, cast, store_id)
                await trio.sleep(0.3)
    points.stop()
    world.demanded("replacement", world.now() - began)
    if not done:
        message = f"node {cast.replaced} was not replaced within {REPLACE_SECONDS:g} s"
        world.violations.append(Violation("progress", message, (len(world.history.events) - 1,)))
    for one in cluster.machines.values():
        if not one.running:
            one.start()
    await trio.sleep(2.0)
    return old if done else None


async def _ask(client: Client, cast: ReturnedDiskRoles, store_id: bytes) -> bool:
    """One question of the operator, to any of the others."""
    asked = cast.source.choice((cast.apart, cast.other))
    with suppress(VirtualLogError):
        services = client.log.view.environment.services
        request = ReplaceNode(node=cast.replaced, store_id=store_id)
        progress: Progress = await services.call(asked, request, ASK_SECONDS)
        return progress.done
    return False


def _bring_back(cast: ReturnedDiskRoles, old: Disks) -> Disks:
    """Only the old directory and the node that was apart are left; returns the new directory's disks."""
    machines = cast.stage.cluster.machines
    machines[cast.other].crash()
    machines[cast.replaced].crash()
    new = machines[cast.replaced].swap(old)
    machines[cast.replaced].start()
    cast.world.network.heal()
    return new


async def _end_well(cast: ReturnedDiskRoles, new: Disks) -> None:
    """Bring the right disk and all nodes back, and demand that the log goes on."""
    machines = cast.stage.cluster.machines
    if machines[cast.replaced].running:
        machines[cast.replaced].crash()
    machines[cast.replaced].swap(new)
    machines[cast.replaced].start()
    machines[cast.other].start()
    await act(cast.stage, _THIRD, 1)


async def _returned(cast: ReturnedDiskRoles, old: Disks) -> None:
    """The witness knows the chain from before, so it asks log servers where the others ask for the
    register, without success."""
    async with cast.stage.cluster.client("witness", node=_WITNESS) as client:
        witness = Actor(cast.stage, client, client.random, "w")
        await attempt(witness.check_tail())
        cut(cast.world, cast.apart, [cast.replaced, cast.other, _FIRST])
        await act(cast.stage, _FIRST, cast.source.randint(1, 3))
        new = _bring_back(cast, old)
        with trio.move_on_after(WITNESS_SECONDS):
            await attempt(witness.check_tail())
    await act(cast.stage, _SECOND, 1)
    await _end_well(cast, new)


async def _unseated(cast: ReturnedDiskRoles, old: Disks) -> None:
    cut(cast.world, cast.apart, [cast.replaced, cast.other, _FIRST])
    await _change(cast, _FIRST, cast.source.randint(1, 3))
    new = _bring_back(cast, old)
    await _change(cast, _SECOND, 1)
    await _end_well(cast, new)


async def _change(cast: ReturnedDiskRoles, node: NodeId, changes: int) -> None:
    """Changes of the register that touch no loglet: the old directory may still serve some, over a network without
    identities, as it cannot know better."""
    with trio.move_on_after(10.0):
        async with cast.stage.cluster.client("operator", node=node) as client:
            metastore = client.log.view.metastore
            for _ in range(changes):
                with suppress(VirtualLogError):
                    register = await client.log.view.refresh()
                    await update_node_table(
                        metastore, _Turn(cast.apart, not register.nodes[cast.apart].roles), client.random
                    )


@attrs.frozen
class _Turn:
    """A node gets its roles, or loses them: a change of the table and of nothing else."""

    node: NodeId
    used: bool

    def amend(self, register: Register) -> Register | None:
        roles = frozenset({"log-server", "sequencer", "replica", "metastore"} if self.used else ())
        entry = register.nodes[self.node]
        if entry.roles == roles:
            return None
        return register.with_nodes({**register.nodes, self.node: attrs.evolve(entry, roles=roles)})


RETURNED: Final = Scenario(
    name="returned",
    about="a lost disk is replaced, and turns up again when it looks like a part of a majority that has nothing",
    story=partial(_tell, transport=STREAMS, scene=_returned),
    limit_seconds=600.0,
)
UNSEATED: Final = Scenario(
    name="unseated",
    about="a lost disk is replaced, and turns up again when its vote for the register would make a majority",
    story=partial(_tell, transport=CALLS, scene=_unseated),
    limit_seconds=600.0,
)
