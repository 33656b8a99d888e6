"""Rot in unread parts: a log server checks the old segments afterwards that it has not read at the start."""

from __future__ import annotations

import trio.testing

from tests.loglets.native.cluster import Cluster, Node, running_cluster, writer
from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.native import NativeProvider
from virtuallog_loglets.wal.core import index_format
from virtuallog_loglets.wal.core import segment_format as fmt

ROUNDS = 12
"""Batches that take a third of a WAL segment."""


async def filled(cluster: Cluster) -> Node[NativeProvider]:
    """Some closed segments on every node, indexed; returns one that does not order."""
    cluster.create()
    one, node = writer(cluster.client()), cluster.nodes[NodeId(2)]
    for _ in range(ROUNDS):
        await one.append(b"x" * 7000)
    closed = [sequence for name in node.disk.files if (sequence := fmt.sequence_in(name)) is not None][:-2]
    assert len(closed) > 1
    while not {index_format.name_of(sequence) for sequence in closed} <= node.disk.files.keys():
        await cluster.clock.sleep(0.01)
    return node


async def test_rot_that_a_restart_has_not_read_is_found_soon_after(autojump_clock: trio.testing.MockClock) -> None:
    """The node serves at once, since its index is whole; then it finds the damage, and this role ends."""
    async with running_cluster() as cluster:
        node = await filled(cluster)
        cluster.crash(2)
        node.disk.rot(fmt.name_of(1), fmt.SEGMENT_BYTES_MIN + 2000)
        await cluster.start(2)
        assert node.failures == []

        await cluster.clock.sleep(1.0)

        (failure,) = node.failures
        assert isinstance(failure, CorruptionError)
        assert fmt.name_of(1) in str(failure)


async def test_what_rots_while_the_node_runs_is_found_within_hours(autojump_clock: trio.testing.MockClock) -> None:
    """Every closed segment is looked at again and again; a look at whole ones finds nothing."""
    async with running_cluster() as cluster:
        node = await filled(cluster)
        await cluster.clock.sleep(7 * 3600)
        assert node.failures == []
        node.disk.rot(fmt.name_of(2), fmt.SEGMENT_BYTES_MIN + 2000)

        await cluster.clock.sleep(7 * 3600)

        assert [type(failure) for failure in node.failures] == [CorruptionError]
