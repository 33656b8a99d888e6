"""Measures a native loglet by itself and a VirtualLog on it, on three processes of this machine."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

from bench.cpu import CpuMeter
from bench.loglet_client import LogletClient
from bench.samples import LOGLET, VIRTUAL_LOG, Sample
from loglets.native.config import decode_untrusted
from server.bench.appends import Measurement, measure, warm_up_seconds
from server.cluster import LocalCluster, open_local_cluster
from server.process import SWITCH_SECONDS
from virtuallog.connect import connect, open_services_to
from virtuallog.ports import Clock

Append = Callable[[bytes], Awaitable[object]]


@attrs.frozen
class OwnSystems:
    """A cluster, and a client of it in this process."""

    clock: Clock
    appends: dict[str, Append]
    """How to append, by system."""
    _cluster: LocalCluster
    _sequencer: int

    async def measure(self, system: str, outstanding: int, size: int, seconds: float) -> Sample:
        """One measurement; it warms up first."""
        measured: list[Measurement] = []

        async def run() -> None:
            measured.append(await measure(self.appends[system], self.clock, outstanding, size, seconds))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await self.clock.sleep(warm_up_seconds(seconds))
            meter = CpuMeter(self._processes())
            await self.clock.sleep(seconds)
            used = meter.seconds()
        return Sample(
            system=system,
            outstanding=outstanding,
            bytes=size,
            ops_per_s=measured[0].ops_per_s,
            p50_ms=measured[0].p50_ms,
            p99_ms=measured[0].p99_ms,
            cpu_us={name: 1e6 * value / measured[0].ops for name, value in used.items()},
        )

    def _processes(self) -> list[tuple[str, int]]:
        """The sequencer's node has a log server as well, as in the bare pipeline."""
        nodes = [
            ("sequencer" if node.id == self._sequencer else "servers", node.pid)
            for node in self._cluster.nodes.values()
            if node.pid is not None
        ]
        return [("client", os.getpid()), *nodes]


@asynccontextmanager
async def open_own_systems(clock: Clock, segments: int) -> AsyncIterator[OwnSystems]:
    """A new cluster, whose chain has so many segments, for the length of the block."""
    sys.setswitchinterval(SWITCH_SECONDS)
    with tempfile.TemporaryDirectory(prefix="virtuallog-bench-") as folder:
        async with open_local_cluster(Path(folder), base_port=0) as cluster:
            async with open_services_to(cluster.file) as services:
                await cluster.wait_ready(services)
            async with connect(cluster.file) as log, trio.open_nursery() as nursery:
                for _ in range(segments - 1):
                    await log.append(b"in an earlier segment")
                    await log.reconfig_extend("native")
                active = (await log.view.current()).chain.last
                client = LogletClient(log.view.loglet(active))
                nursery.start_soon(client.run)
                appends: dict[str, Append] = {LOGLET: client.append, VIRTUAL_LOG: log.append}
                yield OwnSystems(clock, appends, cluster, decode_untrusted(active.config).sequencer)
                nursery.cancel_scope.cancel()
