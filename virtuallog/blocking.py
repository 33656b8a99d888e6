"""A blocking client of a log: for threads, scripts and notebooks.

    with connect_blocking("cluster/cluster.toml") as log:
        position = log.append(b"entry")
        for record in log.records(position, stop=log.check_tail().tail):
            ...

One background thread runs the async client. All methods may be called from any number of threads; concurrent
appends share batches. Each method does and raises the same as the method of that name in
`virtuallog.client.virtual_log`.

The way to that thread and back costs some tenth of a millisecond per call. So move much in one call (`scan`,
`append_many`), or do more there with `run`.

Behind the block all methods raise ClientClosedError: nothing was done. A call that the end of the block interrupts raises UnavailableError:
unknown outcome.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import trio

from virtuallog.client.appender import Appender, AppenderSettings
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.client.reader import READ_BYTES, records
from virtuallog.client.scan import PIECE_BYTES, RETRY_LIMIT_SECONDS, scan
from virtuallog.client.time_search import find_time
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.batch import SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.ports import ReplyT, Request
from virtuallog.contract.register import Register
from virtuallog.contract.types import LogletOffset, LogPosition, NodeId, Record, Tail
from virtuallog.runtime.bridge_errors import ClientClosedError
from virtuallog.runtime.loop_thread import LoopThread, open_in_thread

ResultT = TypeVar("ResultT")
ParametersT = ParamSpec("ParametersT")
_FIRST: Final = LogPosition(0)
_ORIGIN: Final = LogletOffset(0)


class BlockingLog:
    """A VirtualLog for threads. Use `connect_blocking` to get one."""

    def __init__(self, loop: LoopThread[VirtualLog]) -> None:
        """Make no call yet; the log runs on the loop of a thread."""
        self._log = loop.opened
        self._loop = loop

    @property
    def is_open(self) -> bool:
        """False once its loop has ended: all calls fail, and a new client is needed."""
        try:
            self._loop.token.run_sync_soon(lambda: None)
        except trio.RunFinishedError:
            return False
        return True

    def append(self, payload: bytes) -> LogPosition:
        """Append one entry; see `VirtualLog.append`."""
        return self._run(self._log.append, payload)

    def append_many(self, payloads: Sequence[bytes]) -> range:
        """Append entries side by side; see `VirtualLog.append_many`."""
        return self._run(self._log.append_many, payloads)

    def append_if_tail(self, payload: bytes, expected_tail: LogPosition) -> LogPosition:
        """Append an entry at the expected tail only; see `VirtualLog.append_if_tail`."""
        return self._run(self._log.append_if_tail, payload, expected_tail)

    def check_tail(self) -> Tail:
        """First unwritten position; see `VirtualLog.check_tail`."""
        return self._run(self._log.check_tail)

    def read(self, start: LogPosition, stop: LogPosition, max_bytes: int = READ_BYTES) -> Sequence[Placed]:
        """Read batches and gaps; see `VirtualLog.read`."""
        return self._run(self._log.read, start, stop, max_bytes)

    def records(self, start: LogPosition = _FIRST, stop: LogPosition | None = None) -> Iterator[Record]:
        """Read records up to `stop`, or for ever, waiting at the tail; see `VirtualLog.reader`."""
        batches = self._log.reader(start, stop).batches()
        while (placed := self._run(_next, batches)) is not None:
            yield from records(placed)

    def scan(
        self,
        start: LogPosition,
        stop: LogPosition,
        *,
        patience: float = RETRY_LIMIT_SECONDS,
        piece_bytes: int = PIECE_BYTES,
    ) -> Iterator[Sequence[Placed]]:
        """Read a range in big pieces; see `virtuallog.client.scan.scan`.

        The next piece is read while the caller works on one. The iterator need not be closed.
        """
        pieces = scan(self._log, start, stop, patience=patience, piece_bytes=piece_bytes)
        while (piece := self._run(_next, pieces)) is not None:
            yield piece

    def find_time(self, milliseconds: int, *, patience: float = RETRY_LIMIT_SECONDS) -> LogPosition:
        """Position of a time of day, approximate by the difference of clocks of nodes.

        See `virtuallog.client.time_search.find_time`.
        """
        return self.run(find_time, milliseconds, patience=patience)

    def find_trim_point(self) -> LogPosition:
        """First position that has not been trimmed; see `VirtualLog.find_trim_point`."""
        return self._run(self._log.find_trim_point)

    def register(self) -> Register:
        """Read the register.

        Raises:
            UnavailableError: no majority of the MetaStore answered.
        """
        return self._run(self._log.view.refresh)

    @contextmanager
    def appender(self, settings: AppenderSettings | None = None) -> Iterator[BlockingAppender]:
        """Open a new session, which ends with the block; see `VirtualLog.appender`."""
        opened = self.run(_open_appender, settings)
        try:
            yield BlockingAppender(self, opened)
        finally:
            with suppress(ClientClosedError, UnavailableError):  # the client has ended, and all its sessions with it
                self.run(_close_appender, opened)

    def prefix_trim(self, position: LogPosition) -> LogPosition:
        """Drop everything below `position`; see `VirtualLog.prefix_trim`."""
        return self._run(self._log.prefix_trim, position)

    def seal(self) -> Register:
        """Close the log on purpose; see `VirtualLog.seal`."""
        return self._run(self._log.seal)

    def reconfig_extend(self, kind: str, settings: Mapping[str, str] | None = None) -> Register:
        """Continue the log on a new loglet; see `VirtualLog.reconfig_extend`."""
        return self._run(self._log.reconfig_extend, kind, settings)

    def reconfig_truncate(self) -> Register:
        """Drop trimmed segments from the chain; see `VirtualLog.reconfig_truncate`."""
        return self._run(self._log.reconfig_truncate)

    def reconfig_modify(
        self,
        segment: SegmentId,
        kind: str,
        config: bytes,
        base: LogletOffset = _ORIGIN,
        directories: Mapping[NodeId, bytes] | None = None,
    ) -> Register:
        """Put another loglet under a closed segment; see `VirtualLog.reconfig_modify`."""
        return self._run(self._log.reconfig_modify, segment, kind, config, base, directories)

    def call(self, node: NodeId, request: Request[ReplyT], timeout_seconds: float) -> ReplyT:
        """Send a request of an interface in `connect_blocking(more=...)`; see `contract.ports.Services.call`."""
        reply: ReplyT = self._run(self._log.view.environment.services.call, node, request, timeout_seconds)
        return reply

    def run(
        self,
        function: Callable[Concatenate[VirtualLog, ParametersT], Awaitable[ResultT]],
        *arguments: ParametersT.args,
        **named: ParametersT.kwargs,
    ) -> ResultT:
        """Run an async function of the VirtualLog on the client's loop; returns its result, or raises its error."""
        return self._run(partial(function, self._log, *arguments, **named))

    def _run(self, function: Callable[..., Awaitable[ResultT]], *arguments: Any) -> ResultT:
        return self._loop.run(function, *arguments)


class BlockingAppender:
    """A session of a BlockingLog. Entries of calls by one thread are in the log in that order."""

    def __init__(self, log: BlockingLog, appender: Appender) -> None:
        """Wrap an open appender of `log`."""
        self._log = log
        self._appender = appender

    @property
    def session(self) -> SessionId:
        """Name of this session's entries in the log; see `Appender.session`."""
        return self._appender.session

    def append(self, payloads: list[bytes]) -> range:
        """Append entries side by side; see `Appender.append`."""
        return self._log.run(lambda _: self._appender.append(payloads))


async def _open_appender(log: VirtualLog, settings: AppenderSettings | None) -> Appender:
    return log.appender(settings)


async def _close_appender(_: VirtualLog, appender: Appender) -> None:
    appender.close()


async def _next(found: AsyncIterator[ResultT]) -> ResultT | None:
    return await anext(found, None)


@contextmanager
def connect_blocking(cluster: str | Path | ClusterFile, **arguments: Any) -> Iterator[BlockingLog]:
    """Open a blocking client of the cluster's log; arguments and errors as `connect`.

    At the end of the block it is closed. Calls of other threads that still wait are cancelled: unknown outcome.
    """
    with open_in_thread(partial(connect, cluster, **arguments), "virtuallog client") as loop:
        yield BlockingLog(loop)
