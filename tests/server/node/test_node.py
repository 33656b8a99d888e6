"""Nodes composed of simulated ports: first start, failing roles, what a status says."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from tests.server.node.world import PEERS, FragileProvider, World, make_world, register_of, until
from tests.virtuallog.client.world import NoServices
from tests.virtuallog.rpc.world import TrioClock
from virtuallog.admin.cluster_status import ANSWER_SECONDS
from virtuallog.admin.control import PrefixTrim, ReconfigExtend, SealLog, Setting
from virtuallog.contract.chain import genesis
from virtuallog.contract.errors import (
    InvalidSettingError,
    UnavailableError,
    UnknownKindError,
    WrongRecipientError,
)
from virtuallog.contract.register import ClusterId, Register, decode_untrusted
from virtuallog.contract.types import LogPosition, NodeId, Sealed
from virtuallog.runtime.clock import SystemClock
from virtuallog.testing.memory_metastore import MemoryMetaStore
from virtuallog.testing.sim.disk import Disk
from virtuallog_loglets.archive.restored_origin import Origin
from virtuallog_loglets.paxos.provider import PaxosProvider
from virtuallog_server.config.node_config import NodeConfig
from virtuallog_server.node.bootstrap import bootstrap
from virtuallog_server.storage.identity import Identity


async def test_several_nodes_started_at_once_agree_on_one_cluster(world: World, autojump_clock: MockClock) -> None:
    """All propose version 1; one wins, all adopt it, and it lists all nodes with their addresses."""
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


@pytest.mark.parametrize("late_seconds", [0.1, 1.0, 4.0])
async def test_a_first_start_waits_little_longer_than_for_its_slowest_node(
    world: World, autojump_clock: MockClock, late_seconds: float
) -> None:
    """Nodes that are up ask again soon at first, then less often: after a third of the time that they have waited, half more by chance.
    The question that the late node has missed ends first; then come the second phase and a proposal.
    """
    clock = TrioClock()
    early = [await world.start(node) for node in (1, 2)]
    await clock.sleep(late_seconds)
    began = clock.monotonic()
    nodes = [*early, await world.start(3)]
    await until(lambda: all(node.identity.cluster for node in nodes))

    assert clock.monotonic() - began < ANSWER_SECONDS + 0.5 * late_seconds + 0.3


async def test_a_restored_cluster_begins_where_its_origin_says(world: World, autojump_clock: MockClock) -> None:
    """The restore decided its id and its first position, for any first node. The log continues there; positions below are
    trimmed. Started again, no node reads the origin, which may be gone.
    """
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
    """The first of them was started without the origin, and was faster: an empty log. A node with the origin ends, with the reason."""
    origin = Origin(cluster=ClusterId(b"r" * 16), position=LogPosition(4711))
    with pytest.raises(WrongRecipientError, match=origin.cluster.hex()):
        await bootstrap(
            NodeConfig(id=2, data=Path(), peers=PEERS), await decided_register(), {}, NoServices(), SystemClock(),
            random.Random(1), origin,
        )  # fmt: skip


async def test_an_origin_is_claimed_before_anything_is_proposed(world: World, autojump_clock: MockClock) -> None:
    """The claim is for the data directories of all three, from any proposer. While its place is away no node proposes; without an origin none claims."""
    origin = Origin(cluster=ClusterId(b"r" * 16), position=LogPosition(4711))
    nodes = [await world.start(node, origin=origin) for node in (1, 2, 3)]
    await until(lambda: all(node.identity.cluster for node in nodes))
    stores = {NodeId(number): node.identity.store_id for number, node in enumerate(nodes, 1)}
    assert len(world.claims) > 2
    assert {tuple(sorted(claimed.items())) for claimed, _ in world.claims} == {tuple(stores.items())}
    assert [decided for _, decided in world.claims[:3]] == [0, 0, 0]


async def decided_register() -> MemoryMetaStore:
    """The register of a cluster that has begun by itself."""
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
    """Two of three are killed at their first start, while the stores of their replicas are being made. No node relies on these
    before they are there, so none of them is lost: the first loglet can be sealed, as all three replicas vote.
    """
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


async def test_bad_wishes_are_refused_with_their_reason(world: World, autojump_clock: MockClock) -> None:
    """An unknown kind or setting changes nothing, and the client learns which it was."""
    nodes = [await world.start(node) for node in (1, 2, 3)]
    await until(lambda: all(node.identity.cluster for node in nodes))

    with pytest.raises(UnknownKindError, match="no loglet kind 'raft'"):
        await world.client().call(NodeId(1), ReconfigExtend(kind="raft", settings=()), 5)
    with pytest.raises(InvalidSettingError, match="colour"):
        await world.client().call(NodeId(1), ReconfigExtend(kind="memory", settings=(Setting("colour", "red"),)), 5)
    assert register_of(await world.status(1)).version == 1


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
