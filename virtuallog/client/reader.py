"""A tailing reader: every record from a position on, in order, once, across all reconfigurations.

It takes its limits from the chain, never from a loglet alone: where a closed segment ends is what the chain says, and
a sealed loglet only makes it look at the chain again. Whatever a position holds instead of data comes as a typed gap,
so a consumer knows at each moment that everything below `position` has been seen or is accounted for.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Final

from virtuallog.client.address_space import AddressSpace
from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import RetryableError, SealedError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, LogPosition, Open, Record

READ_BYTES: Final = 1 << 20
"""How much one call brings: some thousand small entries, some milliseconds of work."""
RETRY_SECONDS: Final = (0.01, 1.0)
"""First and longest pause before a read is tried again while no server has the entries."""


class Reader:
    """Iterate over it for records, over `batches()` for whole batches; `position` is where to resume."""

    def __init__(self, space: AddressSpace, start: LogPosition, stop: LogPosition | None) -> None:
        """Reads [start, stop); without `stop` it waits at the tail until it is cancelled, or the log is closed."""
        self._space = space
        self._stop = stop
        self.position: LogPosition = start
        """First position that has not been handed out."""

    async def __aiter__(self) -> AsyncGenerator[Record, None]:
        async with aclosing(self.batches()) as found:
            async for placed in found:
                stop = self.position
                for record in records(placed):
                    # Left in the middle of a batch, a reader resumes in the middle of it.
                    self.position = LogPosition(record.stop if isinstance(record, Gap) else record.position + 1)
                    yield record
                self.position = stop

    async def batches(self) -> AsyncGenerator[Placed, None]:
        """Batches and gaps, adjacent and in order. Ends at `stop`, or at the end of a log closed on purpose.

        Servers that do not answer make it wait, not fail.
        """
        pause = RETRY_SECONDS[0]
        while self._stop is None or self.position < self._stop:
            try:
                limit = await self.wait_readable()
                if limit is None:
                    return
                found = await self._space.read(self.position, limit, READ_BYTES)
            except RetryableError:
                await self._space.view.environment.clock.sleep(pause)
                pause = min(2 * pause, RETRY_SECONDS[1])
                continue
            pause = RETRY_SECONDS[0]
            for placed in found:
                self.position = LogPosition(placed.stop)
                yield placed

    async def wait_readable(self) -> LogPosition | None:
        """A position beyond ours up to which can be read now; waits until there is one. None: the log has ended.

        Raises:
            UnavailableError: nobody answers who could say so.
        """
        space = self._space
        while True:
            chain = (await space.view.current()).chain
            if self.position < chain.start:
                limit = chain.start
            elif (segment := chain.segment_at(self.position)) is None:
                if (await space.view.refresh()).chain.version == chain.version:
                    return None  # closed on purpose, and we are at its end
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
                await space.view.refresh()  # idle: look for trims and changes that nobody told us of
        else:
            await space.successors.after(segment.id)


def records(placed: Placed) -> Iterator[Record]:
    """The records in what a read returned."""
    if isinstance(placed, Gap):
        yield placed
    else:
        yield from placed.records()
