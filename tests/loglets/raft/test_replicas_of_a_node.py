"""Replicas that nodes have, or have no more: dropped loglets, copies, and nodes that never had one."""

from __future__ import annotations

import pytest
import trio

from tests.loglets.raft.cluster import SEGMENT, Cluster, running_cluster, writer
from virtuallog.contract.errors import SealedError
from virtuallog.contract.types import LogletOffset, NodeId
from virtuallog_loglets.raft import RaftProvider
from virtuallog_loglets.raft.core import log as raft_log
from virtuallog_loglets.raft.core import records
from virtuallog_loglets.raft.core.records import RecordKind, RecordPlace
from virtuallog_loglets.raft.core.replication import MESSAGE_RECORDS
from virtuallog_loglets.raft.drivers import replica_service
from virtuallog_loglets.raft.drivers.replica_driver import SEND_SECONDS
from virtuallog_loglets.raft.messages import AppendRecords, CopyRecords, RaftGetStanding, StandNow
from virtuallog_loglets.raft.provider import RAFT_WAL


def provider_of(cluster: Cluster, node: int) -> RaftProvider:
    """Provider of a running node."""
    provider = cluster.nodes[NodeId(node)].provider
    assert provider is not None
    return provider


def segments_of(cluster: Cluster, node: int) -> list[str]:
    """Segments of the write-ahead log on the disk of a node."""
    return [name for name in cluster.nodes[NodeId(node)].disk.files if name.startswith("wal-")]


async def test_a_node_that_never_had_a_replica_takes_no_disk_space(autojump_clock: trio.testing.MockClock) -> None:
    """Chains are trimmed, and each node hears of it, also one whose log was never a raft one."""
    async with running_cluster(wal_settings=RAFT_WAL) as cluster:
        await provider_of(cluster, 1).forget(7)
        await provider_of(cluster, 1).sweep_loglets(9, ())

        assert segments_of(cluster, 1) == []


async def test_a_dropped_loglet_stays_dropped(autojump_clock: trio.testing.MockClock) -> None:
    """Its replica is gone, durably: a restart makes none again, and a client gets SealedError."""
    async with running_cluster() as cluster:
        cluster.create()
        loglet = cluster.client()
        await writer(loglet).append(b"entry")
        for node in (1, 2, 3):
            await provider_of(cluster, node).forget(SEGMENT.version + 1)
        del cluster.chain[SEGMENT]
        await cluster.restart(1, 2, 3)

        assert all(segments_of(cluster, node) for node in (1, 2, 3))
        with pytest.raises(SealedError):
            await loglet.check_tail()


async def test_an_entry_behind_the_records_of_many_elections_can_be_read(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each election between two entries leaves a record without entries, at the offset of the next one. They are more than one answer
    may have records."""
    monkeypatch.setattr(replica_service, "READ_RECORDS_MAX", 3)
    async with running_cluster() as cluster:
        cluster.create()
        loglet = cluster.client()
        one = writer(loglet)
        await one.append(b"before")
        for node in (2, 1, 2, 1):
            service = provider_of(cluster, node).replicas
            assert service is not None
            term = cluster.replica(node).state.term
            service.handlers[StandNow](StandNow(segment=SEGMENT, term=term, leader=NodeId(3 - node)), lambda _: None)
            while cluster.leader() != node:
                await cluster.clock.sleep(0.1)
        await one.append(b"behind")

        found = await loglet.read(LogletOffset(1), LogletOffset(2), 1 << 20)
        assert [placed.start for placed in found] == [1]


async def test_a_copy_that_begins_while_the_chain_is_asked_stays_a_copy(autojump_clock: trio.testing.MockClock) -> None:
    """A client asks a node for a loglet, and while the node asks the chain, an administrator begins to copy it there. The copy
    must not become a voter with an empty log."""
    async with running_cluster() as cluster:
        cluster.create()
        service = provider_of(cluster, 2).replicas
        assert service is not None
        place = RecordPlace(segment=SEGMENT, index=5, term=2, first=7, commit=4, time_ms=0)
        copied = CopyRecords(segment=SEGMENT, records=(records.build(place, RecordKind.NOOP).blob,), trim=0)
        answers: list[object] = []

        service.handlers[RaftGetStanding](RaftGetStanding(segment=SEGMENT), answers.append)
        service.handlers[CopyRecords](copied, answers.append)
        while len(answers) < 2:
            await cluster.clock.sleep(0.1)

        state = cluster.replica(2).state
        assert state.is_copy
        assert state.log.last_index == 5


async def test_an_answer_to_a_leader_whose_role_was_closed_is_passed_over(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer far behind answers after the role and its nursery are closed. What it lacks next is on the disk: no task may begin to
    read it, and nothing more is sent."""
    monkeypatch.setattr(raft_log, "KEPT_BYTES_MAX", 0)
    async with running_cluster() as cluster:
        cluster.create()
        one = writer(cluster.client())
        await one.append(b"seen by all")
        cluster.isolate(3)
        for _ in range(2 * MESSAGE_RECORDS):
            await one.append(b"missed")
        await cluster.clock.sleep(SEND_SECONDS)  # what has left for it is lost by then
        cluster.gate = lambda _, request: not (isinstance(request, AppendRecords) and request.records)
        cluster.isolate(3, blocked=False)
        while not cluster.kept:
            await cluster.clock.sleep(0.1)
        scope = cluster.nodes[NodeId(1)].scope
        assert scope is not None
        scope.cancel()
        await cluster.clock.sleep(0.1)
        cluster.release()
        await cluster.clock.sleep(0.1)

        assert 1 < cluster.replica(3).state.log.last_index < 2 * MESSAGE_RECORDS
