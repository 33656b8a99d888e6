"""A majority of the MetaStore's members lose their disks for good, and the nodes that are left go on from an exported register.

An operator does what the manual says (docs/howto/operate.md, "When the MetaStore is lost", "When a loglet is lost for good"), on the disks of the
simulated nodes, with the product's own functions (`virtuallog_server.storage.register_import`, `virtuallog_metastore.disaster_recovery.chain_edit`). Before it goes right, files are tried that must be
refused. An import may die half-way, and is done again. In the end a member that was believed lost turns up, partly cut off, and a
client that was not started again appends.

Drawn: 3 or 5 nodes and members; who is lost; whether the loglet is lost with them; whether the file is the newest, or one from before a change
that no directory which is left knows of.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.admin.cluster_status import fetch_statuses
from virtuallog.admin.control import NodeStatus
from virtuallog.client.appender import AppenderSettings
from virtuallog.client.virtual_log import VirtualLogSettings
from virtuallog.contract.crash_points import CRASH_POINTS, CrashPoint
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Outcome, Services
from virtuallog.contract.register import ClusterId, Register
from virtuallog.contract.types import NodeId
from virtuallog.reconfiguration.node_table_update import update_node_table
from virtuallog.testing.checker.actions import ExtendChange, LogTrim, RegisterPut
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
from virtuallog_simulation.checks.history.chain import CHAIN_CHECKS
from virtuallog_simulation.checks.history.log import LOG_CHECKS
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.scenarios.loglet.native import provider
from virtuallog_simulation.workload.actor import Actor, WorkloadContext, attempt
from virtuallog_simulation.workload.plan import WorkloadPlan
from virtuallog_simulation.world.cluster import Client, Cluster, ClusterPlan
from virtuallog_simulation.world.machine import Disks, Machine, MachinePorts
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.stop_reasons import HALF_IMPORTED
from virtuallog_simulation.world.transport import STREAMS
from virtuallog_simulation.world.world import World

REVIVED_SECONDS: Final = 30.0
"""From the start of the imported nodes until the log goes on, and all that can be read has been."""
_SETTINGS: Final = VirtualLogSettings(appender=AppenderSettings(give_up=3.0))
_FORMER, _OPERATOR, _LATER, _READER = (NodeId(number) for number in range(2001, 2005))
_DEATHS: Final = (
    "revival: an imported decision is written, the identity is of the former cluster",
    "node: a boot is counted, nothing of it has started",
    "node: a new identity file is written, the old one stands",
)
"""Where an import may die."""
assert CRASH_POINTS.keys() >= set(_DEATHS)


@attrs.define(eq=False)
class RecoveryRoles:
    """Who plays whom."""

    stage: WorkloadContext
    source: random.Random
    operator: Actor
    former: Client
    """Knows the former cluster, and is not started again."""
    lost: Sequence[NodeId] = ()
    unaware: NodeId | None = None
    """A member that is left, and was cut off during the last change."""
    exports: list[Dump] = attrs.field(factory=list)
    """What the operator has taken from the running cluster, the newest last."""

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


async def _story(world: World) -> None:
    world.options = attrs.evolve(world.options, transport=STREAMS)
    source = world.random("plan")
    nodes = source.choice((3, 5, 5))
    plan = ClusterPlan(nodes=nodes, members=source.choice((3, nodes)), kinds=(provider,))
    cluster = Cluster(world, plan, _SETTINGS, healing="off")
    cluster.start()
    await cluster.wait_serving()
    await trio.sleep(1.5)  # node.following has told everybody which cluster it is
    async with trio.open_nursery() as nursery:
        stage = WorkloadContext(cluster, WorkloadPlan.draw(source), nursery)
        async with cluster.client("former", node=_FORMER) as former, cluster.client("operator", node=_OPERATOR) as own:
            cast = RecoveryRoles(stage, source, Actor(stage, own, own.random, "o"), former)
            await _live(cast)
            olds = await _lose_majority(cast)
            chosen, members = await _choose(cast)
            decision = await _import_everywhere(cast, chosen, members)
            if decision is not None:
                began = len(world.history.events)
                returned = await _go_on(cast, olds, chosen, members)
                world.check(*register_import.register_import_checks(decision, began, {former.name, own.name, returned}))
        nursery.cancel_scope.cancel()
    world.check(*LOG_CHECKS, *LOGLET_CHECKS, *CHAIN_CHECKS)


async def _live(cast: RecoveryRoles) -> None:
    """The log goes on, at servers that are drawn. The register is exported now and then; the last change may come after the last export, and
    may be unknown to a member."""
    source, cluster = cast.source, cast.cluster
    quorum = len(cluster.members) // 2 + 1
    cast.lost = source.sample(cluster.members, quorum)
    former = Actor(cast.stage, cast.former, cast.former.random, "f")
    for _ in range(source.randint(1, 2)):
        await attempt(former.append(source.randint(1, 3)))
        servers = source.sample(cluster.nodes, source.choice((1, 3)))
        if source.random() < 0.5:  # it outlives what is to come
            servers = [*cast.left[:2], *cast.lost][:3] if len(cast.left) > 1 else [*cast.left]
        await _extend(cast.operator, servers, source.choice(servers))
    await attempt(former.append(source.randint(1, 3)))
    await _export(cast)
    if source.random() < 0.6:
        member = source.choice([node for node in cast.left if node in cluster.members])
        if source.random() < 0.7:
            cast.unaware = member
            _cut(cast.world, member, [*cluster.nodes, _FORMER, _OPERATOR])
        await _change_last(cast)
        await _export(cast)
    else:
        await attempt(former.append(source.randint(1, 3)))


async def _export(cast: RecoveryRoles) -> None:
    with trio.move_on_after(5.0):
        while True:
            try:
                _, value = await cast.operator.client.log.view.metastore.get()
            except VirtualLogError:
                await trio.sleep(0.2)
                continue
            cast.exports.append(decode_untrusted(dump(value).encode()))
            return


async def _change_last(cast: RecoveryRoles) -> None:
    """A change that may be lost. Nothing is appended to what it may have begun: that would be lost with it."""
    if cast.source.random() < 0.5:
        servers = cast.source.sample(cast.lost, 1)
        await _extend(cast.operator, servers, servers[0])
        return
    with trio.move_on_after(8.0):
        await attempt(
            update_node_table(cast.operator.client.log.view.metastore, _Turn(cast.lost[0]), cast.operator.client.random)
        )


async def _lose_majority(cast: RecoveryRoles) -> Mapping[NodeId, Disks]:
    """Returns the disks that are believed lost. The nodes that are left are asked for changes meanwhile, in vain, and are stopped."""
    olds = dict[NodeId, Disks]()
    for node in cast.lost:
        cast.cluster.machines[node].crash()
        olds[node] = cast.cluster.machines[node].swap()
        cast.world.fault("lost for good", str(node))
    cast.world.network.heal()
    if cast.source.random() < 0.5:
        with trio.move_on_after(3.0):
            await attempt(
                update_node_table(
                    cast.operator.client.log.view.metastore, _Turn(cast.left[0]), cast.operator.client.random
                )
            )
    for node in cast.left:
        cast.cluster.machines[node].crash(power=cast.source.random() < 0.5)
    return olds


async def _choose(cast: RecoveryRoles) -> tuple[Dump, Sequence[NodeId]]:
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
    """Close the open segment if nobody can seal it any more."""
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


# -- Imports ----------------------------------------------------------------------------------------------------------


async def _import_everywhere(cast: RecoveryRoles, chosen: Dump, members: Sequence[NodeId]) -> Decision | None:
    """The same file, on every node that is left; None: one of them does not take it."""
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
    """A node whose register is of another cluster than its identity serves nothing."""
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


# -- Afterwards -------------------------------------------------------------------------------------------------------


async def _go_on(cast: RecoveryRoles, olds: Mapping[NodeId, Disks], chosen: Dump, members: Sequence[NodeId]) -> str:
    """The new cluster serves all that it can, whatever a former member and a former client do; returns the member, as it stands in the
    history."""
    source, cluster, world = cast.source, cast.cluster, cast.world
    returning, is_first = source.choice(cast.lost), source.random() < 0.5
    if is_first:
        _bring_back(cast, returning, olds[returning])
    for node in cast.left:
        cluster.machines[node].start()
    if not is_first:
        _bring_back(cast, returning, olds[returning])
    life = cluster.machines[returning].process
    assert life is not None
    former = Actor(cast.stage, cast.former, cast.former.random, "g")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_act_as_former, former, returning)
        await _serve(cast, chosen, members)
    world.network.heal()
    await _act_as_former(former, returning)
    cluster.machines[returning].crash(power=False)
    await _import_late(cast, chosen, members)
    async with cluster.client("reader", node=_READER, members=members) as client:
        reader = Actor(cast.stage, client, client.random, "r")
        with trio.move_on_after(8.0):
            await attempt(reader.append())
            await attempt(reader.check_tail())
    return f"node {returning}.{life.boot}"


def _bring_back(cast: RecoveryRoles, node: NodeId, old: Disks) -> None:
    """A directory that was believed lost is there again, and reaches some of the others."""
    machine, source = cast.cluster.machines[node], cast.source
    machine.swap(old)
    machine.start()
    others = [*cast.left, _FORMER, _LATER]
    _cut(cast.world, node, source.sample(others, source.randint(0, len(others) - 1)))


async def _act_as_former(former: Actor, returning: NodeId) -> None:
    """A client that was not started again."""
    with trio.move_on_after(10.0):
        await attempt(former.append())
        await _extend(former, [returning], returning, times=1)
        await attempt(former.append())


async def _serve(cast: RecoveryRoles, chosen: Dump, members: Sequence[NodeId]) -> None:
    source, world, began = cast.source, cast.world, cast.world.now()
    servers = source.sample(cast.left, source.choice((1, 3)) if len(cast.left) > 2 else 1)
    done = False
    seats = members if source.random() < 0.7 else cast.left
    with trio.move_on_after(REVIVED_SECONDS):
        async with cast.cluster.client("later", node=_LATER, members=seats) as client:
            later = Actor(cast.stage, client, client.random, "l")
            await _extend(later, servers, servers[0])
            while not await attempt(later.append(2)):
                await trio.sleep(0.2)
            for (
                segment
            ) in chosen.register.chain.segments:  # what was acknowledged there is read, wherever enough copies are left
                holders = decode_native(segment.config).servers
                if 2 * len([holder for holder in holders if holder in cast.left]) > len(holders):
                    await _read(later, segment.start, cast.stage.tail if segment.stop is None else segment.stop)
            done = True
    world.demanded("revived", world.now() - began)
    if not done:
        cast.fail("progress", f"the log does not go on, or cannot be read, {REVIVED_SECONDS:g} s after an import")


async def _read(actor: Actor, start: int, stop: int) -> None:
    """Until all of it has been read."""
    at = start
    while at < stop:
        try:
            at = await actor.read(at, stop, 1 << 20)
        except VirtualLogError:
            await trio.sleep(0.2)


async def _import_late(cast: RecoveryRoles, chosen: Dump, members: Sequence[NodeId]) -> None:
    """The same import, when the new cluster has decided something: it must not undo that."""
    node = cast.source.choice(cast.left)
    cast.cluster.machines[node].crash(power=cast.source.random() < 0.5)
    await _import(cast, node, chosen, members)
    cast.cluster.machines[node].start()


# -- Small things -----------------------------------------------------------------------------------------------------


async def _extend(actor: Actor, servers: Sequence[NodeId], sequencer: NodeId, times: int = 20) -> None:
    """Continue the log on these servers, if that is decided within a while."""
    settings = {"servers": ",".join(map(str, sorted(servers))), "sequencer": str(sequencer)}
    change = partial(actor.client.log.reconfig_extend, "native", settings)
    with trio.move_on_after(8.0):
        for _ in range(times):
            if await attempt(actor.change(ExtendChange("native", f"sequencer={sequencer}"), change())):
                return
            await trio.sleep(0.2)


@attrs.frozen
class _Turn:
    """A change of the table of nodes and of nothing else: a node is used for nothing any more."""

    node: NodeId

    def amend(self, register: Register) -> Register | None:
        entry = attrs.evolve(register.nodes[self.node], roles=frozenset())
        return register.with_nodes({**register.nodes, self.node: entry})


def _cut(world: World, one: NodeId, others: Sequence[NodeId]) -> None:
    for other in others:
        if other != one:
            world.network.link(one, other).blocked = world.network.link(other, one).blocked = True


def _some(source: random.Random, files: Sequence[Dump]) -> Sequence[Dump]:
    return source.sample(files, min(len(files), source.choice((0, 1, 2))))


REVIVED: Final = Scenario(
    name="revived",
    about="a majority of the MetaStore is lost for good, and what is left goes on from an exported register",
    story=_story,
    limit_seconds=400.0,
)
