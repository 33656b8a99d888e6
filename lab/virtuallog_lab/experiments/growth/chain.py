"""Extends a chain often, and measures what stays of it in the register and on the nodes. See
`growth.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import attrs

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.types import LogPosition
from virtuallog_lab.experiments.growth.stages import CLOCK, disk_bytes, resident_bytes
from virtuallog_lab.harness.report import tell
from virtuallog_server.local_cluster.supervisor import LocalCluster

LOOKS: Final = 10
"""Number of looks at the cluster on the way."""
FILLED_EVERY: Final = 2
"""Each second loglet gets an entry: the others leave the chain as soon as they are closed."""
TRIM_EVERY: Final = 50
"""Reconfigurations from one trim to the next, so that up to 25 segments are in the chain."""


@attrs.frozen(kw_only=True)
class ChainLook:
    """After so many reconfigurations."""

    reconfigurations: int
    register_bytes: int
    register_bytes_max: int
    """The largest so far: just before a trim."""
    segments: int
    resident_bytes: int
    """Bytes of the largest node."""
    disk_bytes: int
    """Bytes of the node that takes most; its votes for the register alone are in `metastore_bytes`."""
    metastore_bytes: int
    per_s: float
    """Reconfigurations a second, since the look before."""

    def plain(self) -> dict[str, Any]:
        return attrs.asdict(self)


async def extend_often(cluster: LocalCluster, log: VirtualLog, count: int) -> list[ChainLook]:
    """Extend the chain `count` times.

    Raises:
        VirtualLogError: a change could not be made.
    """
    looks: list[ChainLook] = []
    largest, began, before = 0, CLOCK.monotonic(), 0
    wanted = _steps(count)
    stop = next(wanted)
    for number in range(1, count + 1):
        register = await log.reconfig_extend("native", {})
        if number % FILLED_EVERY == 0:
            await log.append(b"x" * 100)
        largest = max(largest, len(register.encode()))
        if number % TRIM_EVERY == 0:
            await log.prefix_trim(LogPosition((await log.check_tail()).tail))
        if number == stop:
            seconds = CLOCK.monotonic() - began
            looks.append(await _look(cluster, log, number, largest, (number - before) / seconds))
            tell(f"{number:>8,} reconfigurations: register of at most {largest:,} bytes")
            began, before, stop = CLOCK.monotonic(), number, next(wanted, 0)
    return looks


def _steps(count: int) -> Iterator[int]:
    return iter(sorted({max(1, count * step // LOOKS) for step in range(1, LOOKS + 1)}))


async def _look(cluster: LocalCluster, log: VirtualLog, number: int, largest: int, rate: float) -> ChainLook:
    register = await log.view.current()
    votes = [node.config.data / "values" / "metastore" for node in cluster.nodes.values()]
    return ChainLook(
        reconfigurations=number,
        register_bytes=len(register.encode()),
        register_bytes_max=largest,
        segments=len(register.chain.segments),
        resident_bytes=max(resident_bytes(node.pid) for node in cluster.nodes.values()),
        disk_bytes=disk_bytes(cluster),
        metastore_bytes=max(sum(file.stat().st_size for file in folder.iterdir()) for folder in votes),
        per_s=rate,
    )
