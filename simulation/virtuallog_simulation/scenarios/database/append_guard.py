"""Programs with the certificate of a client append to the log of a database: what engines would, and garbage.

A run draws how the cluster came about:

    fresh       its nodes served the database from the first version of the register on, so the log was guarded before its first entry
    upgraded    the nodes spoke a former version of the protocol, under a database; then each begins anew with the present one
    mixed       the same, and some program has appended entries of its own to the log: the guard is refused, with a reason, and the
                program goes on. Then an operator puts the guard all the same

While a log is open strangers append what no database would write, and what a later version might. Once it is guarded they also forge
what engines write: heartbeats, reports, raw writes. Meanwhile members write, loglets are swapped, nodes stand still and begin anew. In the
end the log is read, and the replicas must be well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Final, Literal, TypeAlias

import attrs
import trio

from virtuallog.client.scan import scan
from virtuallog.contract.caller_roles import Principal, Role
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import LogPosition, NodeId, PlacedBatch
from virtuallog.contract.versions import GUARDED
from virtuallog.testing.checker.violation import Violation
from virtuallog_database.client import DatabaseClient, DatabaseHandle, NoNodeError
from virtuallog_database.engines.brain_doctor import BrainDoctorEngine
from virtuallog_database.engines.checksums import ChecksumEngine, Report
from virtuallog_database.engines.core.entry import PROPOSER, Entry
from virtuallog_database.engines.view_tracking import Heartbeat, ViewTrackingEngine
from virtuallog_database.snapshots.policy import SnapshotSettings
from virtuallog_loglets.paxos.provider import PaxosProvider
from virtuallog_loglets.striped.provider import StripedProvider
from virtuallog_server.config.zookeeper_settings import ZooKeeperSettings
from virtuallog_server.database.ownership import put_guard
from virtuallog_server.node.node import Node
from virtuallog_simulation.checks.database.append_guard import ForeignAppend, GuardReport, append_guard_checks
from virtuallog_simulation.checks.database.replicas import REPLICA_CHECKS, StateWatch
from virtuallog_simulation.scenarios.cluster import load as main
from virtuallog_simulation.scenarios.database.servers import OptionalEngines
from virtuallog_simulation.scenarios.database.witness import Witness
from virtuallog_simulation.world.cluster import Cluster, ClusterPlan, ProviderMaker
from virtuallog_simulation.world.machine import MachinePorts
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.transport import CALLS, Calls
from virtuallog_simulation.world.world import World

FIRST_STRANGER: Final = 2000
START_SECONDS: Final = 40.0
"""Within so long a cluster serves the database, also after all its nodes were upgraded."""
GUARD_SECONDS: Final = 60.0
"""Seconds after an upgrade within which the log is guarded, or the reason against it is reported."""
LOAD_SECONDS: Final = 2.0
PEACE_SECONDS: Final = 2.0
PATIENCE_SECONDS: Final = 3.0
SWAPS_MAX: Final = 15
"""Extensions of the chain in a run: the log is never trimmed, and the small WALs of the simulator hold snapshots of some 60 loglets."""
Begun: TypeAlias = Literal["fresh", "upgraded", "mixed"]
PREFIX: Final = "intruders: "
REFUSED: Final = PREFIX + "appends refused"
TAKEN: Final = PREFIX + "appends taken while the log was open"
FORGED: Final = PREFIX + "forged entries offered"
BEGUN: Final = tuple(f"{PREFIX}{how}" for how in ("fresh", "upgraded", "mixed"))
LOOKED: Final = (REFUSED, TAKEN, FORGED, *BEGUN)


@attrs.define(eq=False)
class _Run:
    world: World
    cluster: Cluster
    random: Random
    begun: Begun
    engines: OptionalEngines
    witness: Witness
    attempts: list[ForeignAppend] = attrs.field(factory=list)
    access: dict[NodeId, DatabaseHandle] = attrs.field(factory=dict)
    """Access to the database in the present life of each node."""
    names: dict[NodeId, str] = attrs.field(factory=dict)
    """Names of replicas, in the present life of each node."""
    members: set[str] = attrs.field(factory=set)
    """Names of replicas, in all lives."""
    written: dict[str, int] = attrs.field(factory=dict)
    """Acknowledged by members, by the path."""
    is_hostile: bool = False
    """Strangers forge what engines write."""
    numbers: int = 0
    upgraded_at: float = math.inf
    """Time at which the first node was stopped for the upgrade."""

    # -- nodes ----------------------------------------------------------------------------------------------------

    def protocol(self, node: NodeId) -> int:
        return 0 if self.begun == "fresh" else GUARDED - 1

    def prepare(self, node: Node, ports: MachinePorts, nursery: trio.Nursery) -> None:
        assert node.database is not None
        number, process = node.identity.node, ports.process
        # No snapshots: nothing allows trims, and what strangers have got into the log is there in the end.
        never = SnapshotSettings(log_bytes=1 << 40, seconds=1e6, seconds_min=1e6)
        node.database.settings = attrs.evolve(self.engines.settings(number, self.witness), snapshots=never)
        self.access[number] = access = DatabaseHandle(
            clock=ports.clock, random=self.world.random(f"member {number}.{process.boot}")
        )

        def begin(life: object) -> None:
            assert node.database is not None and node.database.life is not None
            self.names[number] = name = node.database.life.replica.identity.name
            self.members.add(name)
            access.begin(node.database.life.database)

        node.database.on_life = begin

    async def upgrade(self) -> None:
        """Each node begins anew, with the present version of the protocol."""
        nodes, self.upgraded_at = [*self.cluster.nodes], self.world.now()
        self.random.shuffle(nodes)
        for node in nodes:
            machine = self.cluster.machines[node]
            machine.crash(power=self.random.random() < 0.5)
            self.cluster.write_file(node, attrs.evolve(self.cluster.started[node], protocol=0))
            await trio.sleep(self.random.choice((0.1, 1.0)))
            machine.start()
            await trio.sleep(self.random.choice((0.5, 2.0)))

    async def disturb(self) -> None:
        """Nodes stand still for a while, so that some know an older register than others; loglets are swapped."""
        swaps = 0
        async with self.cluster.client("operator") as client:
            while True:
                await trio.sleep(self.random.expovariate(1 / 0.7))
                if self.random.random() < 0.5 or swaps == SWAPS_MAX:
                    machine = self.cluster.machines[self.random.choice(self.cluster.nodes)]
                    machine.pause()
                    await trio.sleep(self.random.choice((0.2, 1.0)))
                    machine.resume()
                else:
                    swaps += 1
                    kind = self.random.choice(self.cluster.kind_names)
                    with trio.move_on_after(PATIENCE_SECONDS), suppress(VirtualLogError):
                        await client.log.reconfig_extend(kind, {})

    # -- members --------------------------------------------------------------------------------------------------

    async def write(self) -> None:
        """Members write, each through the replica beside it."""
        while True:
            await trio.sleep(self.random.expovariate(1 / 0.15))
            await self.write_once(self.random.choice(self.cluster.nodes))

    async def write_once(self, node: NodeId) -> bool:
        if self.cluster.products[node].not_ready():
            return False
        self.numbers += 1
        path, value = f"/m{node}", self.numbers
        client = DatabaseClient(self.access[node])
        with trio.move_on_after(PATIENCE_SECONDS), suppress(VirtualLogError):
            try:
                await client.set(path, b"%d" % value)
            except NoNodeError:
                await client.create(path, b"%d" % value)
            self.written[path] = value
            return True
        return False

    # -- strangers ------------------------------------------------------------------------------------------------

    async def stray(self, number: int) -> None:
        """Append as a client for ever."""
        node, source = NodeId(FIRST_STRANGER + number), self.world.random(f"stranger {number}")
        transport = self.world.transport
        assert isinstance(transport, Calls)
        transport.owners[node] = Principal(cluster="simulated", role=Role.CLIENT, name=f"stranger-{number}")
        async with self.cluster.client("stranger", node=node) as client:
            while True:
                await trio.sleep(source.expovariate(1 / 0.08))
                self.numbers += 1
                tag = b" stranger %d.%d" % (number, self.numbers)
                attempt = ForeignAppend(self._payload(source, tag), self.world.now(), self.is_hostile)
                self.attempts.append(attempt)
                try:
                    with trio.move_on_after(PATIENCE_SECONDS):
                        attempt.position = await client.log.append(attempt.payload)
                except VirtualLogError as error:
                    attempt.error = error
                attempt.ended = self.world.now()

    def _payload(self, source: Random, tag: bytes) -> bytes:
        """Payload with an end that distinguishes it from all others."""
        foreign: bytes = source.choice((
            tag,
            b"VE\x02" + tag,
            b"VE\x09\x01" + source.randbytes(5) + tag,
            b"VE\x01\x05" + tag,
            b"VE\x00" + tag,
            Entry(tag, dict([source.choice(self._forged(source))])).encode(),
            source.randbytes(12) + tag,
        ))  # fmt: skip
        if not self.is_hostile or source.random() < 0.3:
            return foreign
        self.world.counts[FORGED] += 1
        headers = dict(source.choices(self._forged(source), k=source.choice((1, 1, 2))))
        return Entry(tag, {**headers, PROPOSER: source.randbytes(16)}).encode()

    def _forged(self, source: Random) -> list[tuple[str, bytes]]:
        name = source.choice([*self.names.values(), "9-made-up"])
        position = LogPosition(source.choice((0, 1 << 20, 1 << 40)))
        return [
            (ViewTrackingEngine.name, ViewTrackingEngine.vocabulary.encode(Heartbeat(name, position, ("x",)))),
            (ChecksumEngine.name, ChecksumEngine.vocabulary.encode(Report(position, name, {"keys": "00"}))),
            (BrainDoctorEngine.name, source.randbytes(20)),
            (source.choice(("view", "lease", "time", "rollout", "session_order")), source.randbytes(9)),
            (source.choice(("view", "lease")), b'[2,"Later",1]'),
        ]


async def tell(world: World) -> None:
    """Tell the story."""
    world.options = attrs.evolve(world.options, transport=CALLS)
    run = _prepare(world)
    run.world.counts[f"{PREFIX}{run.begun}"] += 1
    states = StateWatch(world.history, world.violations, world.counts)
    world.on_store_open, world.on_store_write = states.opened, states.wrote
    run.cluster.start()
    async with trio.open_nursery() as nursery:
        if await _serving(run, "the first start"):
            await _go_on(run, nursery)
        nursery.cancel_scope.cancel()
    world.check(*REPLICA_CHECKS)


def _prepare(world: World) -> _Run:
    source = world.random("plan")
    makers: list[ProviderMaker] = [main.native, PaxosProvider, StripedProvider]
    source.shuffle(makers)
    del makers[source.choice((1, 2)) :]
    if StripedProvider in makers and main.native not in makers:
        makers.append(main.native)
    cluster = Cluster(world, ClusterPlan(nodes=3, members=3, kinds=tuple(makers)), main.SETTINGS)
    begun: Begun = source.choice(("fresh", "upgraded", "mixed"))
    engines = OptionalEngines.draw(source, cluster.nodes)
    run = _Run(world, cluster, source, begun, engines, Witness(world.history, world.violations))
    cluster.zookeeper, cluster.on_node = ZooKeeperSettings(listen=""), run.prepare
    cluster.protocol = run.protocol
    return run


async def _go_on(run: _Run, nursery: trio.Nursery) -> None:
    world = run.world
    told: list[GuardReport] = []
    nursery.start_soon(run.write)
    for number in range(run.random.choice((1, 2, 3))):
        nursery.start_soon(_stray_later, run, number)
    if run.begun == "fresh":
        run.is_hostile = True
    async with trio.open_nursery() as disturbed:
        disturbed.start_soon(run.disturb)
        if run.begun != "fresh":
            await trio.sleep(run.random.choice((0.5, 1.5)))
            await run.upgrade()
            told = await _wait_guarded(run)
        await trio.sleep(LOAD_SECONDS)
        disturbed.cancel_scope.cancel()
    for machine in run.cluster.machines.values():
        machine.resume()
    await trio.sleep(PEACE_SECONDS)
    content, guarded_from = await _read(run)
    world.check(append_guard_checks(run.attempts, content, guarded_from, told, run.upgraded_at))
    if _is_disturbed(run) or not await _serving(run, "peace"):
        return
    for node in run.cluster.nodes:
        if not await run.write_once(node):
            world.violations.append(Violation("progress", f"the database of node {node} takes no write in peace"))
    await _judge_replicas(run)
    world.counts[REFUSED] += sum(attempt.was_refused for attempt in run.attempts)
    world.counts[TAKEN] += sum(attempt.position is not None for attempt in run.attempts)


async def _stray_later(run: _Run, number: int) -> None:
    """In an upgrade of a log that is the database's alone, strangers come about the time when it is
    guarded."""
    if run.begun == "upgraded":
        while not await _level_is_up(run):
            await trio.sleep(0.05)
        await trio.sleep(run.random.choice((0.0, 0.2, 2.0)))
    await run.stray(number)


async def _level_is_up(run: _Run) -> bool:
    registers = [log.view.cached for node in run.cluster.products.values() if (log := node.virtual_log)]
    return any(register is not None and register.level >= GUARDED for register in registers)


async def _wait_guarded(run: _Run) -> list[GuardReport]:
    """Return once the log is guarded; an operator guards it if the nodes have a reason not to.
    Returns the reasons they gave."""
    world, told = run.world, list[GuardReport]()
    async with run.cluster.client("administrator") as admin:
        with trio.move_on_after(GUARD_SECONDS):
            while True:
                await trio.sleep(0.2)
                if _is_disturbed(run):
                    return told
                with suppress(VirtualLogError):
                    register = await admin.log.view.refresh()
                    if register.is_guarded and not register.is_open_to_clients:
                        break
                    problems = [node.database.ownership.problem for node in run.cluster.products.values()
                                if node.database and node.database.ownership]  # fmt: skip
                    if not register.is_guarded and len(problems) == len(run.cluster.nodes) and all(problems):
                        told.append(GuardReport(world.now(), tuple(problems)))
                        await _guard_all_the_same(run)
                        break
            run.is_hostile = True
            return told
    world.violations.append(Violation("progress", f"the log is not guarded {GUARD_SECONDS:g} s after the upgrade"))
    return told


async def _guard_all_the_same(run: _Run) -> None:
    """Guard the log as `virtuallog database guard --despite-entries` does."""
    await trio.sleep(run.random.choice((0.5, 3.0)))  # meanwhile the program goes on
    async with run.cluster.client("administrator") as admin:
        while True:
            with suppress(VirtualLogError):
                await put_guard(admin.log, despite_foreign=True)
                return
            await trio.sleep(0.2)


async def _serving(run: _Run, since: str) -> bool:
    with trio.move_on_after(START_SECONDS):
        while len(run.cluster.products) < len(run.cluster.nodes) or any(
            node.not_ready() for node in run.cluster.products.values()
        ):
            await trio.sleep(0.1)
        return True
    waiting = {number: node.not_ready() for number, node in sorted(run.cluster.products.items())}
    run.world.violations.append(Violation("progress", f"not all serve {START_SECONDS:g} s after {since}: {waiting}"))
    return False


async def _read(run: _Run) -> tuple[Mapping[bytes, LogPosition], LogPosition | None]:
    """Every entry that the log has, and where the first segment begins that no client can append to."""
    content: dict[bytes, LogPosition] = {}
    async with run.cluster.client("judge") as client:
        tail = LogPosition((await client.log.check_tail()).tail)
        async for piece in scan(client.log, await client.log.find_trim_point(), tail, piece_bytes=1 << 20):
            for placed in piece:
                if isinstance(placed, PlacedBatch):
                    content.update((record.payload, record.position) for record in placed.records())
        register = await client.log.view.refresh()
    starts = [segment.start for segment in register.chain.segments if segment.id.version >= register.guarded]
    return content, min(starts) if register.is_guarded and starts else None


def _is_disturbed(run: _Run) -> bool:
    """True if a part of some node has failed, or if the view of some replica shows what no replica
    has announced."""
    found = []
    for number, node in sorted(run.cluster.products.items()):
        found += [f"node {number}: {role} has failed: {cause}" for role, cause in node.refusals.items()]
        life = None if node.database is None else node.database.life
        tracking = None if life is None else life.replica.stack.find(ViewTrackingEngine)
        if tracking is not None:
            made_up = set(tracking.members()) - run.members
            found += [
                f"node {number} shows {name!r} in the view, and no replica has that name" for name in sorted(made_up)
            ]
    told = {violation.message for violation in run.world.violations}
    run.world.violations.extend(Violation("members are not disturbed", each) for each in found if each not in told)
    return bool(found)


async def _judge_replicas(run: _Run) -> None:
    """Check that the writes of members are there, on every replica."""
    for node in run.cluster.nodes:
        client = DatabaseClient(run.access[node])
        for path, value in sorted(run.written.items()):
            with suppress(VirtualLogError), trio.move_on_after(PATIENCE_SECONDS):
                found = await client.get(path, linearizable=True)
                if int(found.data) < value:
                    message = f"node {node} shows {found.data!r} at {path}, and {value} was acknowledged"
                    run.world.violations.append(Violation("members are not disturbed", message))
    _is_disturbed(run)


INTRUDERS: Final = Scenario(
    name="intruders",
    about="programs with a client's certificate append to the log of a database, forged entries too, while it is upgraded",
    story=tell,
    limit_seconds=300.0,
)
