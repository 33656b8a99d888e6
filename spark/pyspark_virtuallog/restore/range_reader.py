"""Reads a range of a log from the remaining sources: archives, and the log itself.

Sources overlap, and a restore happens because something is broken. So what one source cannot give
(gone, damaged or lost) is read from another one that has it. All of them check their content, so
any of them will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from pyspark_virtuallog.restore.coverage import Span, cover, preferred
from pyspark_virtuallog.restore.sources import What
from virtuallog.client.scan import RETRY_LIMIT_SECONDS, read_with_retry
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import Gap, GapKind, LogPosition, PlacedBatch
from virtuallog.runtime import log
from virtuallog_loglets.archive.config import ArchiveConfig
from virtuallog_loglets.archive.creation.segment_source import READ_BYTES, ReadableSegment, SegmentSource
from virtuallog_loglets.archive.drivers.fsspec_files import FsspecFiles
from virtuallog_loglets.archive.loglet import ArchiveLoglet

_GONE: Final = (GapKind.TRIMMED, GapKind.LOST)


@attrs.frozen
class LiveReader:
    """Source: the log itself."""

    log: VirtualLog

    async def read(self, start: int, stop: int) -> Sequence[Placed]:
        """See `VirtualLog.read`; retries."""
        return await read_with_retry(self.log, LogPosition(start), LogPosition(stop), READ_BYTES, RETRY_LIMIT_SECONDS)


@attrs.define(eq=False)
class RangeReader:
    """A covered range of the log. A `ReadableSegment`: an archive can be made of it."""

    _spans: Sequence[Span[ReadableSegment]]
    _failed: set[int] = attrs.field(factory=set, init=False)
    """Numbers of spans that failed once: they are asked last from then on."""

    async def read(self, start: int, stop: int) -> Sequence[Placed]:
        """Items of [start, stop), from `start` on, without holes: at least one, some MiB of them. A
        gap if lost in all sources that should have it.

        Raises:
            UnavailableError: a part of it has been trimmed since the sources were found; find them
                again.
            VirtualLogError: the first source's error, if no other one helps.
        """
        failure: VirtualLogError | None = None
        lost: Gap | None = None
        for number in preferred(self._spans, start, self._failed):
            span = self._spans[number]
            try:
                found = _what_is_there(await span.what.read(start, min(stop, span.stop)))
            except VirtualLogError as error:
                failure = failure or error
            else:
                if not (isinstance(found[0], Gap) and found[0].kind in _GONE):
                    return found
                lost = found[0] if found[0].kind is GapKind.LOST else lost
            self._failed.add(number)
            log.warning("a source lacks a part of the log", start=start, source=(span.start, span.stop), reason=failure)
        if failure is not None or lost is None:  # a source that failed may have what others have lost
            raise failure or UnavailableError(f"positions from {start} on have been trimmed meanwhile")
        return [lost]

    async def first_batch(self, start: LogPosition, stop: LogPosition) -> PlacedBatch | None:
        """See `virtuallog.client.time_search.FirstBatch`."""
        while start < stop:
            for placed in await self.read(start, stop):
                if isinstance(placed, PlacedBatch):
                    return placed
                start = LogPosition(placed.stop)
        return None


def _what_is_there(found: Sequence[Placed]) -> Sequence[Placed]:
    """Items up to the first gap that another source may fill; that gap alone, if it comes first."""
    for number, item in enumerate(found):
        if isinstance(item, Gap) and item.kind in _GONE:
            return found[: max(1, number)]
    return found


def open_reading(
    spans: Sequence[Span[What]], start: int, stop: int, log: VirtualLog | None, clock: Clock
) -> RangeReader:
    """Reader of [start, stop).

    Args:
        spans: the sources.
        start: first position.
        stop: one past the last.
        log: the log itself, if it is among the spans.
        clock: clock for timeouts.

    Raises:
        InvalidSettingError: the range is not covered.
    """

    def opened(what: What) -> ReadableSegment:
        if isinstance(what, ArchiveConfig):
            return SegmentSource(ArchiveLoglet(what, FsspecFiles(what.location), clock, None), 0, clock)
        assert log is not None
        return LiveReader(log)

    cover(spans, start, stop)
    return RangeReader([Span(span.start, span.stop, opened(span.what)) for span in spans])
