"""Nodes composed of simulated ports: first start, failing roles, what a status says."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.virtuallog.worlds import NoServices
from virtuallog.api import LogletProvider
from virtuallog.chain import SegmentId, genesis
from virtuallog.clock import SystemClock
from virtuallog.cluster_file import NodeAddress
from virtuallog.control import GetStatus, NodeStatus, PrefixTrim, ReconfigExtend, SealLog, Setting
from virtuallog.errors import (
    CorruptionError,
    DiskFullError,
    InvalidSettingError,
    SealedError,
    UnavailableError,
    UnknownKindError,
    WrongRecipientError,
)
from virtuallog.ports import Environment, Handlers, KeyValues, NodeEnvironment, Request
from virtuallog.register import ClusterId, Register, decode_untrusted
from virtuallog.rpc.interface import Interface, Method
from virtuallog.survey import survey
from virtuallog.testing.clock import SimulatedClock
from virtuallog.testing.key_values import SimulatedKeyValuesDisk
from virtuallog.testing.memory_metastore import MemoryMetaStore
from virtuallog.testing.network import SimulatedNetwork, SimulatedServices
from virtuallog.testing.process import CrashedError, Process
from virtuallog.testing.storage import Disk
from virtuallog.testing.timeline import Timeline
from virtuallog.types import LogPosition, NodeId, Open, Sealed
from virtuallog_loglets.archive.origin import Origin
from virtuallog_loglets.memory import MemoryProvider
from virtuallog_loglets.paxos.provider import PaxosProvider
from virtuallog_server.bootstrap import bootstrap
from virtuallog_server.config import NodeConfig
from virtuallog_server.database.role import STORE
from virtuallog_server.identity import Identity
from virtuallog_server.node import Node, NodePorts
from virtuallog_simulation.world.store_disk import SimulatedDirectory, StoreDisk


@attrs.define
class SharedMetaStore:
    """A MetaStoreProvider whose register all nodes of a test share."""

    register: MemoryMetaStore = attrs.field(factory=MemoryMetaStore)
    interfaces: Sequence[Interface] = ()

    def open(self, members: Sequence[NodeId], environment: Environment) -> MemoryMetaStore:
        return self.register

    async def serve(self, members: Sequence[NodeId], environment: NodeEnvironment) -> Handlers:
        return {}


@attrs.frozen
class Pong:
    """The reply to a Ping."""


@attrs.frozen
class Ping(Request[Pong]):
    """What `FragileProvider` serves."""


@attrs.define
class FragileProvider(MemoryProvider):
    """A kind whose role opens, or does not, and breaks when told to."""

    kind: str = "fragile"
    corrupt: bool = False
    opening_seconds: float = 0.0
    forgotten: list[int] = attrs.field(factory=list)
    environment: NodeEnvironment | None = None
    interfaces: Sequence[Interface] = (
        Interface(schema=None, methods=(Method(name="ping", request=Ping, reply=Pong),)),
    )

    async def serve(self, environment: NodeEnvironment) -> Handlers:
        if self.corrupt:
            raise CorruptionError("a bad block")
        await environment.clock.sleep(self.opening_seconds)
        self.environment = environment
        return {Ping: lambda request, done: done(Pong())}

    async def forget(self, lowest_live_version: int) -> None:
        self.forgotten.append(lowest_live_version)


PEERS = tuple(NodeAddress(id=node, address=f"127.0.0.1:{7000 + node}") for node in (1, 2, 3))
CLIENT = NodeId(99)


@attrs.define
class World:
    """Three disks, one network, one register."""

    network: SimulatedNetwork
    nursery: trio.Nursery
    random: random.Random = attrs.field(factory=lambda: random.Random(7))
    metastore: SharedMetaStore = attrs.field(factory=SharedMetaStore)
    memory: MemoryProvider = attrs.field(factory=MemoryProvider)
    disks: dict[int, Disk] = attrs.field(factory=dict)
    stores: dict[int, SimulatedKeyValuesDisk] = attrs.field(factory=dict)
    replicas: dict[int, StoreDisk] = attrs.field(factory=dict)
    """Of databases."""
    opening_seconds: float = 0.0
    """How long it takes to open a store."""
    processes: dict[int, tuple[Process, trio.CancelScope]] = attrs.field(factory=dict)
    boots: int = 0
    origins_read: int = 0
    claims: list[tuple[Mapping[NodeId, bytes], int]] = attrs.field(factory=list)
    """Of the origin: for which data directories, and how many registers there were."""

    async def start(
        self,
        node: int,
        *others: LogletProvider,
        config: Mapping[str, Any] | None = None,
        origin: Origin | None = None,
    ) -> Node:
        """Start a node, on the disk that it left behind; if that is new, with what was restored for it."""
        self.boots += 1
        process = Process(NodeId(node), self.boots)
        clock = SimulatedClock(process)
        storage = self.disks.setdefault(node, Disk(self.random)).mount()

        async def key_values(role: str) -> KeyValues:
            assert role == "paxos"
            await clock.sleep(self.opening_seconds)
            return self.stores.setdefault(node, SimulatedKeyValuesDisk(self.random)).open(process, clock)

        async def no_storage(role: str) -> Any:
            raise AssertionError(role)

        async def local_store(role: str) -> SimulatedDirectory:
            disk = self.replicas.setdefault(node, StoreDisk(random=self.random))
            return SimulatedDirectory.of(disk, process, clock)

        async def restored() -> Origin | None:
            self.origins_read += 1
            return origin

        async def claim(stores: Mapping[NodeId, bytes]) -> None:
            self.claims.append((stores, len(self.metastore.register.values)))
            if len(self.claims) <= 2:
                raise UnavailableError("the place is away")

        ports = NodePorts(
            services=self.network.services(process, clock),
            clock=clock,
            random=random.Random(self.random.random()),
            storage=no_storage,
            key_values=key_values,
            local_store=local_store,
            stores_present=[("stores", STORE)] if node in self.replicas and self.replicas[node].content.pairs else [],
            origin=restored,
            claim_origin=claim,
        )
        made = Node(
            ports,
            NodeConfig(
                **{
                    "id": node,
                    "data": Path(),
                    "listen": f"127.0.0.1:{7000 + node}",
                    "peers": PEERS,
                    "loglet": "memory",
                    **(config or {}),
                }
            ),
            await Identity.open(storage, NodeId(node)),
            providers={"memory": self.memory, **{provider.kind: provider for provider in others}},
            metastore=self.metastore,
        )
        self.network.listen(process, made.handlers)
        scope = trio.CancelScope()
        self.processes[node] = process, scope
        await self.nursery.start(self._run, made, scope)
        return made

    async def _run(self, node: Node, scope: trio.CancelScope, *, task_status: trio.TaskStatus[None]) -> None:
        try:
            with scope:
                await node.run(task_status=task_status)
        except* CrashedError:
            assert scope.cancel_called  # a store is flushed in the end, and this one is dead

    def stop(self, node: int) -> None:
        """Pull the plug."""
        process, scope = self.processes.pop(node)
        process.crash()
        scope.cancel()
        self.disks[node].crash()
        if node in self.replicas:
            self.replicas[node].crash()

    def client(self) -> SimulatedServices:
        process = Process(CLIENT)
        return self.network.services(process, SimulatedClock(process))

    async def status(self, node: int) -> NodeStatus:
        return await self.client().call(NodeId(node), GetStatus(), 5)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made:
        yield made


@asynccontextmanager
async def make_world() -> AsyncIterator[World]:
    timeline = Timeline()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timeline.run)
        yield World(SimulatedNetwork(timeline, random.Random(3)), nursery)
        nursery.cancel_scope.cancel()


async def until(condition: Callable[[], bool]) -> None:
    """Let the world go on until something holds; a minute of its time is more than anything needs."""
    with trio.fail_after(60):  # noqa: TID251 -- simulated time
        while not condition():
            await trio.sleep(0.05)  # noqa: TID251 -- simulated time


def register_of(status: NodeStatus) -> Register:
    return decode_untrusted(status.register)


async def test_several_nodes_started_at_once_agree_on_one_cluster(world: World, autojump_clock: MockClock) -> None:
    """All propose version 1; one wins, all adopt it, and it says who and where everybody is."""
    nodes = [await world.start(node) for node in (1, 2, 3)]
    await until(lambda: all(node.identity.cluster for node in nodes))

    statuses = [await world.status(node) for node in (1, 2, 3)]
    assert len({status.register for status in statuses}) == 1
    register = register_of(statuses[0])
    assert register.version == 1
    assert register.members == (1, 2, 3)
    assert register.chain.last.kind == "memory"
    assert {node: entry.addresses for node, entry in register.nodes.items()} == {p.id: (p.address,) for p in PEERS}
    assert [register.nodes[NodeId(status.node)].store_id for status in statuses] == [s.store_id for s in statuses]
    assert all(status.cluster == register.cluster and not status.failures for status in statuses)
    assert statuses[0].roles == ("sequencer", "log-server", "replica", "metastore")


async def test_a_restored_cluster_begins_where_its_origin_says(world: World, autojump_clock: MockClock) -> None:
    """Its id and its first position were decided by the restore, whoever of the nodes is first. The log goes on there; what is below is
    trimmed. Started again, nobody asks for the origin, which may be gone."""
    origin = Origin(cluster=ClusterId(b"r" * 16), position=LogPosition(4711))
    nodes = [await world.start(node, origin=origin) for node in (1, 2, 3)]
    await until(lambda: all(node.identity.cluster for node in nodes))

    register = register_of(await world.status(2))
    assert register.cluster == origin.cluster
    assert [(segment.start, segment.stop) for segment in register.chain.segments] == [(4711, None)]
    log = nodes[0].virtual_log
    assert log is not None
    assert await log.append(b"a") == 4711 == await log.find_trim_point()

    world.stop(1)
    asked = world.origins_read
    again = await world.start(1)
    await until(lambda: again.virtual_log is not None)
    assert world.origins_read == asked


async def test_a_cluster_that_began_without_its_origin_is_refused(world: World) -> None:
    """The first of them was started without it, and was faster: an empty log. Whoever knows better ends, and says why."""
    origin = Origin(cluster=ClusterId(b"r" * 16), position=LogPosition(4711))
    with pytest.raises(WrongRecipientError, match=origin.cluster.hex()):
        await bootstrap(
            NodeConfig(id=2, data=Path(), peers=PEERS), await decided_register(), {}, NoServices(), SystemClock(),
            random.Random(1), origin,
        )  # fmt: skip


async def test_an_origin_is_claimed_before_anything_is_proposed(world: World, autojump_clock: MockClock) -> None:
    """For the data directories of all three, whoever proposes. While its place is away nobody proposes; without an origin nobody claims."""
    origin = Origin(cluster=ClusterId(b"r" * 16), position=LogPosition(4711))
    nodes = [await world.start(node, origin=origin) for node in (1, 2, 3)]
    await until(lambda: all(node.identity.cluster for node in nodes))
    stores = {NodeId(number): node.identity.store_id for number, node in enumerate(nodes, 1)}
    assert len(world.claims) > 2
    assert {tuple(sorted(claimed.items())) for claimed, _ in world.claims} == {tuple(stores.items())}
    assert [decided for _, decided in world.claims[:3]] == [0, 0, 0]


async def decided_register() -> MemoryMetaStore:
    """Of a cluster that has begun by itself."""
    metastore = MemoryMetaStore()
    first = Register(cluster=ClusterId(b"o" * 16), chain=genesis("memory", b"", 1), members=(NodeId(1),), nodes={})
    await metastore.put(first.encode(), 0, 1)
    return metastore


async def test_nobody_votes_before_everybody_has_answered(world: World, autojump_clock: MockClock) -> None:
    """Two of three are not enough for a first start, though they are a majority; they say what they wait for."""
    await world.start(1)
    await world.start(2)
    await trio.sleep(20)  # noqa: TID251 -- simulated time

    status = await world.status(1)
    assert status.phase == "unformatted"
    assert status.failures == ("identity: no answer from node 3; all nodes must answer at the first start",)
    assert world.metastore.register.values == []

    last = await world.start(3)
    await until(lambda: last.identity.cluster is not None)


async def test_whoever_dies_before_it_has_stores_is_still_new(world: World, autojump_clock: MockClock) -> None:
    """Two of three are killed at their first start, while the stores of their replicas are being made. Nobody counts on these
    before they are there, so none of them is lost: the first loglet can be sealed, as all three replicas vote."""
    world.opening_seconds = 5.0
    nodes = [await world.start(node, PaxosProvider(), config={"loglet": "paxos"}) for node in (1, 2, 3)]
    await trio.sleep(4)  # noqa: TID251 -- simulated time
    world.stop(2)
    world.stop(3)
    await trio.sleep(4)  # noqa: TID251 -- simulated time
    assert list(world.stores) == [1]

    nodes[1:] = [await world.start(node, PaxosProvider(), config={"loglet": "paxos"}) for node in (2, 3)]
    await until(lambda: all(node.virtual_log is not None for node in nodes))
    with trio.fail_after(60):  # noqa: TID251 -- simulated time
        changed = await world.client().call(NodeId(2), SealLog(), 60)
    assert [segment.stop for segment in decode_untrusted(changed.register).chain.segments] == [0]


async def test_a_wiped_disk_stays_out(world: World, autojump_clock: MockClock) -> None:
    """A node that lost its disk does not take part again by itself, and its status says why."""
    nodes = [await world.start(node) for node in (1, 2, 3)]
    await until(lambda: all(node.identity.cluster for node in nodes))

    world.stop(3)
    world.disks[3].wipe()
    await world.start(3)
    await trio.sleep(30)  # noqa: TID251 -- simulated time

    status = await world.status(3)
    assert (status.phase, status.roles) == ("unformatted", ())
    assert "a disk was lost or the path is wrong" in status.failures[0]
    with pytest.raises(UnavailableError, match="not part of a cluster yet"):
        await world.client().call(NodeId(3), SealLog(), 5)


async def test_a_restarted_node_is_the_same_with_a_higher_boot(world: World, autojump_clock: MockClock) -> None:
    """A kill leaves the identity on disk; peers need not be there for a second start."""
    nodes = [await world.start(node) for node in (1, 2, 3)]
    await until(lambda: all(node.identity.cluster for node in nodes))
    before = await world.status(1)
    for node in (1, 2, 3):
        world.stop(node)

    again = await world.start(1)
    await until(lambda: again.virtual_log is not None)
    after = await world.status(1)
    assert (after.store_id, after.cluster, after.boot) == (before.store_id, before.cluster, before.boot + 1)


async def test_a_role_that_cannot_open_is_refused_and_the_node_lives_on(
    world: World, autojump_clock: MockClock
) -> None:
    """Corruption in one role: its callers get the reason, operators see it, planners stop using the node."""
    nodes = [await world.start(1, FragileProvider(corrupt=True)), await world.start(2), await world.start(3)]
    await until(lambda: all(node.identity.cluster for node in nodes))

    status = await world.status(1)
    assert status.failures == ("fragile: a bad block",)
    assert status.roles == ("metastore",)
    with pytest.raises(CorruptionError, match="a bad block"):
        await world.client().call(NodeId(1), Ping(), 5)
    assert nodes[0].virtual_log is not None
    assert isinstance(await nodes[0].virtual_log.check_tail(), Open)


async def test_a_role_that_fails_later_is_closed(world: World, autojump_clock: MockClock) -> None:
    """`environment.fail` closes the role for good and cancels what it has running; the rest goes on."""
    fragile = FragileProvider()
    nodes = [await world.start(1, fragile), await world.start(2), await world.start(3)]
    await until(lambda: fragile.environment is not None)
    assert await world.client().call(NodeId(1), Ping(), 5) == Pong()
    assert fragile.environment is not None
    ended = trio.Event()

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    fragile.environment.nursery.start_soon(work)
    fragile.environment.fail(CorruptionError("rot"))
    await ended.wait()

    with pytest.raises(CorruptionError, match="rot"):
        await world.client().call(NodeId(1), Ping(), 5)
    assert (await world.status(1)).failures == ("fragile: rot",)
    await until(lambda: all(node.identity.cluster for node in nodes))


async def test_a_node_that_has_lost_a_role_is_planned_with_as_a_dead_one(
    world: World, autojump_clock: MockClock
) -> None:
    """It keeps its place among the candidates: a planner must not take it for a smaller cluster, with fewer copies."""
    fragile = FragileProvider()
    nodes = [await world.start(1, fragile), await world.start(2), await world.start(3)]
    await until(lambda: all(node.identity.cluster for node in nodes))
    assert fragile.environment is not None
    fragile.environment.fail(CorruptionError("rot"))
    world.stop(2)

    register = register_of(await world.status(1))
    cluster = await survey(world.client(), register, NodeId(3))
    assert [(member.node, member.alive) for member in cluster.members] == [(1, False), (2, False), (3, True)]
    assert all("log-server" in member.roles for member in cluster.members)


async def test_a_role_task_that_raises_closes_only_its_role(world: World, autojump_clock: MockClock) -> None:
    """A task of a role that dies of a disk error does not take the node with it."""
    fragile = FragileProvider()
    await world.start(1, fragile)
    await world.start(2)
    await world.start(3)
    await until(lambda: fragile.environment is not None)
    assert fragile.environment is not None

    async def die() -> None:
        raise CorruptionError("in the background")

    fragile.environment.nursery.start_soon(die)
    await trio.sleep(1)  # noqa: TID251 -- simulated time

    assert (await world.status(1)).failures == ("fragile: in the background",)


async def test_a_request_before_the_role_is_open_is_unknown(world: World, autojump_clock: MockClock) -> None:
    """Handlers exist from the start; before the directory is formatted they ask for a retry."""
    await world.start(1, FragileProvider())

    with pytest.raises(UnavailableError, match="fragile is not ready"):
        await world.client().call(NodeId(1), Ping(), 5)


async def test_changes_of_the_chain_are_made_by_the_node(world: World, autojump_clock: MockClock) -> None:
    """Extend, trim and seal on request; the entries stay, dropped segments are forgotten by every provider."""
    fragile = FragileProvider()
    nodes = [await world.start(1, fragile), await world.start(2, FragileProvider()), await world.start(3)]
    await until(lambda: all(node.identity.cluster for node in nodes))
    own, client = nodes[0].virtual_log, world.client()
    assert own is not None
    await own.append_many([b"a", b"b"])

    changed = await client.call(NodeId(2), ReconfigExtend(kind="memory", settings=()), 5)
    assert [segment.start for segment in decode_untrusted(changed.register).chain.segments] == [0, 2]
    await own.append(b"c")
    assert (await client.call(NodeId(1), PrefixTrim(position=2), 5)).position == 2
    await until(lambda: fragile.forgotten == [1, 2])

    sealed = await client.call(NodeId(3), SealLog(), 5)
    assert decode_untrusted(sealed.register).chain.active is None
    assert await own.check_tail() == Sealed(3)


async def test_a_role_that_begins_anew_forgets_what_was_dropped_meanwhile(
    world: World, autojump_clock: MockClock
) -> None:
    """It was closed for a moment when the chain got shorter, and nothing changes in the chain after that."""
    fragile = FragileProvider()
    nodes = [await world.start(1, fragile), await world.start(2), await world.start(3)]
    await until(lambda: all(node.identity.cluster for node in nodes))
    own, client = nodes[0].virtual_log, world.client()
    assert own is not None
    assert fragile.environment is not None
    await own.append(b"a")
    fragile.opening_seconds = 5.0
    fragile.environment.fail(DiskFullError("not a byte"))

    await client.call(NodeId(2), ReconfigExtend(kind="memory", settings=()), 5)
    assert (await client.call(NodeId(2), PrefixTrim(position=1), 5)).position == 1
    await until(lambda: nodes[0].is_open("fragile"))
    await until(lambda: 2 in fragile.forgotten)


async def test_bad_wishes_are_refused_with_their_reason(world: World, autojump_clock: MockClock) -> None:
    """An unknown kind or setting changes nothing, and the client learns which it was."""
    nodes = [await world.start(node) for node in (1, 2, 3)]
    await until(lambda: all(node.identity.cluster for node in nodes))

    with pytest.raises(UnknownKindError, match="no loglet kind 'raft'"):
        await world.client().call(NodeId(1), ReconfigExtend(kind="raft", settings=()), 5)
    with pytest.raises(InvalidSettingError, match="colour"):
        await world.client().call(NodeId(1), ReconfigExtend(kind="memory", settings=(Setting("colour", "red"),)), 5)
    assert register_of(await world.status(1)).version == 1


async def test_a_role_can_look_up_its_segments(world: World, autojump_clock: MockClock) -> None:
    """`segment_config` answers from the decided chain only: a segment that is not in it does not exist."""
    nodes = [await world.start(node) for node in (1, 2, 3)]
    await until(lambda: all(node.identity.cluster for node in nodes))
    segment = register_of(await world.status(1)).chain.last

    assert await nodes[1].segment_config(segment.id) == ("memory", b"")
    with pytest.raises(SealedError, match="is not in the chain"):
        await nodes[1].segment_config(SegmentId(1, segment.id.attempt + 1))


async def test_a_data_directory_of_another_cluster_ends_the_node(world: World, autojump_clock: MockClock) -> None:
    """Two clusters must not be mixed: the node stops with an error that says so."""
    disk = world.disks[1] = Disk(world.random)
    identity = await Identity.open(disk.mount(), NodeId(1))
    await identity.start_formatting(world.random)
    await identity.finish_formatting()
    await identity.join(ClusterId(b"x" * 16))
    disk.crash()

    foreign = pytest.RaisesExc(WrongRecipientError, match=f"found {(b'x' * 16).hex()}")
    with pytest.RaisesGroup(foreign, flatten_subgroups=True):
        async with make_world() as own:
            own.disks[1] = disk
            await own.start(1, config={"peers": PEERS[:1]})
            await trio.sleep(30)  # noqa: TID251 -- simulated time
    disk.crash()
    assert (await Identity.open(disk.mount(), NodeId(1))).cluster == b"x" * 16, "it still belongs to the other one"


async def test_a_first_loglet_of_an_unknown_kind_is_refused_at_once(world: World, autojump_clock: MockClock) -> None:
    """A typo in `loglet` does not wait for the bootstrap."""
    with pytest.raises(UnknownKindError, match="no loglet kind 'nativ'"):
        await world.start(1, config={"loglet": "nativ"})
