"""Imports of an exported register into the directories of stopped nodes, with files that must be refused and imports that die half-way."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.admin.cluster_status import fetch_statuses
from virtuallog.admin.control import NodeStatus
from virtuallog.contract.crash_points import CRASH_POINTS, CrashPoint
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Outcome, Services
from virtuallog.contract.register import ClusterId, Register
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.actions import LogTrim, RegisterPut
from virtuallog.testing.checker.violation import Violation
from virtuallog.testing.sim.process import Process
from virtuallog_loglets.native.config import decode_untrusted as decode_native
from virtuallog_metastore.core.acceptor import Acceptor
from virtuallog_metastore.disaster_recovery.chain_edit import edit
from virtuallog_metastore.disaster_recovery.dump import Dump, decode_untrusted, dump
from virtuallog_metastore.drivers.acceptor_driver import STORE
from virtuallog_metastore.messages import Decision
from virtuallog_server.storage.identity import FILE_NAME
from virtuallog_server.storage.identity import decode_untrusted as decode_marker
from virtuallog_server.storage.register_import import dump_of, import_into
from virtuallog_simulation.checks.cluster import register_import
from virtuallog_simulation.checks.cluster.acceptor_watch import stored_acceptors
from virtuallog_simulation.checks.cluster.register_import import RegisterImport, StoppedDirectory
from virtuallog_simulation.workload.actor import Actor, WorkloadContext
from virtuallog_simulation.world.cluster import Client, Cluster
from virtuallog_simulation.world.machine import Machine, MachinePorts
from virtuallog_simulation.world.stop_reasons import HALF_IMPORTED
from virtuallog_simulation.world.world import World

_DEATHS: Final = (
    "revival: an imported decision is written, the identity is of the former cluster",
    "node: a boot is counted, nothing of it has started",
    "node: a new identity file is written, the old one stands",
)
"""Crash points at which an import may die."""
assert CRASH_POINTS.keys() >= set(_DEATHS)


@attrs.define(eq=False)
class RecoveryRoles:
    """Clients and nodes of a recovery."""

    stage: WorkloadContext
    source: random.Random
    operator: Actor
    former: Client
    """Knows the former cluster, and is not started again."""
    lost: Sequence[NodeId] = ()
    unaware: NodeId | None = None
    """A member that is left, and was cut off during the last change."""
    exports: list[Dump] = attrs.field(factory=list)
    """Registers that the operator has exported from the running cluster, the newest last."""

    @property
    def cluster(self) -> Cluster:
        return self.stage.cluster

    @property
    def world(self) -> World:
        return self.stage.cluster.world

    @property
    def left(self) -> Sequence[NodeId]:
        return [node for node in self.cluster.nodes if node not in self.lost]

    def fail(self, check: str, message: str) -> None:
        self.world.violations.append(Violation(check, message, (len(self.world.history.events) - 1,)))


async def choose_file(cast: RecoveryRoles) -> tuple[Dump, Sequence[NodeId]]:
    """The file to go on from, and who decides then."""
    source, machines = cast.source, cast.cluster.machines
    known = {node: await _known(machines[node]) for node in cast.left}
    newest = max((found.register.version for found in known.values() if found is not None), default=0)
    all_of_them = [*cast.exports, *(found for found in known.values() if found is not None)]
    fitting = [found for found in all_of_them if found.register.version >= newest]
    last = max(found.register.version for found in all_of_them)
    chosen = source.choice(fitting)
    if source.random() < 0.4:
        chosen = min(fitting, key=lambda found: found.register.version)
    if chosen.register.version < last:
        cast.world.fault(register_import.OLDER)
    chosen = _edit(cast, chosen)
    members = source.sample(cast.left, source.randint(1, len(cast.left)))
    others = [list(each) for each in {(node,) for node in cast.left} | {tuple(cast.left)}]
    cast.world.violations.extend(register_import.other_members_other_cluster(chosen, others))
    return chosen, members


def _edit(cast: RecoveryRoles, found: Dump) -> Dump:
    """Close the open segment if it can no longer be sealed."""
    active = found.register.chain.active
    assert active is not None
    servers = decode_native(active.config).servers
    if 2 * len([server for server in servers if server in cast.left]) > len(servers):
        return found
    stop = max(active.start, cast.stage.tail) + cast.source.choice((0, 0, 1, 5))
    start = stop if cast.source.random() < 0.3 else None
    cast.world.fault(register_import.EDITED)
    if start is not None:
        cast.world.history.observed("operator edits", LogTrim(start), start)
    return decode_untrusted(edit(found, stop, start).encode())


async def import_everywhere(cast: RecoveryRoles, chosen: Dump, members: Sequence[NodeId]) -> Decision | None:
    """Import one file on every remaining node; returns None if one of them refuses it."""
    source, decision = cast.source, None
    answering = source.choice(cast.left) if source.random() < 0.2 else None
    dying = source.choice(cast.left) if source.random() < 0.6 else None
    for node in source.sample(cast.left, len(cast.left)):
        for wrong in _some(source, _wrong_files(cast, chosen, node)):
            await _import(cast, node, wrong, members)
        if answering is not None and node != answering and decision is None:
            cast.cluster.machines[answering].start()
            await trio.sleep(2.0)
            await _import(cast, node, chosen, members, answering=(answering,))
            cast.cluster.machines[answering].crash(power=False)
        if node == dying:
            await _import(cast, node, chosen, members, source.choice(_DEATHS))
            if source.random() < 0.4:
                await _start_half_done(cast, node)
        outcome = await _import(cast, node, chosen, members)
        if isinstance(outcome, Decision) and source.random() < 0.3:
            cast.world.fault(register_import.REPEATED)
            outcome = await _import(cast, node, chosen, members)
        if not isinstance(outcome, Decision):
            return None
        if decision is None:
            put = RegisterPut(outcome.version, outcome.proposal.value, outcome.proposal.attempt)
            cast.world.history.observed("operator imports", put, outcome.version)
        decision = outcome
    return decision


def _wrong_files(cast: RecoveryRoles, chosen: Dump, node: NodeId) -> list[Dump]:
    """Files that this directory must not take, as far as the story knows. The check decides by itself."""
    register = chosen.register
    entry = attrs.evolve(register.nodes[node], store_id=cast.source.randbytes(16))
    known = stored_acceptors({node: cast.cluster.machines[node]})[node]
    version = -1 if known is None else known.known
    wrong = [
        attrs.evolve(register, cluster=ClusterId(cast.source.randbytes(16))),
        register.with_nodes({**register.nodes, node: entry}),
    ]
    if version == register.version:
        wrong.append(attrs.evolve(register, chain=attrs.evolve(register.chain, version=version), members=(node,)))
    older = [found for found in cast.exports if found.register.version < version]
    return [
        *(dump(attrs.evolve(one, chain=attrs.evolve(one.chain, version=register.version)).encode()) for one in wrong),
        *older,
    ]


async def _start_half_done(cast: RecoveryRoles, node: NodeId) -> None:
    """Start a node whose register is of another cluster than its identity: it must serve nothing."""
    machine = cast.cluster.machines[node]
    machine.counts[HALF_IMPORTED] += 1
    machine.start()
    await trio.sleep(2.0)
    if not machine.running:
        return
    log = cast.cluster.products[node].virtual_log
    if log is not None and log.view.cached is not None:
        cast.fail("imports take what fits", f"node {node} serves a register of another cluster than its directory")
    machine.crash(power=False)


async def _import(
    cast: RecoveryRoles,
    node: NodeId,
    found: Dump,
    members: Sequence[NodeId],
    death: str | None = None,
    answering: Collection[NodeId] = (),
) -> Decision | VirtualLogError | None:
    """One `metastore import`, which may die at a crash point; None: it has."""
    machine, world = cast.cluster.machines[node], cast.world
    outcome: list[Decision | VirtualLogError] = []

    async def work(ports: MachinePorts) -> None:
        try:
            root, store = await ports.storage("identity"), await ports.key_values(STORE)
            asking = partial(_ask, ports.services)
            outcome.append(await import_into(f"directory of node {node}", root, store, found, members, asking))
        except VirtualLogError as error:
            outcome.append(error)

    def reached(process: Process, point: CrashPoint) -> None:
        if process.node == node and point.name == death:
            world.fault(f"crash at {point.name}")
            world.fault(register_import.HALF_DONE)
            process.die(power=cast.source.random() < 0.5)

    before = await _directory(machine)
    world.on_crash_point = reached
    await _run(machine, work, lambda: bool(outcome))
    world.on_crash_point = lambda process, point: None
    if not outcome:
        return None
    after = await _directory(machine)
    done = RegisterImport(
        before=before, after=after, found=found, members=members, answering=answering, outcome=outcome[0]
    )
    if isinstance(outcome[0], VirtualLogError):
        world.fault(register_import.REFUSED, f"by node {node}: {outcome[0]}")
    world.violations.extend(register_import.imports_take_what_fits(done))
    return outcome[0]


async def _known(machine: Machine) -> Dump | None:
    """`metastore export --data`."""
    found: list[Dump | VirtualLogError] = []

    async def work(ports: MachinePorts) -> None:
        try:
            found.append(await dump_of(f"directory of node {machine.node}", await ports.key_values(STORE)))
        except VirtualLogError as error:
            found.append(error)

    await _run(machine, work, lambda: bool(found))
    return found[0] if isinstance(found[0], Dump) else None


async def _run(machine: Machine, work: Callable[[MachinePorts], Awaitable[None]], done: Callable[[], bool]) -> None:
    """Run a command on a machine whose node is stopped, until it is done or has died."""
    node, machine.program = machine.program, work
    machine.start()
    while machine.running and not done():
        await trio.sleep(0.01)
    if machine.running:
        machine.crash(power=False)
    machine.program = node


async def _ask(services: Services, exported: Register) -> Mapping[NodeId, Outcome[NodeStatus]]:
    return await fetch_statuses(services, sorted(exported.nodes))


async def _directory(machine: Machine) -> StoppedDirectory:
    disk, store = machine.disk("identity"), machine.key_values(STORE)
    content = bytes(disk.peek(FILE_NAME)) if disk is not None and FILE_NAME in disk.files else b""
    acceptor = stored_acceptors({machine.node: machine})[machine.node]
    return StoppedDirectory(
        marker=decode_marker(content) if content else None,
        acceptor=acceptor or Acceptor(),
        votes=dict(store.pairs) if store is not None else {},
        identity=content,
    )


async def import_late(cast: RecoveryRoles, chosen: Dump, members: Sequence[NodeId]) -> None:
    """Repeat the import when the new cluster has decided something: it must not undo that."""
    node = cast.source.choice(cast.left)
    cast.cluster.machines[node].crash(power=cast.source.random() < 0.5)
    await _import(cast, node, chosen, members)
    cast.cluster.machines[node].start()


def _some(source: random.Random, files: Sequence[Dump]) -> Sequence[Dump]:
    return source.sample(files, min(len(files), source.choice((0, 1, 2))))
