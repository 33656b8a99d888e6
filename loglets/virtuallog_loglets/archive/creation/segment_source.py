"""Source of an archive: a closed segment, read by positions of the log."""

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
"""Bytes of one read of the loglet."""
PATIENCE_SECONDS: Final = 60.0
"""Seconds that a loglet may be silent before its reader gives up: some servers may be restarting."""
PAUSE_SECONDS: Final = 0.5
"""Pause, in seconds, between a failed read and the next attempt."""


class ReadableSegment(Protocol):
    """Readable segment, from which an archive can be made."""

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
        """Read entries (see `Loglet.read`); waits while they are unavailable for a while.

        Raises:
            UnavailableError: for too long.
            VirtualLogError: as the loglet.
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
        """True if everything from the start of the segment up to `stop` is trimmed. A server that
        lags may still have it: then the loglet is asked."""
        (last, *_) = await self.read(stop - 1, stop)
        if isinstance(last, Gap) and last.kind is GapKind.TRIMMED:
            return True
        return await self.loglet.prefix_trim(LogletOffset(start - self.shift)) + self.shift >= stop


def joined(items: Sequence[Placed], item: Placed) -> Gap | None:
    """The last item and the next one as one gap if both are gaps of the same kind; else None."""
    last = items[-1] if items else None
    if isinstance(last, Gap) and isinstance(item, Gap) and last.kind is item.kind and last.stop == item.start:
        return Gap(last.start, item.stop, item.kind)
    return None
