"""Reads of a log: the saved ranges of a backup, the live log, and one behind the other."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from virtuallog.client.scan import RETRY_LIMIT_SECONDS, read_with_retry
from virtuallog.client.time_search import search_time
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import BeyondTailError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import LogPosition, PlacedBatch
from virtuallog_loglets.archive.creation.segment_source import READ_BYTES, ReadableSegment, SegmentSource
from virtuallog_loglets.archive.loglet import ArchiveLoglet
from virtuallog_server.backup.core.choice import range_at_time
from virtuallog_server.backup.core.manifest import BackupManifest
from virtuallog_server.backup.place import BackupPlace


@attrs.frozen
class LiveLog:
    """The log itself, as a source of ranges."""

    log: VirtualLog
    read_bytes: int = READ_BYTES
    """Approximate bytes of one read."""

    async def read(self, start: int, stop: int) -> Sequence[Placed]:
        """See `VirtualLog.read`; retries."""
        first, last = LogPosition(start), LogPosition(stop)
        return await read_with_retry(self.log, first, last, self.read_bytes, RETRY_LIMIT_SECONDS)


@attrs.frozen
class LogPart:
    """A range [start, stop), and its source."""

    start: int
    stop: int
    source: ReadableSegment


@attrs.frozen
class JoinedLog:
    """Adjacent parts of a log as one. A `ReadableSegment`."""

    parts: Sequence[LogPart]

    async def read(self, start: int, stop: int) -> Sequence[Placed]:
        """Items of [start, stop), from `start` on, without holes: at least one, some MiB of them.

        Raises:
            BeyondTailError: no part has the first position.
            VirtualLogError: as the source of that part.
        """
        for part in self.parts:
            if part.start <= start < part.stop:
                return await part.source.read(start, min(stop, part.stop))
        raise BeyondTailError(start, self.parts[-1].stop if self.parts else 0)


def saved_parts(place: BackupPlace, manifest: BackupManifest, clock: Clock) -> list[LogPart]:
    """The ranges of a backup. Reads check every checksum, from the backup's manifest down to each page.

    A read raises CorruptionError or MalformedError for what is damaged, or not what the backup means.
    """
    parts = list[LogPart]()
    for saved in manifest.ranges:
        config = place.config_of(manifest.cluster, saved)
        loglet = ArchiveLoglet(config, place.open_files(config.location), clock, None)
        parts.append(LogPart(saved.start, saved.stop, SegmentSource(loglet, 0, clock)))
    return parts


async def find_saved_time(saved: ReadableSegment, manifest: BackupManifest, time_ms: int) -> LogPosition:
    """A position that the log had reached at a time of day, as `virtuallog.client.time_search.find_time` says. The
    index of times in the manifest says in which range; only that is read.

    Raises: as reads of the source.
    """
    found = range_at_time(manifest, time_ms)
    if found is None:
        return LogPosition(manifest.stop)

    async def first(start: LogPosition, stop: LogPosition) -> PlacedBatch | None:
        return await first_batch(saved, start, stop)

    return await search_time(first, LogPosition(found.start), LogPosition(found.stop), time_ms)


async def first_batch(source: ReadableSegment, start: int, stop: int) -> PlacedBatch | None:
    """First batch in [start, stop). None if there are only gaps. Errors as reads of the source."""
    while start < stop:
        for placed in await source.read(start, stop):
            if isinstance(placed, PlacedBatch):
                return placed
            start = placed.stop
    return None
