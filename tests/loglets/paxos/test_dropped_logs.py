"""Logs that are dropped while tasks of the node still hold their replicas."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from tests.loglets.paxos.cluster import SEGMENT, running_cluster, writer
from tests.loglets.paxos.drivers.replica_node import LOG, Node, learned, promise, read, write
from virtuallog.contract.errors import SealedError
from virtuallog.contract.ports import Request
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.drivers import disk_format
from virtuallog_loglets.paxos.drivers.replica_maintenance import LOOK_SECONDS_MAX
from virtuallog_loglets.paxos.messages import GetStanding, Learn, PaxosRecover, Status


async def test_a_dropped_replica_that_recovers_writes_nothing_any_more() -> None:
    """Its maintenance waits for others while the log is dropped, and then wants to go on. A header that says "learned through 9"
    beside no record would keep the node from starting again."""
    node = Node(joined=9)
    async with node.life() as life:
        local = await life.service.replica(LOG)
        await local.adopt(Status.RECOVERING)
        await life.ask(Learn(segment=LOG, records=tuple(learned(p, values.append(b"x", 1)) for p in range(10))))
        await life.service.sweep_loglets(7, [])

        with pytest.raises(SealedError):
            await local.adopt(Status.VOTING, 12)

        assert [key for key in node.disk.pairs if key != disk_format.INCARNATION_KEY] == []
    async with node.life() as life:
        assert not life.service.replicas


async def test_what_is_read_while_its_log_is_dropped_is_not_taken_for_lost() -> None:
    """A read from the disk, an answer that quotes it and the digest wait while the log is dropped. That is no corruption: all are
    told that it is gone, and the node goes on."""
    node = Node()
    async with node.life() as life:
        await life.ask(write(0, *[b"x"] * 9))
        await life.ask(write(9, b"x", decided=9))
    async with node.life() as life:
        local = await life.service.replica(LOG)
        local.core.slots.digest = type(local.core.slots.digest)()  # as if so much had come that it is not in memory
        pending = [life.soon(read(0, 9)), life.soon(promise(9, 0, 5))]
        await life.service.sweep_loglets(7, [])

        assert [type(await each()) for each in pending] == [SealedError, SealedError]
        with pytest.raises(SealedError):
            await local.digest()
        assert not life.failures


@pytest.mark.parametrize("has_lost_its_store", [False, True])
async def test_nobody_keeps_a_dropped_log_whole(autojump_clock: MockClock, has_lost_its_store: bool) -> None:
    """All nodes have dropped it, so no peer could report that: the maintenance tasks end by
    themselves and ask no more."""
    async with running_cluster() as cluster:
        cluster.create()
        await writer(cluster.client()).append(b"x")
        if has_lost_its_store:
            for node in (2, 3):
                cluster.crash(node)
            cluster.nodes[NodeId(2)].disk.wipe()
            cluster.nodes[NodeId(2)].joined = 5
            await cluster.start(2)
            await cluster.clock.sleep(10)
        asked: list[Request[Any]] = []

        def noted(node: NodeId, request: Request[Any]) -> bool:
            if isinstance(request, GetStanding | PaxosRecover):
                asked.append(request)
            return True

        cluster.chain.clear()
        for served in cluster.nodes.values():
            assert served.process is not None and served.provider is not None
            if served.process.alive:
                await served.provider.forget(SEGMENT.version + 1)
        await cluster.clock.sleep(10)
        cluster.gate = noted
        await cluster.clock.sleep(3 * LOOK_SECONDS_MAX)

        assert asked == []
