"""The log for asyncio: `connect`, `AsyncioLog`, `scan` and `find_time`.

Each method does and raises the same as the method of that name in `virtuallog.client`. A cancelled call is cancelled there,
too, and `CancelledError` comes when it has ended (`virtuallog.runtime.bridge.asyncio_bridge`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar

from virtuallog.aio.appender import AsyncioAppender
from virtuallog.aio.grouped_appends import GroupedAppends
from virtuallog.aio.reader import AsyncioReader, AsyncioScan
from virtuallog.client import time_search
from virtuallog.client.appender import AppenderSettings
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.client.scan import PIECE_BYTES, RETRY_LIMIT_SECONDS
from virtuallog.client.scan import scan as trio_scan
from virtuallog.client.virtual_log import VirtualLog, VirtualLogSettings, VirtualLogStatistics
from virtuallog.connect import connect as trio_connect
from virtuallog.contract.capnp_interface import Interface
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.loglet import Placed
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.ports import ReplyT, Request
from virtuallog.contract.provider import LogletProvider
from virtuallog.contract.register import Register
from virtuallog.contract.types import LogletOffset, LogPosition, NodeId, Tail
from virtuallog.runtime.bridge.asyncio_bridge import AsyncioBridge, open_bridge
from virtuallog.runtime.bridge.shared_call import SharedCall
from virtuallog.runtime.bridge_errors import CompletedError

ResultT = TypeVar("ResultT")
ParametersT = ParamSpec("ParametersT")
_FIRST: Final = LogPosition(0)
_ORIGIN: Final = LogletOffset(0)


class AsyncioLog:
    """A VirtualLog for asyncio. Use `virtuallog.aio.connect` to get one; all methods may be called by many tasks at once."""

    def __init__(self, log: VirtualLog, bridge: AsyncioBridge) -> None:
        """Make no call yet; `bridge` leads to the loop that runs `log`."""
        self._log = log
        self._bridge = bridge
        self._appends = GroupedAppends(bridge, log.appender_settings, log.post, log.append_many)
        self._tail = SharedCall(bridge, log.check_tail)

    @property
    def is_open(self) -> bool:
        """False once its block has ended, or its thread has failed: all calls fail, and a new client is needed."""
        return self._bridge.is_open

    @property
    def wake_ups(self) -> int:
        """Times that one of the two loops was woken by the other, of the whole client so far."""
        return self._bridge.trio_wake_ups + self._bridge.asyncio_wake_ups

    # -- the log ------------------------------------------------------------------------------------------------

    async def append(self, payload: bytes) -> LogPosition:
        """See `VirtualLog.append`. Cancelled, it has an unknown outcome unless `__cause__` of the CancelledError has one.

        Entries of one loop are in the log in the order of the calls, as long as the client has room for them.
        """
        try:
            return LogPosition((await self._appends.append((payload,))).start)
        except asyncio.CancelledError as error:
            if isinstance(error.__cause__, CompletedError):
                error.__cause__ = CompletedError(LogPosition(error.__cause__.result.start))
            raise

    async def append_many(self, payloads: Sequence[bytes]) -> range:
        """See `VirtualLog.append_many`, and `append`."""
        return await self._appends.append(list(payloads)) if payloads else range(0)

    async def append_if_tail(self, payload: bytes, expected_tail: LogPosition) -> LogPosition:
        """See `VirtualLog.append_if_tail`."""
        return await self._bridge.call(self._log.append_if_tail, payload, expected_tail)

    def appender(self, settings: AppenderSettings | None = None) -> AsyncioAppender:
        """A new session, which begins and ends with an `async with` block; see `VirtualLog.appender`."""
        return AsyncioAppender(self._log, self._bridge, settings)

    async def check_tail(self) -> Tail:
        """See `VirtualLog.check_tail`. Tasks that ask within one turn of the loop share one call."""
        return await self._tail.ask()

    async def read(self, start: LogPosition, stop: LogPosition, max_bytes: int = 1 << 20) -> Sequence[Placed]:
        """See `VirtualLog.read`."""
        return await self._bridge.call(self._log.read, start, stop, max_bytes)

    def reader(self, start: LogPosition = _FIRST, stop: LogPosition | None = None) -> AsyncioReader:
        """See `VirtualLog.reader`. Each way to the other loop brings about a MiB."""
        return AsyncioReader(self._log.reader(start, stop), self._bridge, stop)

    async def prefix_trim(self, position: LogPosition) -> LogPosition:
        """See `VirtualLog.prefix_trim`."""
        return await self._bridge.call(self._log.prefix_trim, position)

    async def find_trim_point(self) -> LogPosition:
        """See `VirtualLog.find_trim_point`."""
        return await self._bridge.call(self._log.find_trim_point)

    async def statistics(self) -> VirtualLogStatistics:
        """See `VirtualLog.statistics`. Here it takes a way to the other loop."""
        return await self._bridge.call_sync(self._log.statistics)

    async def metrics(self) -> list[MetricFamily]:
        """See `VirtualLog.metrics`. Here it takes a way to the other loop."""
        return await self._bridge.call_sync(self._log.metrics)

    async def register(self) -> Register:
        """Read the register.

        Raises:
            UnavailableError: no majority of the MetaStore answered.
        """
        return await self._bridge.call(self._log.view.refresh)

    # -- changes of the chain -----------------------------------------------------------------------------------

    async def reconfig_extend(
        self, kind: str, settings: Mapping[str, str] | None = None, only_at: int | None = None
    ) -> Register:
        """See `VirtualLog.reconfig_extend`."""
        return await self._bridge.call(self._log.reconfig_extend, kind, settings, only_at)

    async def reconfig_truncate(self) -> Register:
        """See `VirtualLog.reconfig_truncate`."""
        return await self._bridge.call(self._log.reconfig_truncate)

    async def reconfig_modify(
        self,
        segment: SegmentId,
        kind: str,
        config: bytes,
        base: LogletOffset = _ORIGIN,
        directories: Mapping[NodeId, bytes] | None = None,
    ) -> Register:
        """See `VirtualLog.reconfig_modify`."""
        return await self._bridge.call(self._log.reconfig_modify, segment, kind, config, base, directories)

    async def reconfig_members(self, members: Sequence[NodeId], seen: Sequence[NodeId] | None = None) -> Register:
        """See `VirtualLog.reconfig_members`."""
        return await self._bridge.call(self._log.reconfig_members, members, seen)

    async def seal(self) -> Register:
        """See `VirtualLog.seal`."""
        return await self._bridge.call(self._log.seal)

    # -- more on the other loop ---------------------------------------------------------------------------------

    async def call(self, node: NodeId, request: Request[ReplyT], timeout_seconds: float) -> ReplyT:
        """Send a request of an interface in `connect(more=...)`; see `contract.ports.Services.call`."""
        services = self._log.view.environment.services
        reply: ReplyT = await self._bridge.call(services.call, node, request, timeout_seconds)
        return reply

    async def run(
        self,
        function: Callable[Concatenate[VirtualLog, ParametersT], Awaitable[ResultT]],
        *arguments: ParametersT.args,
        **named: ParametersT.kwargs,
    ) -> ResultT:
        """Run a trio function of the VirtualLog on the client's loop; returns its result, or raises its error."""
        return await self._bridge.call(partial(function, self._log, *arguments, **named))


@asynccontextmanager
async def connect(
    cluster: str | Path | ClusterFile,
    *,
    providers: Mapping[str, LogletProvider] | None = None,
    settings: VirtualLogSettings | None = None,
    more: Sequence[Interface] = (),
    near: NodeId | None = None,
    expected_cluster: bytes | None = None,
    brief: bool = False,
) -> AsyncIterator[AsyncioLog]:
    """Open a client of the cluster's log for asyncio; arguments and errors as `virtuallog.connect`.

    It is for the running event loop. At the end of the block it is closed; calls of other tasks that still wait raise
    UnavailableError: unknown outcome.
    """
    opens = partial(
        trio_connect,
        cluster,
        providers=providers,
        settings=settings,
        more=more,
        near=near,
        expected_cluster=expected_cluster,
        brief=brief,
    )
    async with open_bridge(opens, "virtuallog client") as found:
        yield AsyncioLog(found.opened, found.bridge)


def scan(
    log: AsyncioLog,
    start: LogPosition,
    stop: LogPosition,
    *,
    patience: float = RETRY_LIMIT_SECONDS,
    piece_bytes: int = PIECE_BYTES,
) -> AsyncioScan:
    """Read a range in big pieces; see `virtuallog.client.scan.scan`."""
    pieces = trio_scan(log._log, start, stop, patience=patience, piece_bytes=piece_bytes)  # noqa: SLF001 -- its own
    return AsyncioScan(pieces, log._bridge, start)  # noqa: SLF001


async def find_time(log: AsyncioLog, milliseconds: int, *, patience: float = RETRY_LIMIT_SECONDS) -> LogPosition:
    """Position of a time of day; see `virtuallog.client.time_search.find_time`."""
    return await log.run(time_search.find_time, milliseconds, patience=patience)
