"""The same without async: a log for threads, scripts and notebooks.

    with connect_blocking("cluster/cluster.toml") as log:
        position = log.append(b"entry")
        for record in log.records(position, stop=log.check_tail().tail):
            ...

One background thread runs the async client. Every method may be called from any number of threads; concurrent appends
share batches. What a method means and raises is what the method of the same name in `virtuallog.virtual_log` says.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import trio

from virtuallog.api import Placed
from virtuallog.cluster_file import ClusterFile
from virtuallog.connect import connect
from virtuallog.reader import READ_BYTES, records
from virtuallog.register import Register
from virtuallog.types import LogPosition, Record, Tail
from virtuallog.virtual_log import VirtualLog

ResultT = TypeVar("ResultT")
_FIRST: Final = LogPosition(0)


class BlockingLog:
    """A VirtualLog for threads. Use `connect_blocking` to get one."""

    def __init__(self, log: VirtualLog, token: trio.lowlevel.TrioToken) -> None:
        """For `connect_blocking`: `token` belongs to the loop that runs `log`."""
        self._log = log
        self._token = token

    def append(self, payload: bytes) -> LogPosition:
        """See `VirtualLog.append`."""
        return self._run(self._log.append, payload)

    def append_many(self, payloads: Sequence[bytes]) -> range:
        """See `VirtualLog.append_many`."""
        return self._run(self._log.append_many, payloads)

    def append_if_tail(self, payload: bytes, expected_tail: LogPosition) -> LogPosition:
        """See `VirtualLog.append_if_tail`."""
        return self._run(self._log.append_if_tail, payload, expected_tail)

    def check_tail(self) -> Tail:
        """See `VirtualLog.check_tail`."""
        return self._run(self._log.check_tail)

    def read(self, start: LogPosition, stop: LogPosition, max_bytes: int = READ_BYTES) -> Sequence[Placed]:
        """See `VirtualLog.read`."""
        return self._run(self._log.read, start, stop, max_bytes)

    def records(self, start: LogPosition = _FIRST, stop: LogPosition | None = None) -> Iterator[Record]:
        """See `VirtualLog.reader`: up to `stop`, or for ever, waiting at the tail."""
        batches = self._log.reader(start, stop).batches()
        while (placed := self._run(_next, batches)) is not None:
            yield from records(placed)

    def prefix_trim(self, position: LogPosition) -> LogPosition:
        """See `VirtualLog.prefix_trim`."""
        return self._run(self._log.prefix_trim, position)

    def seal(self) -> Register:
        """See `VirtualLog.seal`."""
        return self._run(self._log.seal)

    def reconfig_extend(self, kind: str, settings: Mapping[str, str] | None = None) -> Register:
        """See `VirtualLog.reconfig_extend`."""
        return self._run(self._log.reconfig_extend, kind, settings)

    def reconfig_truncate(self) -> Register:
        """See `VirtualLog.reconfig_truncate`."""
        return self._run(self._log.reconfig_truncate)

    def _run(self, function: Callable[..., Awaitable[ResultT]], *arguments: Any) -> ResultT:
        return trio.from_thread.run(function, *arguments, trio_token=self._token)


async def _next(batches: Any) -> Placed | None:
    placed: Placed | None = await anext(batches, None)
    return placed


@contextmanager
def connect_blocking(cluster: str | Path | ClusterFile, **arguments: Any) -> Iterator[BlockingLog]:
    """A client of the cluster's log, for as long as the block runs; arguments and errors as `connect`.

    On the way out calls of other threads that still wait are cancelled: their outcomes are unknown.
    """
    opened: Future[tuple[BlockingLog, Callable[[], None]]] = Future()

    async def hold_open() -> None:
        with trio.CancelScope() as scope:
            async with connect(cluster, **arguments) as log:
                token = trio.lowlevel.current_trio_token()
                opened.set_result((BlockingLog(log, token), lambda: token.run_sync_soon(scope.cancel)))
                await trio.sleep_forever()

    def run() -> None:
        try:
            trio.run(hold_open)
        except BaseException as error:
            if opened.done():
                raise
            opened.set_exception(error)

    thread = threading.Thread(target=run, name="virtuallog client", daemon=True)
    thread.start()
    log, end = opened.result()
    try:
        yield log
    finally:
        end()
        thread.join()
