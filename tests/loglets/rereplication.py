"""Shared parts of tests that move a closed loglet, for kinds with loglets on a small cluster."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, Protocol

import attrs

from tests.loglets.cluster import LogletCluster, LogletT, writer
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.provider import LogletProvider, ReplicatedProvider
from virtuallog.contract.types import LogletOffset, NodeId, Sealed

ENTRIES: Final = [b"entry %d" % number for number in range(20)]


class MovingProvider(LogletProvider, ReplicatedProvider, Protocol):
    """A kind with loglets that can be moved."""


@attrs.define
class Spaced:
    """A pace that counts."""

    moved: list[int] = attrs.field(factory=list)

    async def __call__(self, moved_bytes: int) -> None:
        self.moved.append(moved_bytes)


async def closed(loglet: LogletT, stop: int) -> LogletT:
    """A sealed loglet with `ENTRIES`, each a batch of its own."""
    session = writer(loglet)
    for entry in ENTRIES:
        await session.append(entry)
    await loglet.seal()
    assert await loglet.check_tail() == Sealed(stop)
    return loglet


async def copy(
    provider: MovingProvider,
    cluster: LogletCluster[Any, Any],
    segment: SegmentId,
    servers: Sequence[int],
    stop: int,
    pace: Spaced | None,
    lost: Collection[NodeId],
) -> Loglet:
    """Copy what the servers lack, and open the loglet on them."""
    _, former = cluster.segment_config(segment)
    target = provider.move(segment, former, tuple(NodeId(server) for server in servers))
    environment = cluster.environment()
    await provider.replicate(segment, former, target, LogletOffset(stop), environment, pace or Spaced(), lost)
    return provider.open(segment, target, environment)
