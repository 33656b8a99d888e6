"""Readers of the log for asyncio. They fetch a piece on each way to the other loop, and hold one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

import attrs

from virtuallog.client.reader import Reader, records
from virtuallog.client.scan import Scan
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, LogPosition, Record
from virtuallog.runtime.bridge.asyncio_bridge import AsyncioBridge, Pieces


class AsyncioReader:
    """An iterator over records; `batches()` gives whole batches, `position` is where to resume.

    Left early, nothing of it stays: between two pieces it has no task.
    """

    def __init__(self, reader: Reader, bridge: AsyncioBridge, stop: LogPosition | None) -> None:
        """Read what `reader` reads, up to its `stop`. With None it waits at the tail until it is cancelled, or the log is closed."""
        self._reader = reader
        self._bridge = bridge
        self._stop = stop
        self.position: LogPosition = reader.position
        """First position not handed out yet."""

    async def __aiter__(self) -> AsyncGenerator[Record, None]:
        async with aclosing(self.batches()) as found:
            async for placed in found:
                stop = self.position
                for record in records(placed):
                    # A consumer that stops in the middle of a batch can resume there.
                    self.position = LogPosition(record.stop if isinstance(record, Gap) else record.position + 1)
                    yield record
                self.position = stop

    async def batches(self) -> AsyncGenerator[Placed, None]:
        """See `Reader.batches`."""
        while found := await self.read_piece():
            for placed in found:
                self.position = LogPosition(placed.stop)
                yield placed

    async def read_piece(self) -> Sequence[Placed]:
        """See `Reader.read_piece`."""
        if self._stop is not None and self.position >= self._stop:
            return ()
        return await self._bridge.wait(self._read_at, self.position)

    async def wait_readable(self) -> LogPosition | None:
        """See `Reader.wait_readable`."""
        return await self._bridge.wait(self._wait_at, self.position)

    async def _read_at(self, position: LogPosition) -> Sequence[Placed]:
        self._reader.position = position
        return await self._reader.read_piece()

    async def _wait_at(self, position: LogPosition) -> LogPosition | None:
        self._reader.position = position
        return await self._reader.wait_readable()


@attrs.define(eq=False)
class AsyncioScan(AsyncIterator[Sequence[Placed]]):
    """Iterator over pieces; made by `virtuallog.aio.scan`."""

    _scan: Scan
    _bridge: AsyncioBridge
    position: LogPosition
    """First position not handed out yet: where another scan would go on."""
    _pieces: Pieces[Sequence[Placed]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._pieces = Pieces(self._bridge, self._next)

    def __aiter__(self) -> AsyncioScan:
        return self

    async def __anext__(self) -> Sequence[Placed]:
        """The next piece. A cancelled call loses none."""
        piece = await self._pieces.next()
        if not piece:
            raise StopAsyncIteration
        self.position = LogPosition(piece[-1].stop)
        return piece

    async def _next(self) -> Sequence[Placed]:
        try:
            return await anext(self._scan)
        except StopAsyncIteration:
            return ()
