"""Reads a range of a log from where it is left: here from an archive, there from the log itself."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from loglets.archive.config import ArchiveConfig
from loglets.archive.fsspec_files import FsspecFiles
from loglets.archive.loglet import ArchiveLoglet
from loglets.archive.source import READ_BYTES, Readable, Source
from pyspark_virtuallog.restore.covering import Span, cover
from pyspark_virtuallog.restore.sources import What
from virtuallog.api import Placed
from virtuallog.errors import UnavailableError
from virtuallog.ports import Clock
from virtuallog.scanning import PATIENCE_SECONDS, read_patiently
from virtuallog.types import Gap, GapKind, LogPosition, PlacedBatch
from virtuallog.virtual_log import VirtualLog


@attrs.frozen
class LiveReading:
    """The log itself."""

    log: VirtualLog

    async def read(self, start: int, stop: int) -> Sequence[Placed]:
        """See `VirtualLog.read`; patiently."""
        return await read_patiently(self.log, LogPosition(start), LogPosition(stop), READ_BYTES, PATIENCE_SECONDS)


@attrs.define(eq=False)
class Reading:
    """A part of the log that is covered. A `Readable`: an archive can be made of it."""

    parts: Sequence[Span[Readable]]

    async def read(self, start: int, stop: int) -> Sequence[Placed]:
        """What lies in [start, stop), from `start` on, without holes, at least one item, some MiB of them.

        Raises:
            UnavailableError: a part of it has been trimmed since somebody looked; he may look again.
            VirtualLogError: what the sources raise.
        """
        part = next(part for part in self.parts if part.start <= start < part.stop)
        found = await part.what.read(start, min(stop, part.stop))
        for item in found:
            if isinstance(item, Gap) and item.kind is GapKind.TRIMMED:
                raise UnavailableError(f"positions {item.start} to {item.stop - 1} have been trimmed meanwhile")
        return found

    async def first_batch(self, start: LogPosition, stop: LogPosition) -> PlacedBatch | None:
        """See `virtuallog.time_search.FirstBatch`."""
        while start < stop:
            for placed in await self.read(start, stop):
                if isinstance(placed, PlacedBatch):
                    return placed
                start = LogPosition(placed.stop)
        return None


def open_reading(spans: Sequence[Span[What]], start: int, stop: int, log: VirtualLog | None, clock: Clock) -> Reading:
    """A reading of [start, stop).

    Args:
        spans: what there is.
        start: first position.
        stop: one past the last.
        log: the log itself, if it is among the spans.
        clock: for how long to wait.

    Raises:
        InvalidSettingError: it is not covered.
    """

    def opened(what: What) -> Readable:
        if isinstance(what, ArchiveConfig):
            return Source(ArchiveLoglet(what, FsspecFiles(what.location), clock, None), 0, clock)
        assert log is not None
        return LiveReading(log)

    return Reading([Span(part.start, part.stop, opened(part.what)) for part in cover(spans, start, stop)])
