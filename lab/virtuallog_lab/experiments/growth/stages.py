"""Fills a log stage by stage, and measures every process after each. See `growth.py`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.address import split_address
from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.types import LogPosition, NodeId, PlacedBatch
from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.floor.client import FloorClient
from virtuallog_lab.harness.report import tell
from virtuallog_lab.workload.appends import measure
from virtuallog_loglets.native import config as native_config
from virtuallog_loglets.native.messages import NativeGetState
from virtuallog_server.local_cluster.supervisor import LocalCluster

MEASURED_ENTRIES: Final = 500_000
"""The throughput of a stage is that of its last entries; of a tenth of the stage, if that is less."""
RESTART_SECONDS_MAX: Final = 300.0
POLL_SECONDS: Final = 0.02
SETTLE_SECONDS: Final = 15.0
"""Seconds for files to go after a trim; they have gone when nothing has changed for a fifth of it."""
READ_ENTRIES_MAX: Final = 1_000_000
CLOCK: Final = SystemClock()


@attrs.frozen(kw_only=True)
class Memory:
    """Resident bytes."""

    sequencer: int
    """Memory of the node whose process orders, and stores as well."""
    servers: int
    """Memory of the largest other node."""
    client: int


@attrs.frozen(kw_only=True)
class Stage:
    """The cluster with so many entries."""

    entries: int
    ops_per_s: float
    floor_ops_per_s: float
    """Right after it."""
    memory: Memory
    restarted_memory: int
    """Resident bytes of the node that was started again."""
    restart_seconds: float
    """Seconds from the start of the process until it answers for the loglet with all that it held."""
    disk_bytes: int
    """Disk bytes of the largest node."""
    reads_per_s: float

    @property
    def share_of_floor(self) -> float:
        return self.ops_per_s / self.floor_ops_per_s

    def plain(self) -> dict[str, Any]:
        return {**attrs.asdict(self), "share_of_floor": self.share_of_floor}


@attrs.frozen(kw_only=True)
class Trimmed:
    """Disk of the largest node around a trim of everything."""

    before_bytes: int
    after_bytes: int
    seconds: float
    """Seconds until that state."""


async def grow(
    cluster: LocalCluster,
    log: VirtualLog,
    entries: Sequence[int],
    size: int,
    outstanding: int,
    floor: FloorClient,
    seconds: float,
) -> tuple[list[Stage], Trimmed]:
    """All stages, and the trim behind them.

    Raises:
        VirtualLogError: an append or a read failed.
    """
    stages: list[Stage] = []
    held = 0
    for target in entries:
        measured = min(MEASURED_ENTRIES, max(1, target // 10), target - held)
        await append_entries(log, target - held - measured, size, outstanding)
        rate = await append_entries(log, measured, size, outstanding)
        beside = await measure(floor.append, CLOCK, outstanding, size, seconds)
        stage = await _look(cluster, log, target, rate, beside.ops_per_s)
        stages.append(stage)
        held = target
        tell(f"{target:>12,} entries: {rate:,.0f}/s, restart {stage.restart_seconds:.1f} s")
    return stages, await _trim(cluster, log)


async def append_entries(log: VirtualLog, count: int, size: int, outstanding: int) -> float:
    """Append so many entries, one in each append; returns how many a second."""
    payload, left, began = b"x" * size, count, CLOCK.monotonic()

    async def keep_one_outstanding() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await log.append(payload)

    async with trio.open_nursery() as nursery:
        for _ in range(outstanding):
            nursery.start_soon(keep_one_outstanding)
    return count / max(CLOCK.monotonic() - began, 1e-9)


async def _look(cluster: LocalCluster, log: VirtualLog, entries: int, rate: float, floor_rate: float) -> Stage:
    segment = (await log.view.current()).chain.last
    sequencer = native_config.decode_untrusted(segment.config).sequencer
    others = [node for node in cluster.nodes if node != sequencer]
    memory = Memory(
        sequencer=resident_bytes(cluster.nodes[sequencer].pid),
        servers=max(resident_bytes(cluster.nodes[node].pid) for node in others),
        client=resident_bytes(os.getpid()),
    )
    reads = await _read_rate(log, min(entries, READ_ENTRIES_MAX))
    restart = await _restart(cluster, log, others[-1], segment, segment.offset((await log.check_tail()).tail))
    return Stage(
        entries=entries,
        ops_per_s=rate,
        floor_ops_per_s=floor_rate,
        memory=memory,
        restarted_memory=resident_bytes(cluster.nodes[others[-1]].pid),
        restart_seconds=restart,
        disk_bytes=disk_bytes(cluster),
        reads_per_s=reads,
    )


async def _read_rate(log: VirtualLog, count: int) -> float:
    """Entries a second, read from the start of the log."""
    began, found, start = CLOCK.monotonic(), 0, await log.find_trim_point()
    async for placed in log.reader(start, LogPosition(start + count)).batches():
        found += len(placed.places) if isinstance(placed, PlacedBatch) else 0
    if found != count:
        raise UnavailableError(f"read {found} of {count} entries")
    return count / max(CLOCK.monotonic() - began, 1e-9)


async def _restart(cluster: LocalCluster, log: VirtualLog, node: NodeId, segment: Segment, tail: int) -> float:
    """Kill a node, start it, and wait until it answers for the loglet; how long that took from the start."""
    await cluster.kill(node)
    began = CLOCK.monotonic()
    await cluster.start(node)
    host, port = split_address(cluster.nodes[node].config.listen)
    services = log.view.environment.services
    while CLOCK.monotonic() - began < RESTART_SECONDS_MAX:
        try:
            # Knock first: a link of ours whose connection is refused would not try again for two seconds.
            await (await trio.open_tcp_stream(host, port)).aclose()
            if (await services.call(node, NativeGetState(segment=segment.id), 1.0)).local_tail >= tail // 2:
                return CLOCK.monotonic() - began
        except (OSError, VirtualLogError):
            await CLOCK.sleep(POLL_SECONDS)
    raise UnavailableError(f"node {node} does not serve its loglet {RESTART_SECONDS_MAX:g} s after its start")


async def _trim(cluster: LocalCluster, log: VirtualLog) -> Trimmed:
    """Trim everything; the files go in the background."""
    before, began, tail = disk_bytes(cluster), CLOCK.monotonic(), (await log.check_tail()).tail
    await log.prefix_trim(LogPosition(tail))
    after, at = before, began
    while CLOCK.monotonic() - began < SETTLE_SECONDS and CLOCK.monotonic() - at < SETTLE_SECONDS / 5:
        found = disk_bytes(cluster)
        if found < after:
            after, at = found, CLOCK.monotonic()
        await CLOCK.sleep(10 * POLL_SECONDS)
    return Trimmed(before_bytes=before, after_bytes=after, seconds=at - began)


def resident_bytes(pid: int | None) -> int:
    """Resident bytes of a running process; 0 if it does not run."""
    if pid is None:
        return 0
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:"))


def disk_bytes(cluster: LocalCluster) -> int:
    """Taken on the disk by the node that takes most."""
    return max(sum(_taken(file) for file in n.config.data.rglob("*")) for n in cluster.nodes.values())


def _taken(file: Path) -> int:
    try:
        return file.stat().st_blocks * 512
    except FileNotFoundError:  # it has just been dropped
        return 0
