"""A closed segment that is read to be archived, or to be compared with its archive: positions in, positions out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import attrs

from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import RetryableError
from virtuallog.contract.loglet import Loglet, Placed
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import Gap, GapKind, LogletOffset

READ_BYTES: Final = 1 << 20
PATIENCE_SECONDS: Final = 60.0
"""How long a loglet may be silent before whoever reads it gives up: some servers may be restarting."""
PAUSE_SECONDS: Final = 0.5


class ReadableSegment(Protocol):
    """What an archive can be made of."""

    async def read(self, start: int, stop: int) -> Sequence[Placed]:
        """See `VirtualLog.read`."""
        ...


@attrs.frozen(eq=False)
class SegmentSource:
    """One loglet, whose offsets are `shift` below the positions of the log."""

    loglet: Loglet
    shift: int
    clock: Clock

    @classmethod
    def of(cls, loglet: Loglet, segment: Segment, clock: Clock) -> SegmentSource:
        return cls(loglet, segment.shift, clock)

    async def read(self, start: int, stop: int) -> Sequence[Placed]:
        """See `Loglet.read`; what is unavailable for a while is waited for.

        Raises:
            UnavailableError: for too long.
            VirtualLogError: what the loglet raises.
        """
        deadline = self.clock.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                first, last = LogletOffset(start - self.shift), LogletOffset(stop - self.shift)
                return [item.shift(self.shift) for item in await self.loglet.read(first, last, READ_BYTES)]
            except RetryableError:
                if self.clock.monotonic() >= deadline:
                    raise
                await self.clock.sleep(PAUSE_SECONDS)

    async def is_trimmed(self, start: int, stop: int) -> bool:
        """Whether everything from the start of the segment on is. A server that lags behind may still have it: then the loglet
        is asked."""
        (last, *_) = await self.read(stop - 1, stop)
        if isinstance(last, Gap) and last.kind is GapKind.TRIMMED:
            return True
        return await self.loglet.prefix_trim(LogletOffset(start - self.shift)) + self.shift >= stop


def joined(items: Sequence[Placed], item: Placed) -> Gap | None:
    """The last of the items and the next one as one gap, if both are of the same kind."""
    last = items[-1] if items else None
    if isinstance(last, Gap) and isinstance(item, Gap) and last.kind is item.kind and last.stop == item.start:
        return Gap(last.start, item.stop, item.kind)
    return None
