"""The log of this project: three nodes, and a client in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.experiments.contestants.contestant import Figures, RunningContestant
from virtuallog_lab.harness.trial import temporary_cluster
from virtuallog_lab.workload.appends import measure
from virtuallog_server.local_cluster.supervisor import LocalCluster


@attrs.frozen
class VirtualLogContestant:
    """A virtual log on one loglet, of three servers."""

    name: str = "virtuallog"
    loglet: str = "native"
    durability: str = "fdatasync of the entry on 2 of 3"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[RunningContestant]:
        """A new cluster."""
        async with temporary_cluster(loglet=self.loglet) as cluster, connect(cluster.file) as log:
            yield _RunningLog(cluster, log)


@attrs.frozen
class _RunningLog:
    _cluster: LocalCluster
    _log: VirtualLog

    @property
    def pids(self) -> list[int]:
        return [node.pid for node in self._cluster.running if node.pid is not None]

    async def measure(self, outstanding: int, size: int, seconds: float) -> Figures:
        found = await measure(self._log.append, SystemClock(), outstanding, size, seconds)
        return Figures(ops_per_s=found.ops_per_s, p50_ms=found.p50_ms, p99_ms=found.p99_ms)
