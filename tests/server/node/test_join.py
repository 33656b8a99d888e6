"""New directories that join a cluster that runs: only where the register expects one, and only one."""

from __future__ import annotations

import random

import attrs
import pytest
from trio.testing import MockClock

from tests.server.node.world import PEERS, World, register_of, until, world
from tests.virtuallog.contract.test_register import SMALL
from virtuallog.client.cluster_file import NodeAddress
from virtuallog.contract.errors import MalformedError
from virtuallog.contract.register import NodeEntry
from virtuallog.contract.types import NodeId
from virtuallog.reconfiguration.core.node_table import Expect, Forget
from virtuallog.reconfiguration.node_table_update import update_node_table
from virtuallog.testing.memory_metastore import MemoryMetaStore
from virtuallog.testing.sim.disk import Disk
from virtuallog_server.node.join import FreePlace, NoPlace, OwnPlace, join, place
from virtuallog_server.storage.identity import FormatPhase, Identity

__all__ = ["world"]
FOUR = NodeId(4)
FIVE_PEERS = (*PEERS, NodeAddress(id=4, address="127.0.0.1:7004"))


@pytest.mark.parametrize(
    ("entry", "own", "expected"),
    [
        (None, b"", "the cluster has no node 4"),
        (NodeEntry(store_id=b"", addresses=(), roles=frozenset()), b"", FreePlace()),
        (NodeEntry(store_id=b"", addresses=(), roles=frozenset()), b"mine", FreePlace()),
        (NodeEntry(store_id=b"mine", addresses=(), roles=frozenset(), joined=7), b"mine", OwnPlace(7)),
        (NodeEntry(store_id=b"other", addresses=(), roles=frozenset()), b"", "a disk was lost or the path is wrong"),
        (NodeEntry(store_id=b"other", addresses=(), roles=frozenset()), b"mine", "by another data directory"),
    ],
)
def test_the_place_of_a_directory(entry: NodeEntry | None, own: bytes, expected: FreePlace | OwnPlace | str) -> None:
    """The register decides: a free place, ours, or another directory's; peers, time and addresses do not matter."""
    register = SMALL if entry is None else attrs.evolve(SMALL, nodes={**SMALL.nodes, FOUR: entry})

    found = place(register, FOUR, own)

    if isinstance(expected, str):
        assert isinstance(found, NoPlace)
        assert expected in found.reason
    else:
        assert found == expected


async def test_who_dies_between_the_put_and_its_answer_finds_that_it_has_won() -> None:
    """The store id is durable before any other node knows it."""
    first = attrs.evolve(SMALL, chain=attrs.evolve(SMALL.chain, version=1, segments=SMALL.chain.segments[:1]))
    metastore, disk, source = MemoryMetaStore([first.encode()], [1]), Disk(random.Random(1)), random.Random(1)
    await update_node_table(metastore, Expect(node=FOUR, addresses=("a:1",), roles=frozenset()), source)
    metastore.lose_replies = 1
    identity = await Identity.open(disk.mount(), FOUR)
    assert "not known yet" in await join(identity, metastore, source)
    disk.crash()

    again = await Identity.open(disk.mount(), FOUR)
    assert again.phase is FormatPhase.JOINING
    assert await join(again, metastore, source) == ""
    assert (again.phase, again.store_id, again.joined) == (FormatPhase.FORMATTED, identity.store_id, 3)
    assert len(metastore.values) == 3, "it has not claimed twice"


async def test_of_two_directories_one_takes_the_place() -> None:
    """Two processes with one number, each on a new disk: the conditional put elects; the other one stays out for good."""
    first = attrs.evolve(SMALL, chain=attrs.evolve(SMALL.chain, version=1, segments=SMALL.chain.segments[:1]))
    metastore, source = MemoryMetaStore([first.encode()], [1]), random.Random(1)
    await update_node_table(metastore, Expect(node=FOUR, addresses=("a:1",), roles=frozenset()), source)
    one, other = [await Identity.open(Disk(random.Random(seed)).mount(), FOUR) for seed in (1, 2)]

    assert await join(one, metastore, source) == ""
    assert "a disk was lost or the path is wrong" in await join(other, metastore, source)
    assert other.phase is FormatPhase.UNFORMATTED


async def test_an_added_node_formats_itself(world: World, autojump_clock: MockClock) -> None:
    """Its peers are no longer new, and the register expects it: it joins, and knows since when."""
    nodes = [await world.start(node) for node in (1, 2, 3)]
    await until(lambda: all(node.identity.cluster for node in nodes))
    config = {"peers": FIVE_PEERS}
    fourth = await world.start(4, config=config)
    await until(lambda: "has no node 4" in fourth._formatter.waiting)
    assert fourth.identity.phase is FormatPhase.UNFORMATTED

    expect = Expect(node=FOUR, addresses=("127.0.0.1:7004",), roles=frozenset({"log-server"}))
    await update_node_table(world.metastore.register, expect, world.random)
    await until(lambda: fourth.virtual_log is not None and fourth.virtual_log.view.cached is not None)

    status = await world.status(4)
    entry = register_of(status).nodes[FOUR]
    assert (entry.store_id, entry.joined) == (status.store_id, fourth.identity.joined)
    assert (status.phase, status.roles, status.failures) == ("formatted", ("log-server",), ())


async def test_an_old_disk_that_turns_up_again_serves_nothing(world: World, autojump_clock: MockClock) -> None:
    """Node 3 was replaced. Its former directory knows the cluster and is refused: another one has its place."""
    nodes = [await world.start(node) for node in (1, 2, 3)]
    await until(lambda: all(node.identity.cluster for node in nodes))
    former = world.disks[3]
    old = nodes[2].identity.store_id
    world.stop(3)
    await update_node_table(world.metastore.register, Forget(node=NodeId(3), store_id=old), world.random)
    world.disks[3] = Disk(world.random)
    new = await world.start(3)
    await until(lambda: new.virtual_log is not None)
    world.stop(3)

    world.disks[3] = former
    returned = await world.start(3)
    await until(lambda: bool(returned.refusals))

    status = await world.status(3)
    assert not {"log-server", "sequencer"} & set(status.roles)
    assert "by another data directory" in status.failures[0]
    values = world.metastore.register.values
    assert not returned._is_seated(len(values), values[-1])
    assert returned._is_seated(1, values[0])
    with pytest.raises(MalformedError, match="of version 1, said to be decided as version 9223372036854775807"):
        returned._is_seated((1 << 63) - 1, values[0])  # with that version accepted, it could never decide another one
