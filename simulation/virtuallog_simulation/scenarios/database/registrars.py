"""Owners of one registry and their standbys, without an election, while the nemesis works and the consensus below is swapped.

Beside each server of a database runs a program that stands by and owns in turn (`workload/database/registrar_owner.py`): they depose
each other all the time, and deposed ones go on until they notice. Replicas are lost and restored from snapshots, so followers have
holes. In the end a new owner loads the registry.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.contract.errors import VirtualLogError
from virtuallog.testing.checker.violation import Violation
from virtuallog.testing.sim.process import CrashedError, Process
from virtuallog.testing.sim.tcp_segments import StreamQuality
from virtuallog_database.replica.host import ReplicaIncarnation
from virtuallog_database.state.core.variable_commands import Update
from virtuallog_database.state.core.variables import UpdateResult
from virtuallog_database.state.storages.virtual_log import VirtualLogStorage
from virtuallog_server.node.node import Node
from virtuallog_simulation.checks.database import registrar as checks
from virtuallog_simulation.checks.database.registrar import AnsweredOperation
from virtuallog_simulation.checks.database.replicas import REPLICA_CHECKS, StateWatch
from virtuallog_simulation.faults.nemesis import LOST_MAX, FaultPlan, Nemesis
from virtuallog_simulation.scenarios.cluster import load as cluster_load
from virtuallog_simulation.scenarios.database.load import GENTLE, PACE, SERVING_SECONDS, SWAP_SECONDS, draw_plan
from virtuallog_simulation.scenarios.database.servers import DatabaseServers, OptionalEngines
from virtuallog_simulation.scenarios.database.witness import Witness
from virtuallog_simulation.workload.database import registrar_owner
from virtuallog_simulation.workload.database.registrar_owner import NAME, SHAPES, Admit, Answers, RegistrarOwner
from virtuallog_simulation.world.cluster import Cluster
from virtuallog_simulation.world.machine import MachinePorts
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

LOAD_SECONDS: Final = 8.0
PEACE_SECONDS: Final = 1.0
UPDATES: Final = "registrars updates stored"
LOOKED: Final = (UPDATES, *SHAPES)
"""Counters that a set of seeds must have shown."""


@attrs.define(eq=False)
class _Run:
    world: World
    cluster: Cluster
    servers: DatabaseServers
    witness: Witness
    source: random.Random
    answers: Answers = attrs.field(factory=Answers)
    owners: list[tuple[Process, RegistrarOwner]] = attrs.field(factory=list)
    """All programs, with their processes."""

    def prepare(self, node: Node, ports: MachinePorts, nursery: trio.Nursery) -> None:
        """Put an owner beside the server."""
        self.servers.prepare(node, ports, nursery)
        assert node.database is not None
        who = f"owner {ports.process.node}.{ports.process.boot}"
        owner = RegistrarOwner(
            who=who,
            clock=ports.clock,
            random=self.world.random(who),
            answers=self.answers,
            now=self.world.now,
            count=partial(_count, self.world),
            object_to=lambda message: self.world.violations.append(checks.other_copy(message)),
        )
        self.owners.append((ports.process, owner))
        node.database.on_life = partial(_begin, node.database.on_life, owner)
        nursery.start_soon(owner.run)

    async def operate(self) -> None:
        """Put one kind of loglets in the place of another, or of the same, again and again."""
        mean = self.source.choice(SWAP_SECONDS)
        async with self.cluster.client("operator") as client:
            while True:
                await trio.sleep(self.source.expovariate(1 / mean))
                with trio.move_on_after(3.0), suppress(VirtualLogError):
                    await client.log.reconfig_extend(self.source.choice(self.cluster.kind_names), {})

    @property
    def updates(self) -> Sequence[Update]:
        """Updates of the registry that have changed it, in the order of the log."""
        done = []
        for applied in sorted(self.witness.updates, key=lambda each: each.place):
            command, result = applied.command, applied.result
            if isinstance(command, Update) and isinstance(result, UpdateResult) and result.is_done:
                done.append(command)
        return checks.without_repetitions(done)


def _begin(first: Callable[[ReplicaIncarnation], None], owner: RegistrarOwner, life: ReplicaIncarnation) -> None:
    first(life)
    owner.handle.begin(life.database)
    owner.ready()


def _count(world: World, what: str) -> None:
    world.counts[what] += 1


async def _story(world: World) -> None:
    source = world.random("plan")
    cluster = Cluster(world, draw_plan(source, world), cluster_load.SETTINGS)
    witness = Witness(world.history, world.violations)
    states = StateWatch(world.history, world.violations, world.counts)
    world.on_store_open, world.on_store_write = states.opened, states.wrote
    servers = DatabaseServers(
        world, witness, OptionalEngines.draw(source, cluster.nodes), StreamQuality(), partial(_count, world)
    )
    servers.start(cluster)
    run = _Run(world, cluster, servers, witness, source)
    cluster.on_node = run.prepare
    plan = FaultPlan.draw(source, pace=PACE)
    plan = attrs.evolve(plan, active={name: GENTLE * mean for name, mean in plan.active.items()})
    nemesis = Nemesis(world, cluster.machines, plan)
    cluster.start()
    async with trio.open_nursery() as nursery:
        if await _answered(run, "an owner was answered", 1):
            nemesis.prepare()
            await _load(run, nemesis)
            nemesis.stop(LOST_MAX)
            if await _answered(run, "an owner was answered in peace", len(run.answers.permitted) + 1):
                await trio.sleep(PEACE_SECONDS)
                await _judge(run)
        nursery.cancel_scope.cancel()
    world.check(*REPLICA_CHECKS)


async def _answered(run: _Run, what: str, count: int) -> bool:
    with trio.move_on_after(SERVING_SECONDS):
        while len(run.answers.permitted) < count:
            await trio.sleep(0.1)
        return True
    run.world.violations.append(Violation("progress", f"it is not so that {what} within {SERVING_SECONDS:g} s"))
    return False


async def _load(run: _Run, nemesis: Nemesis) -> None:
    seconds = run.world.options.seconds
    async with trio.open_nursery() as nursery:
        nursery.start_soon(nemesis.run)
        nursery.start_soon(run.operate)
        await trio.sleep(LOAD_SECONDS if seconds is None else seconds)
        nursery.cancel_scope.cancel()


async def _judge(run: _Run) -> None:
    """Load the registry beside any of the servers, and compare with the log up to there."""
    answers = [
        AnsweredOperation(_table(each.operation), each.operation.key, each.offered, each.answered)
        for each in run.answers.permitted
    ]
    with trio.move_on_after(SERVING_SECONDS):
        while True:
            ready = [owner for process, owner in run.owners if process.alive and owner.is_ready]
            if not ready:
                await trio.sleep(0.3)
                continue
            owner, before = run.source.choice(ready), len(run.updates)
            try:
                loaded = await VirtualLogStorage(owner.handle).load(NAME)
            except (VirtualLogError, CrashedError):
                await trio.sleep(0.3)
                continue
            updates = run.updates
            versions = [update.version for update in updates]
            if loaded is None or loaded.version not in versions[max(0, before - 1) :]:
                await trio.sleep(0.3)
                continue
            upto = updates[: versions.index(loaded.version) + 1]
            run.world.violations.extend(checks.same_registry(upto, loaded.records))
            break
    updates = run.updates
    run.world.counts[UPDATES] += len(updates)
    run.world.violations.extend(checks.fenced(updates))
    run.world.violations.extend(checks.answered_is_stored(updates, answers))


def _table(operation: registrar_owner.Admit | registrar_owner.Remove) -> str:
    return (registrar_owner.KEYS if isinstance(operation, Admit) else registrar_owner.REMOVED).name


REGISTRARS: Final = Scenario(
    name="registrars",
    about="owners and standbys of one registry, who depose each other, under load and faults, while loglets are swapped below",
    story=_story,
    limit_seconds=300.0,
)
