"""Rebuild of a closed segment on other servers: copy, verify, then modify the chain (Delos, section 3.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.chain import Segment, SegmentId
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import InvalidSettingError, UnsupportedError
from virtuallog.contract.ports import Clock
from virtuallog.contract.provider import Pace, ReplicatedProvider, replicated
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog.contract.versions import MOVED_SEGMENTS
from virtuallog.reconfiguration.core.node_table import lost_copies

_COMPLETE = CrashPoint("rebuild: a copy is complete and verified, the chain does not name it", rare=True)

REBUILD_BYTES_PER_SECOND: Final = 32 << 20
"""Bytes per second that one node moves for rebuilds, reading back included. This is a small share of a disk's and a network's
rate, so that appends do not starve. A segment of 1 GiB takes about a minute and a half.
"""


@attrs.define(eq=False)
class RateLimit:
    """A `Pace`: after moving bytes, a caller waits as long as they take at this rate. All rebuilds of a node share one."""

    _clock: Clock
    _bytes_per_second: float = REBUILD_BYTES_PER_SECOND
    _free_at: float = attrs.field(default=0.0, init=False)
    """Time at which all bytes so far have used up their share."""

    async def __call__(self, moved_bytes: int) -> None:
        now = self._clock.monotonic()
        self._free_at = max(self._free_at, now) + moved_bytes / self._bytes_per_second
        await self._clock.sleep(self._free_at - now)


async def rebuild_unless_moved(
    log: VirtualLog, segment_id: SegmentId, servers: tuple[NodeId, ...], pace: Pace, level: Callable[[], int]
) -> None:
    """Rebuild, for callers that read the chain again afterwards: it is no error if another node, such as a healer, has moved the
    segment meanwhile.
    """
    try:
        await rebuild(log, segment_id, servers, pace, level)
    except InvalidSettingError:
        if (await log.view.refresh()).chain.find(segment_id) is not None:
            raise


async def rebuild(
    log: VirtualLog, segment_id: SegmentId, servers: tuple[NodeId, ...], pace: Pace, level: Callable[[], int]
) -> Register:
    """Move a closed segment onto `servers`, as many as it has now or more; the chain names them on return.

    Servers that have it already keep it. A newcomer gets a whole copy, from any former server that lives, in pieces that
    `pace` spaces. So a dead server is replaced, or a living one is drained, by naming the others and a newcomer. A server
    that lost its disk and was replaced (`virtuallog.reconfiguration.core.node_table.lost_copies`) counts as a newcomer, even if it
    stays. Returns the register as it is then; does nothing if the segment is on these servers already. The segment has another id
    afterwards: look it up by its start.

    If cancelled or killed anywhere, finished copies stay, and the next call, by any node, continues there. Two at once are
    harmless: the put elects one. A server that was left out keeps its copy until the segments before are trimmed; it may
    be shut down at once.

    Raises:
        InvalidSettingError: the segment is open, or not in the chain (another node may have moved it); or these servers
            cannot hold it; or one of them got another data directory meanwhile: nothing was put, ask again.
        UnsupportedError: this kind of loglet is not made of copies on nodes; or a node of the cluster speaks a version of
            the protocol that does not know moved segments (`level` returns the least version of all nodes, by the newest
            register that this one has seen).
        UnavailableError: not enough servers answered; may be called again. If the put itself was not answered, the
            outcome is unknown.
        CorruptionError: the copy that a newcomer gave back differs from the original.
    """
    found = await log.view.refresh()
    if level() < MOVED_SEGMENTS:  # such a node would drop the copies of a moved segment: it goes by the id in the chain
        raise UnsupportedError(
            f"a node speaks protocol version {level()} only: segments are moved once all are upgraded"
        )
    segment = found.chain.find(segment_id)
    if segment is None:
        raise InvalidSettingError(f"segment {segment_id}", "is not in the chain")
    provider = _replicated(log, segment)
    former = provider.placement(segment.config).servers
    lost = lost_copies(found, segment, former)
    if set(former) == set(servers) and not lost:
        return found
    target = provider.move(segment.id, segment.config, servers)
    directories = {server: found.nodes[server].store_id for server in servers if server in found.nodes}
    await _copy(log, provider, segment, target, lost, pace)
    _COMPLETE.reached()
    return await log.reconfig_modify(segment.id, segment.kind, target, segment.base, directories)


def _replicated(log: VirtualLog, segment: Segment) -> ReplicatedProvider:
    provider = replicated(log.view.provider(segment.kind))
    if provider is None:
        raise UnsupportedError(f"a loglet of kind {segment.kind} cannot be moved to other nodes")
    return provider


async def _copy(
    log: VirtualLog,
    provider: ReplicatedProvider,
    segment: Segment,
    target: bytes,
    lost: frozenset[NodeId],
    pace: Pace,
) -> None:
    if segment.stop is None:
        raise InvalidSettingError(f"segment {segment.id}", "is open; extend the chain to close it")
    stop, environment = segment.offset(segment.stop), log.view.environment
    await provider.replicate(segment.id, segment.config, target, stop, environment, pace, lost)
