"""A tailing reader: every record from a position on, in order, once, across all reconfigurations.

It takes its limits from the chain, never from a loglet alone: the chain says where a closed segment
ends, and a sealed loglet only makes it look at the chain again. A position without data comes as a
typed gap, so everything below `position` has been handed out or is accounted for at each moment.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Final

from virtuallog.client.address_space import AddressSpace
from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import RetryableError, SealedError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, LogPosition, Open, Record

READ_BYTES: Final = 1 << 20
"""Size of one read: some thousand small entries, some milliseconds of work."""
RETRY_SECONDS: Final = (0.01, 1.0)
"""Shortest and longest pause before a read is tried again while no server has the entries."""


class Reader:
    """An iterator over records; `batches()` gives whole batches, `position` is where to resume."""

    def __init__(self, space: AddressSpace, start: LogPosition, stop: LogPosition | None) -> None:
        """Read [start, stop). With None it waits at the tail until it is cancelled, or the log is closed."""
        self._space = space
        self._stop = stop
        self.position: LogPosition = start
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
        """Batches and gaps, adjacent and in order. Ends at `stop`, or at the end of a log closed on purpose.

        Waits while servers do not answer, and does not fail.
        """
        while found := await self.read_piece():
            for placed in found:
                self.position = LogPosition(placed.stop)
                yield placed

    async def read_piece(self) -> Sequence[Placed]:
        """Batches and gaps of one read from `position` on, which stays where it is. Empty at the end, as `batches` has it.

        Waits while servers do not answer, and does not fail.
        """
        pause = RETRY_SECONDS[0]
        while self._stop is None or self.position < self._stop:
            try:
                limit = await self.wait_readable()
                return () if limit is None else await self._space.read(self.position, limit, READ_BYTES)
            except RetryableError:
                await self._space.view.environment.clock.sleep(pause)
                pause = min(2 * pause, RETRY_SECONDS[1])
        return ()

    async def wait_readable(self) -> LogPosition | None:
        """A position beyond `position` up to which can be read now; waits for one. None if the log has ended.

        Raises:
            UnavailableError: the loglet or the MetaStore does not answer.
        """
        space = self._space
        while True:
            chain = (await space.view.current()).chain
            if self.position < chain.start:
                limit = chain.start
            elif (segment := chain.segment_at(self.position)) is None:
                if (await space.view.refresh()).chain.version == chain.version:
                    return None  # closed on purpose, and read to its end
                continue
            elif segment.stop is not None:
                limit = segment.stop
            elif self.position < space.view.known_tail:
                limit = space.view.known_tail
            else:
                await self._wait_tail(segment)
                continue
            return limit if self._stop is None else min(limit, self._stop)

    async def _wait_tail(self, segment: Segment) -> None:
        space = self._space
        try:
            tail = await space.view.loglet(segment).wait_tail(segment.offset(self.position))
        except SealedError:  # dropped
            tail = None
        if isinstance(tail, Open):
            if not space.view.saw_tail(segment.position(tail.tail)) > self.position:
                await space.view.refresh()  # idle: look for trims and changes made by others
        else:
            await space.successors.after(segment.id)


def records(placed: Placed) -> Iterator[Record]:
    """Records of an item that a read returned."""
    if isinstance(placed, Gap):
        yield placed
    else:
        yield from placed.records()
