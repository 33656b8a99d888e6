"""Nodes of different versions in one cluster: the older ones keep working, and nothing is written that they cannot read."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from tests.formats.test_former_files import read_all
from tests.virtuallog.rpc.shop import IDENTITY, Shop, Store, interfaces
from tests.virtuallog.rpc.world import SHOP, TrioClock
from virtuallog.admin.cluster_status import fetch_statuses
from virtuallog.admin.control import NodeStatus, RebuildSegment
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import InvalidSettingError, UnavailableError, UnsupportedError, VirtualLogError
from virtuallog.contract.ports import Services
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog.contract.versions import SPOKEN, Versions
from virtuallog.node_services import open_services_to
from virtuallog.rpc.link import Peer
from virtuallog.rpc.protocol.node import OpenNode
from virtuallog.rpc.server import RpcServer
from virtuallog.rpc.services import RpcServices
from virtuallog.rpc.transport import bound_address, tcp_connect, tcp_listen
from virtuallog.runtime.disk import DiskStorage
from virtuallog.testing.logs import capture_logs
from virtuallog_loglets.wal import Address, WalRecord, WalSettings, WriteAheadLog
from virtuallog_server.local_cluster import layout
from virtuallog_server.local_cluster.supervisor import LocalCluster, open_local_cluster

NODES, OLD = 4, NodeId(3)
FORMER = 1
"""Protocol version of the old node."""
LIVE_KIND = 7
"""The WAL record that version 2 has brought."""


def hold_back(folder: Path, protocol: int) -> None:
    """Let node 3 speak no newer version than `protocol`, as an operator does when upgrading nodes one by one."""
    path = folder / f"node-{OLD}" / "node.toml"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("protocol")]
    path.write_text("\n".join([f"protocol = {protocol}", *lines]) + "\n")


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[tuple[LocalCluster, VirtualLog, Services]]:
    async with open_local_cluster(folder, NODES) as cluster, open_services_to(cluster.file) as services:
        await cluster.wait_ready()
        await heard(services, set(cluster.nodes))
        async with connect(cluster.file) as log:
            yield cluster, log, services


async def heard(services: Services, nodes: set[NodeId]) -> Mapping[NodeId, NodeStatus]:
    """The status of all these nodes, once each is part of the cluster and has its roles."""
    with trio.fail_after(30):  # noqa: TID251 -- real time, against real processes
        while True:
            answers = await fetch_statuses(services, sorted(nodes))
            found = {node: answer for node, answer in answers.items() if not isinstance(answer, VirtualLogError)}
            if all(status.register and not status.failures for status in found.values()) and found.keys() == nodes:
                return found
            await trio.sleep(0.1)  # noqa: TID251 -- real time


async def append(log: VirtualLog, count: int) -> None:
    for _ in range(count):
        await log.append(b"entry")


async def kinds_in_wals(folder: Path) -> set[int]:
    """Kinds of all WAL records that the nodes have written."""
    kinds: set[int] = set()

    def visit(_: Address, record: WalRecord) -> None:
        kinds.add(record.kind)

    for node in range(1, NODES + 1):
        with DiskStorage(folder / f"node-{node}" / "storage" / "native") as storage:
            await WriteAheadLog.open(storage, WalSettings(), visit)
    return kinds


@pytest.mark.processes
async def test_a_node_of_the_former_version_keeps_working(tmp_path: Path) -> None:
    """It stores, orders, is sealed, dies and comes back. What needs newer formats waits until it is upgraded, and says so."""
    with layout.hold(tmp_path):
        layout.prepare(tmp_path, NODES, 0, 0, "native")
    hold_back(tmp_path, FORMER)

    async with running(tmp_path) as (cluster, log, services):
        statuses = await heard(services, set(cluster.nodes))
        assert [statuses[node].protocol for node in sorted(statuses)] == [SPOKEN.last, SPOKEN.last, FORMER, SPOKEN.last]
        for sequencer in ("3", "1", "3"):  # the old one orders, a newer one on its copies, once more
            await log.reconfig_extend("native", {"servers": "1,2,3", "sequencer": sequencer})
            await append(log, 20)
        await log.reconfig_extend("native", {"sequencer": "1"})  # leaves the chain empty, with the next one
        await log.reconfig_extend("native", {"sequencer": "2"})
        assert (await log.view.refresh()).level == FORMER
        closed = log.view.cached.chain.segments[0] if log.view.cached else None
        assert closed is not None
        with pytest.raises(UnsupportedError, match="once all are upgraded"):
            await services.call(NodeId(1), move(closed.id), 20.0)
        with pytest.raises(InvalidSettingError, match="role replica"):
            await log.reconfig_extend("paxos")
        with pytest.raises(UnsupportedError, match="used once all speak 4"):
            await log.reconfig_extend("striped")
        await cluster.kill(OLD)
        await append(log, 20)
        await cluster.start(OLD)
        await heard(services, {OLD})
        await log.prefix_trim(LogPosition(10))
        await append(log, 20)
        assert len(await read_all(log, 10, 100)) == 90
    assert LIVE_KIND not in await kinds_in_wals(tmp_path)

    hold_back(tmp_path, 0)
    async with running(tmp_path) as (_, log, services):
        await raised(log, SPOKEN.last)
        await log.reconfig_extend("native", {"sequencer": "1"})
        closed = (await log.reconfig_extend("native", {"sequencer": "2"})).chain.segments[0]
        await services.call(NodeId(1), move(closed.id), 20.0)
        await append(log, 20)
        assert len(await read_all(log, 10, 120)) == 110
        await log.reconfig_extend("striped")
        await append(log, 20)
        await trio.sleep(1.5)  # noqa: TID251 -- real time: nodes look at the register twice a second
    assert LIVE_KIND in await kinds_in_wals(tmp_path)


def move(segment: SegmentId) -> RebuildSegment:
    """Onto node 4, which has no copy, in place of node 1."""
    return RebuildSegment(segment=segment, servers=(NodeId(2), NodeId(3), NodeId(4)))


async def raised(log: VirtualLog, level: int) -> None:
    with trio.fail_after(30):  # noqa: TID251 -- real time
        while (await log.view.refresh()).level < level:
            await trio.sleep(0.2)  # noqa: TID251 -- real time


@pytest.mark.parametrize(
    ("node", "caller"), [(Versions(90, 99), SPOKEN), (SPOKEN, Versions(90, 99))], ids=["node", "caller"]
)
async def test_one_from_the_far_future_is_refused(node: Versions, caller: Versions) -> None:
    """Over real sockets, whichever side it is: calls fail with the versions of both, and so says the log of the node."""
    identity = attrs.evolve(IDENTITY, protocol_first=node.first, protocol_last=node.last)
    opening = OpenNode(node=IDENTITY.node, protocol_first=caller.first, protocol_last=caller.last)
    shop = Shop()
    server = RpcServer(shop.handlers(), interfaces(), lambda: identity, TrioClock())
    with capture_logs() as logged:
        async with trio.open_nursery() as nursery:
            listeners = await tcp_listen("127.0.0.1:0")
            await nursery.start(server.serve, listeners)
            peer = Peer((bound_address(listeners[0]),), opening)
            client = RpcServices(interfaces(), lambda _: peer, tcp_connect(), TrioClock(), random.Random(1))
            await nursery.start(client.run)
            with pytest.raises((UnsupportedError, UnavailableError)) as refused:
                await client.call(SHOP, Store(segment=SegmentId(1, 2), batch=b"", position=7), 5.0)
            nursery.cancel_scope.cancel()
    said = f"the node speaks versions {node}, its caller {caller}"
    assert said in str(refused.value)
    assert any(said in line.get("reason", "") for line in logged if line["log_level"] == "warning")
