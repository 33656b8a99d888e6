"""The work of `virtuallog append`: append one entry, or the lines of a file in order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import attrs
import click
import trio

from virtuallog.client.appender import Appender
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.connect import connect
from virtuallog.contract.errors import RetryableError, TooLargeError, VirtualLogError
from virtuallog.contract.ports import Clock
from virtuallog.runtime.clock import SystemClock
from virtuallog_server.cli.common import event_loop
from virtuallog_server.cli.common.failures import Failure, Unavailable
from virtuallog_server.cli.common.options import echo_json
from virtuallog_server.cli.common.progress_bar import progress_bar
from virtuallog_server.cli.log.line_splitter import LineSplitter

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

CHUNK_BYTES: Final = 1 << 20
"""Bytes of one read of the input."""
GROUPS_IN_FLIGHT: Final = 4
"""Calls of `append` in progress at a time.

Together they stay below the queue of an appender. So none waits for room, and they are in the log in the order in which
they were started.
"""


def append_one(cluster: ClusterFile, payload: bytes, as_json: bool) -> None:
    """Append one entry and print its position."""
    event_loop.run(_append_one, cluster, payload, as_json)


def append_lines(cluster: ClusterFile, lines: BinaryIO, rate: int | None, as_json: bool) -> None:
    """Append each line as one entry, at most `rate` a second, and print the range of positions."""
    event_loop.run(_append_lines, cluster, lines, rate, as_json)


async def _append_one(cluster: ClusterFile, payload: bytes, as_json: bool) -> None:
    async with connect(cluster, brief=True) as log:
        position = await log.append(payload)
    if as_json:
        echo_json({"position": position})
    else:
        click.echo(position)


async def _append_lines(cluster: ClusterFile, lines: BinaryIO, rate: int | None, as_json: bool) -> None:
    async with connect(cluster, brief=True) as log:
        with log.appender() as appender, progress_bar() as progress:
            run = _Run(appender, progress, RatePacer(rate, SystemClock()))
            await run.append(lines)
    if as_json:
        echo_json({"count": run.count, "first": run.first, "last": run.last})
    elif run.count:
        click.echo(f"{run.count} entries at positions {run.first} to {run.last}")
    else:
        click.echo("nothing to append")


@attrs.define(eq=False)
class RatePacer:
    """Limits a producer to `rate` entries a second. None if there is no limit."""

    rate: int | None
    _clock: Clock
    _began: float = attrs.field(init=False)
    _entries: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._began = self._clock.monotonic()

    async def wait(self, entries: int) -> None:
        """Wait until the next `entries` may be sent."""
        if self.rate is not None:
            due = self._began + self._entries / self.rate
            self._entries += entries
            await self._clock.sleep(max(0.0, due - self._clock.monotonic()))


@attrs.define(eq=False)
class _Run:
    """One `append --lines`. It reads on while groups of lines are in flight."""

    _appender: Appender
    _progress: Progress | None
    _pace: RatePacer
    count: int = attrs.field(default=0, init=False)
    """Acknowledged entries, from the first on without a gap."""
    first: int | None = attrs.field(default=None, init=False)
    last: int | None = attrs.field(default=None, init=False)
    _task: TaskID | None = attrs.field(default=None, init=False)

    async def append(self, lines: BinaryIO) -> None:
        if self._progress is not None:
            self._task = self._progress.add_task("appended", total=None)
        in_flight = trio.Semaphore(GROUPS_IN_FLIGHT)
        try:
            async with trio.open_nursery() as nursery:
                refused = await self._start_groups(lines, in_flight, nursery)
        except* VirtualLogError as group:
            raise self._explained(group) from None
        if refused is not None:
            raise self._explained(refused)

    async def _start_groups(
        self, lines: BinaryIO, in_flight: trio.Semaphore, nursery: trio.Nursery
    ) -> TooLargeError | None:
        """Start to append all groups. Return the error if a line is too long: the lines before it are still appended."""
        try:
            async for group in _groups(lines):
                await self._pace.wait(len(group))
                await in_flight.acquire()
                nursery.start_soon(self._append_group, group, in_flight)
                # The task must hand its group to the appender before the next task starts, or their order would be
                # random: trio starts the tasks of one scheduler turn in any order.
                await trio.lowlevel.checkpoint()
        except TooLargeError as error:
            return error
        return None

    async def _append_group(self, payloads: list[bytes], in_flight: trio.Semaphore) -> None:
        places = await self._appender.append(payloads)
        in_flight.release()
        self.first = places[0] if self.first is None else min(self.first, places[0])
        self.last = places[-1] if self.last is None else max(self.last, places[-1])
        self.count += len(payloads)
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=self.count)

    def _explained(self, error: Any) -> Failure:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        message = f"{error}; the first {self.count} entries are in the log" if self.count else str(error)
        return Unavailable(message) if isinstance(error, RetryableError) else Failure(message)


async def _groups(lines: BinaryIO) -> AsyncIterator[list[bytes]]:
    """Groups of lines, as they arrive. A pipe that pauses does not hold back the lines before the pause."""
    splitter = LineSplitter()
    # Not through the buffered reader: a read that is abandoned on Ctrl-C holds its lock, and the interpreter aborts then.
    source: Any = getattr(lines, "raw", lines)
    while (chunk := await trio.to_thread.run_sync(source.read, CHUNK_BYTES, abandon_on_cancel=True)) != b"":
        if chunk is None:  # another process that shares this stdin has made it non-blocking
            await trio.lowlevel.wait_readable(lines)
            continue
        for group in splitter.feed(chunk):
            yield group
    for group in splitter.finish():
        yield group
