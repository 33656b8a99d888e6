"""Transactions on typed tables by programs with replicas, while the nemesis works and the consensus below is swapped.

Beside each server of a database runs a program (`workload/database/table_program.py`). Few rows are hot. Replicas are lost and restored
from snapshots. In most seeds the programs change to a second version of the schema under way, each by itself, and migrate the table.

A witness on each replica tells the commands in the order of the log, with their results. Each commit puts a row with the name of its
transaction. So the checks (`checks/database/tables.py`) know the place of each transaction that was done, and compare what its program
has read with a plain model. In the end the rows and index entries of each replica are compared with that model.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
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
from virtuallog_database.table.client import Tables
from virtuallog_server.node.node import Node
from virtuallog_simulation.checks.database import tables as checks
from virtuallog_simulation.checks.database.replicas import REPLICA_CHECKS, StateWatch
from virtuallog_simulation.checks.database.table_model import Commit, Told, states_of
from virtuallog_simulation.faults.nemesis import LOST_MAX, FaultPlan, Nemesis
from virtuallog_simulation.scenarios.cluster import load as cluster_load
from virtuallog_simulation.scenarios.database.load import GENTLE, PACE, SERVING_SECONDS, SWAP_SECONDS, draw_plan
from virtuallog_simulation.scenarios.database.servers import DatabaseServers, OptionalEngines
from virtuallog_simulation.scenarios.database.witness import Witness
from virtuallog_simulation.workload.database.table_program import COMMITTED, SHAPES, TableProgram
from virtuallog_simulation.workload.database.table_rows import (
    SecondAccount,
    plain_commit,
    stored_entries,
    stored_rows,
)
from virtuallog_simulation.world.cluster import Cluster
from virtuallog_simulation.world.machine import MachinePorts
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

LOAD_SECONDS: Final = 8.0
PEACE_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 0.3
UPGRADED: Final = 0.7
"""Share of the seeds whose programs change the version of their schema."""
COMPARED: Final = "tables replicas compared"
LOOKED: Final = (COMPARED, *SHAPES)
"""Counters that a set of seeds must have shown."""


@attrs.define(eq=False)
class _Run:
    world: World
    cluster: Cluster
    servers: DatabaseServers
    witness: Witness
    source: random.Random
    upgrade_at: float
    told: list[Told] = attrs.field(factory=list)
    programs: list[tuple[Process, TableProgram]] = attrs.field(factory=list)
    """All programs, with their processes."""

    def prepare(self, node: Node, ports: MachinePorts, nursery: trio.Nursery) -> None:
        """Put a program beside the server."""
        self.servers.prepare(node, ports, nursery)
        assert node.database is not None
        who = f"program {ports.process.node}.{ports.process.boot}"
        program = TableProgram(
            who=who,
            clock=ports.clock,
            random=self.world.random(who),
            told=self.told,
            now=self.world.now,
            count=partial(_count, self.world),
            upgrade_at=self.upgrade_at,
        )
        self.programs.append((ports.process, program))
        node.database.on_life = partial(_begin, node.database.on_life, program)
        nursery.start_soon(program.run)

    async def operate(self) -> None:
        """Put one kind of loglets in the place of another, or of the same, again and again."""
        mean = self.source.choice(SWAP_SECONDS)
        async with self.cluster.client("operator") as client:
            while True:
                await trio.sleep(self.source.expovariate(1 / mean))
                with trio.move_on_after(3.0), suppress(VirtualLogError):
                    await client.log.reconfig_extend(self.source.choice(self.cluster.kind_names), {})

    @property
    def running(self) -> list[TableProgram]:
        """Programs of live processes, with a database."""
        return [program for process, program in self.programs if process.alive and program.is_ready]

    @property
    def commands(self) -> list[Commit]:
        """Commands of tables, in the order of the log."""
        ordered = sorted(self.witness.commits, key=lambda each: each.place)
        return [plain_commit(each.command, each.result) for each in ordered]


def _begin(first: Callable[[ReplicaIncarnation], None], program: TableProgram, life: ReplicaIncarnation) -> None:
    first(life)
    program.handle.begin(life.database)
    program.ready()


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
    is_upgraded, upgrade_at = source.random() < UPGRADED, source.uniform(5.0, 5.0 + LOAD_SECONDS)
    run = _Run(world, cluster, servers, witness, source, upgrade_at if is_upgraded else math.inf)
    cluster.on_node = run.prepare
    plan = FaultPlan.draw(source, pace=PACE)
    plan = attrs.evolve(plan, active={name: GENTLE * mean for name, mean in plan.active.items()})
    nemesis = Nemesis(world, cluster.machines, plan)
    cluster.start()
    async with trio.open_nursery() as nursery:
        if await _committed(run, "a transaction was committed"):
            nemesis.prepare()
            await _load(run, nemesis)
            nemesis.stop(LOST_MAX)
            if await _committed(run, "a transaction was committed in peace"):
                await trio.sleep(PEACE_SECONDS)
                await _judge(run)
        nursery.cancel_scope.cancel()
    world.check(*REPLICA_CHECKS)


async def _committed(run: _Run, what: str) -> bool:
    before = run.world.counts[COMMITTED]
    with trio.move_on_after(SERVING_SECONDS):
        while run.world.counts[COMMITTED] == before:
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
    """Compare the transactions with the log, and with it the tables of every live replica."""
    world = run.world
    with trio.move_on_after(SERVING_SECONDS) as scope:
        while not await _settled(run):
            await trio.sleep(RETRY_SECONDS)
    if scope.cancelled_caught:
        message = f"no program could migrate and read the tables within {SERVING_SECONDS:g} s"
        world.violations.append(Violation("progress", message))
    commands = run.commands
    world.violations.extend(checks.table_violations(commands, run.told))
    for program in run.running:
        with suppress(VirtualLogError, CrashedError):
            world.violations.extend(_stored(program, commands))
            _count(world, COMPARED)


async def _settled(run: _Run) -> bool:
    """Read all rows beside any of the servers, behind a migration if programs have changed the version; whether that was done."""
    if not run.running:
        return False
    tables = Tables(run.source.choice(run.running).handle)
    try:
        if run.upgrade_at < run.world.now():
            await tables.migrate(SecondAccount)
            await tables.scan(SecondAccount, linearizable=True)
    except (VirtualLogError, CrashedError):
        return False
    return True


def _stored(program: TableProgram, commands: list[Commit]) -> Iterator[Violation]:
    """Compare the store of a replica with the log up to there."""
    state = program.handle.database.snapshot_tables()
    commits = [command for command in commands if 0 < command.number <= state.number]
    rows = stored_rows(state)
    yield from checks.same_rows(states_of(commits)[-1], rows)
    yield from checks.entries_are_of_rows(rows, stored_entries(state))


TABLES: Final = Scenario(
    name="tables",
    about="programs that run transactions on typed tables beside every replica, under load and faults, while loglets are swapped below",
    story=_story,
    limit_seconds=300.0,
)
