"""Measures a loglet by itself and a VirtualLog on it, on three processes of this machine.

With several sessions, for a loglet that keeps each to a part of itself, each has an equal share of
the outstanding appends.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

from virtuallog.client.appender import Appender
from virtuallog.connect import connect
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import NodeId
from virtuallog.node_services import open_services_to
from virtuallog_lab.experiments.appends.loglet_client import LogletClient
from virtuallog_lab.experiments.appends.sampler import take_sample
from virtuallog_lab.experiments.appends.samples import OWN, AppendSample
from virtuallog_lab.harness.orderer import ASKED, find_orderer
from virtuallog_lab.harness.trial import temporary_cluster
from virtuallog_lab.workload.appends import Append
from virtuallog_server.local_cluster.supervisor import LocalCluster


@attrs.frozen
class OwnSystems:
    """A cluster, and a client of it in this process."""

    clock: Clock
    appends: dict[str, list[Append]]
    """Append functions of the sessions, by system."""
    _cluster: LocalCluster
    _orderer: NodeId

    async def measure(self, system: str, outstanding: int, size: int, seconds: float) -> AppendSample:
        """One measurement; it warms up first."""
        appends, processes = self.appends[system], self._processes()
        return await take_sample(system, appends, processes, self.clock, outstanding, size, seconds)

    def _processes(self) -> list[tuple[str, int]]:
        """The node that orders stores entries as well, as on the floor."""
        nodes = [
            ("sequencer" if node.id == self._orderer else "servers", node.pid)
            for node in self._cluster.nodes.values()
            if node.pid is not None
        ]
        return [("client", os.getpid()), *nodes]


@asynccontextmanager
async def open_own_systems(
    clock: Clock, segments: int, kind: str = "native", sessions: int = 1
) -> AsyncIterator[OwnSystems]:
    """Open a new cluster, whose chain has so many segments of a kind, and clients with so many
    sessions, for the length of the block."""
    async with (
        temporary_cluster(loglet=kind) as cluster,
        open_services_to(cluster.file, ASKED) as services,
        connect(cluster.file) as log,
        trio.open_nursery() as nursery,
    ):
        for _ in range(segments - 1):
            await log.append(b"in an earlier segment")
            await log.reconfig_extend(kind)
        active = (await log.view.current()).chain.last
        clients = [LogletClient(log.view.loglet(active)) for _ in range(sessions)]
        for client in clients:
            nursery.start_soon(client.run)
            await client.append(b"a sequencer is elected")
        by_itself: list[Append] = [client.append for client in clients]
        through_log = [_one_by_one(log.appender()) for _ in range(sessions)]
        appends = dict(zip(OWN[kind], (by_itself, through_log), strict=True))
        yield OwnSystems(clock, appends, cluster, await find_orderer(services, active))
        nursery.cancel_scope.cancel()


def _one_by_one(appender: Appender) -> Append:
    async def append(payload: bytes) -> range:
        return await appender.append([payload])

    return append
