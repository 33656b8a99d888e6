"""Programs that read a real cluster from threads: each from the server that it is near, of the cluster that it means."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.to_thread import run_sync

from tests.server.process.console.test_cluster_metrics import observed_cluster, scrape
from virtuallog.admin.control import GetStatus
from virtuallog.blocking import BlockingLog, connect_blocking
from virtuallog.client.appender import AppenderSettings
from virtuallog.client.virtual_log import READS_ONLY, VirtualLog
from virtuallog.contract.batch import SessionId
from virtuallog.contract.errors import BeyondTailError, WrongRecipientError
from virtuallog.contract.types import LogPosition, NodeId, PlacedBatch
from virtuallog_server.local_cluster.supervisor import LocalCluster

pytestmark = pytest.mark.processes

BATCHES = 20
BATCH = [b"entry %d" % number for number in range(50)]
FIRST = LogPosition(0)


async def test_programs_read_from_the_servers_that_they_are_near(tmp_path: Path) -> None:
    """Each server answers the reads of processes near it, for both kinds of loglet with copies; a server that is gone is
    replaced by another one; and no process takes one cluster for another.
    """
    async with observed_cluster(tmp_path) as (cluster, ports):
        cluster_id = await run_sync(write, cluster)
        given = [await reads_of(port) for port in ports]
        for near in cluster.nodes:
            await run_sync(read_all, cluster, near, cluster_id)
            before, given = given, [await reads_of(port) for port in ports]
            asked = {node for node, one, other in zip(cluster.nodes, before, given, strict=True) if other > one}
            assert asked == {near}
        await run_sync(refuse_another_cluster, cluster, cluster_id)
        await cluster.kill(NodeId(3))
        await run_sync(read_all, cluster, NodeId(3), cluster_id)


async def reads_of(port: int) -> float:
    told = await scrape(port)
    return sum(
        told.sum("virtuallog_rpc_calls_total", request=request) for request in ("NativeReadWaves", "ReadRecords")
    )


def write(cluster: LocalCluster) -> bytes:
    """Three segments; what a program without async does beside that. Returns the id of the cluster."""
    with connect_blocking(cluster.file) as log:
        session = append(log)
        log.reconfig_extend("paxos")
        append(log)
        log.reconfig_extend("native")
        assert append(log) != session
        tail = LogPosition(log.check_tail().tail)
        register = log.register()
        assert [segment.kind for segment in register.chain.segments] == ["native", "paxos", "native"]
        assert log.find_trim_point() == log.find_time(0) == 0
        assert log.find_time(1 << 50) == tail
        assert log.run(known_tail, 1) == tail + 1
        assert log.call(NodeId(2), GetStatus(), 10).register
        with pytest.raises(BeyondTailError):
            list(log.scan(FIRST, LogPosition(tail + 1)))
        return register.cluster


def append(log: BlockingLog) -> SessionId:
    with log.appender(AppenderSettings(one_session=True)) as appender:
        places = [appender.append(BATCH) for _ in range(BATCHES)]
    assert places == sorted(places, key=lambda place: place.start)
    return appender.session


async def known_tail(log: VirtualLog, more: int) -> int:
    return log.view.known_tail + more


def read_all(cluster: LocalCluster, near: NodeId, cluster_id: bytes) -> None:
    """All of it, in pieces of some batches: more of them than segments."""
    with connect_blocking(cluster.file, near=near, expected_cluster=cluster_id, settings=READS_ONLY) as log:
        tail = LogPosition(log.check_tail().tail)
        pieces = list(log.scan(FIRST, tail, piece_bytes=4096))
    items = [placed for piece in pieces for placed in piece]
    payloads = [payload for item in items if isinstance(item, PlacedBatch) for payload in item.batch.payloads]
    assert payloads == 3 * BATCHES * BATCH
    assert (items[0].start, items[-1].stop) == (0, tail)
    assert len(pieces) > 3


def refuse_another_cluster(cluster: LocalCluster, cluster_id: bytes) -> None:
    another = bytes(16)
    meant = f"{another.hex()}, found {cluster_id.hex()}"
    with pytest.raises(WrongRecipientError, match=meant), connect_blocking(cluster.file, expected_cluster=another):
        raise AssertionError("it connected")
