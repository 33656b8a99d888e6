"""Owners of one registry and their standbys, without an election, while the nemesis works and the consensus below is swapped.

Beside each server of a database runs a program that stands by and owns in turn (`workload/database/registrar_owner.py`): they depose
each other all the time, and deposed ones go on until they notice. Replicas are lost and restored from snapshots, so followers have
holes. In part of the seeds the registry is packed into one value again and again, as `virtuallog state copy` stores it, so owners turn
it into records at the same time. In the end a new owner loads the registry.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
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
from virtuallog_database.state.errors import StaleVersionError
from virtuallog_database.state.state import State
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
PACKED: Final = 0.4
"""Share of the seeds in which the registry is packed now and then."""
PACK_SECONDS: Final = 0.4
"""Mean time between two of these."""
STAGE_SECONDS: Final = 0.3
"""Longest time that an owner stands still in these seeds before it stages records: others may convert the same value meanwhile."""
LOOK_SECONDS: Final = 0.05
"""Mean time between two loads in these seeds: a record that a conversion has spoilt may be overwritten soon."""
PACKED_KEY: Final = b"v"
"""Key of a packed value."""
UPDATES: Final = "registrars updates stored"
PACKS: Final = "registrars values packed"
LOOKED: Final = (UPDATES, PACKS, *SHAPES)
"""Counters that a set of seeds must have shown."""


@attrs.define(eq=False)
class _Run:
    world: World
    cluster: Cluster
    servers: DatabaseServers
    witness: Witness
    source: random.Random
    packing: random.Random | None
    """Source of the times when the registry is packed; None if it never is."""
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
            stage_seconds=0.0 if self.packing is None else STAGE_SECONDS,
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

    async def pack(self, source: random.Random) -> None:
        """Put one value in the place of the records, with the same content, again and again."""
        while True:
            await trio.sleep(source.expovariate(1 / PACK_SECONDS))
            ready = self.ready
            if not ready:
                continue
            owner = source.choice(ready)
            state = State(VirtualLogStorage(owner.handle), clock=owner.clock, random=source)
            with trio.move_on_after(3.0), suppress(VirtualLogError, CrashedError):
                while not await self._packed(state):
                    await trio.sleep(0.01)

    async def load(self, source: random.Random) -> None:
        """Load the registry beside any of the servers, and compare it with the log, again and again."""
        while True:
            await trio.sleep(source.expovariate(1 / LOOK_SECONDS))
            ready = self.ready
            if not ready:
                continue
            storage = VirtualLogStorage(source.choice(ready).handle)
            with trio.move_on_after(3.0), suppress(VirtualLogError, CrashedError):
                loaded = await storage.load(NAME)
                if loaded is not None:
                    self.compare(loaded.version, loaded.records)

    async def _packed(self, state: State) -> bool:
        """Pack the registry; False if an owner has stored something meanwhile."""
        variable = await state.fetch(NAME)
        if variable.is_stored:
            try:
                await state.store(variable, recreate=False)
            except StaleVersionError:
                return False
            _count(self.world, PACKS)
        return True

    def compare(self, version: bytes, records: Mapping[bytes, bytes]) -> bool:
        """Compare what was loaded with the log up to its version; False if that is none of the log."""
        every = self.every_update
        at = next((at for at, update in enumerate(every) if update.version == version), None)
        if at is None:
            return False
        self.world.violations.extend(checks.same_registry(_of_records(every[: at + 1]), records))
        return True

    @property
    def ready(self) -> list[RegistrarOwner]:
        """Owners of live processes, with a database."""
        return [owner for process, owner in self.owners if process.alive and owner.is_ready]

    @property
    def updates(self) -> Sequence[Update]:
        """Updates of records that were done, in the order of the log."""
        return _of_records(self.every_update)

    @property
    def every_update(self) -> Sequence[Update]:
        """Updates that were done, also those that pack the records."""
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


def _of_records(updates: Sequence[Update]) -> Sequence[Update]:
    """Updates of records, without those that pack them, which change nothing."""
    return [update for update in updates if all(key != PACKED_KEY for key, _ in update.puts)]


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
    packing = world.random("packed")
    run = _Run(world, cluster, servers, witness, source, packing if packing.random() < PACKED else None)
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
        if run.packing is not None:
            nursery.start_soon(run.pack, run.packing)
            nursery.start_soon(run.load, run.packing)
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
            ready = run.ready
            if not ready:
                await trio.sleep(0.3)
                continue
            owner, before = run.source.choice(ready), len(run.every_update)
            try:
                loaded = await VirtualLogStorage(owner.handle).load(NAME)
            except (VirtualLogError, CrashedError):
                await trio.sleep(0.3)
                continue
            newest = {update.version for update in run.every_update[max(0, before - 1) :]}
            if loaded is None or loaded.version not in newest or not run.compare(loaded.version, loaded.records):
                await trio.sleep(0.3)
                continue
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
