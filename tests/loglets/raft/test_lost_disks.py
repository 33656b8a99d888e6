"""Disks of replicas that are replaced by empty ones, or cannot be read."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.loglets.raft.cluster import SEGMENT, Cluster, running_cluster, writer
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import Request
from virtuallog.contract.types import NodeId, Open
from virtuallog_loglets.raft.core import log as raft_log
from virtuallog_loglets.raft.drivers.replica_driver import SEND_SECONDS
from virtuallog_loglets.raft.messages import AppendRecords


async def test_new_directory_under_an_old_node_id_does_not_vote(autojump_clock: MockClock) -> None:
    """Replicas 1 and 2 acknowledge a batch that 3 has not got. Then 2 gets a new disk, and 1 is down: if 2 voted again, 3
    would be elected without the batch."""
    async with running_cluster() as cluster:
        cluster.create()
        client = cluster.client()
        one = writer(client)
        await one.append(b"seen by all")
        cluster.isolate(3)
        assert await one.append(b"acknowledged") == range(1, 2)
        cluster.crash(1)
        cluster.crash(2)
        cluster.nodes[NodeId(2)].disk.wipe()
        cluster.nodes[NodeId(2)].joined = SEGMENT.version
        cluster.isolate(3, blocked=False)
        await cluster.start(2)

        with pytest.raises(UnavailableError):
            await client.check_tail()
        await cluster.start(1)
        assert await client.check_tail() == Open(2)


async def test_record_that_the_leader_cannot_read_is_not_sent_as_if_there_were_none(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica is behind, and what it lacks is damaged on the leader's disk. It gets heartbeats, and no flood of messages
    without records."""
    monkeypatch.setattr(raft_log, "KEPT_BYTES_MAX", 4_000)
    async with running_cluster() as cluster:
        cluster.create()
        one = writer(cluster.client())
        await one.append(b"seen by all")
        cluster.isolate(3)
        for letter in b"abcdef":
            await one.append(bytes([letter]) * 2000)
        await cluster.clock.sleep(SEND_SECONDS)  # what has left for it is lost by then
        _rot(cluster, 1, b"a" * 1000)
        received = list[Request[object]]()

        def gate(node: NodeId, request: Request[object]) -> bool:
            if node == NodeId(3):
                received.append(request)
            return True

        cluster.gate = gate
        cluster.isolate(3, blocked=False)
        await cluster.clock.sleep(2.0)

        assert cluster.leader() == 1
        assert cluster.replica(3).state.log.last_index == 1
        assert 5 < sum(isinstance(request, AppendRecords) for request in received) < 60


def _rot(cluster: Cluster, node: int, where: bytes) -> None:
    """Flip a bit of what this replica has stored."""
    disk = cluster.nodes[NodeId(node)].disk
    name = next(name for name in sorted(disk.files) if disk.peek(name).find(where) > 0)
    disk.rot(name, disk.peek(name).find(where))
