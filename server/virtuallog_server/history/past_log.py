"""The log as far back as it can be read: the live one, and behind its trim point what backups have saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import attrs

from virtuallog.client.time_search import search_time
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import BeyondTailError, InvalidSettingError, UnsupportedError, WrongRecipientError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import LogPosition, PlacedBatch
from virtuallog_database.errors import BeforeFirstEntryError, NoPastStateError
from virtuallog_server.backup.core.manifest import BackupManifest
from virtuallog_server.backup.place import BackupPlace
from virtuallog_server.backup.retried_files import retried
from virtuallog_server.backup.saved_log import JoinedLog, LiveLog, LogPart, first_batch, saved_parts
from virtuallog_server.history.core.reach import Span, beginning, merged
from virtuallog_server.history.read_pace import PacedLog, ReadPace

READ_BYTES = 256 << 10
"""Bytes of one read of the live log: a node makes the answer in a millisecond, between two requests of its clients."""


@attrs.frozen
class Moment:
    """A place in the history: a position, a time of day in milliseconds, or the tail if both are None."""

    position: int | None = None
    """All entries below it have been applied."""
    time_ms: int | None = None
    """All entries ordered before about this time have been applied."""


@attrs.frozen(kw_only=True)
class PastLog:
    """A log and its bounds. A `ReadableSegment`."""

    source: JoinedLog
    spans: Sequence[Span]
    """Ranges that can be read, in order, with holes between them."""
    tail: LogPosition
    """Tail, as of the opening."""
    trim_point: LogPosition
    """First position of the live log, as of the opening."""
    backups: Sequence[BackupManifest]
    """The newest backup of each base at the place of backups; empty without one."""

    @property
    def saved_states(self) -> Mapping[int, BackupManifest]:
        """Backups that a state begins with, by its position: not those of the log before a database was put on it."""
        return {each.start: each for each in self.backups if each.database}

    async def read(self, start: int, stop: int) -> Sequence[Placed]:
        """As the live log, or as a backup, whichever has the position."""
        return await self.source.read(start, stop)

    async def find(self, moment: Moment, now_ms: int) -> LogPosition:
        """The position of a moment.

        Args:
            moment: the moment.
            now_ms: present wall-clock time: nothing is known of a later one.

        Raises:
            BeyondTailError: the position is past the tail.
            BeforeFirstEntryError: the time is before the first entry.
            NoPastStateError: the time lies in a hole between two backups.
            InvalidSettingError: the time is in the future.
            VirtualLogError: as reads.
        """
        if moment.position is not None:
            if moment.position > self.tail:
                raise BeyondTailError(moment.position, self.tail)
            return LogPosition(moment.position)
        if moment.time_ms is None:
            return self.tail
        if moment.time_ms > now_ms:
            raise InvalidSettingError("at", f"{time_text(moment.time_ms)} is in the future")
        return await self._find_time(moment.time_ms)

    def beginning(self, position: int) -> LogPosition:
        """First position from which the log can be read up to this one."""
        return LogPosition(beginning(self.spans, position))

    async def _find_time(self, time_ms: int) -> LogPosition:
        async def first(start: LogPosition, stop: LogPosition) -> PlacedBatch | None:
            return await first_batch(self.source, start, stop)

        oldest: PlacedBatch | None = None
        for start, stop in reversed(self.spans):
            begins = await first(LogPosition(start), LogPosition(stop))
            if begins is not None and begins.time_ms <= time_ms:
                found = await search_time(first, LogPosition(start), LogPosition(stop), time_ms)
                if found == stop < self.tail:
                    reason = (
                        f"the log is lost from there up to {self._next_span(stop)}, the range with {time_text(time_ms)}"
                    )
                    raise NoPastStateError(found, reason)
                return found
            oldest = begins or oldest
        if oldest is None:
            return self.tail
        place = f"the first entry of the log, at position {oldest.start}, which is of {time_text(oldest.time_ms)}"
        raise BeforeFirstEntryError(oldest.start, f"{time_text(time_ms)} is before {place}")

    def _next_span(self, position: int) -> int:
        return next(start for start, _ in self.spans if start > position)


async def open_past_log(log: VirtualLog, place: BackupPlace | None, pace: ReadPace) -> PastLog:
    """Open the log of a database.

    Args:
        log: the live log.
        place: location of backups. None to read the live log only.
        pace: bound of its reads.

    Raises:
        UnsupportedError: no database stands on this log.
        WrongRecipientError: the backups are those of another cluster.
        VirtualLogError: the log, or the place, cannot be read.
    """
    register = await log.view.refresh()
    if not register.database:
        raise UnsupportedError("no database stands on this log: there is no tree")
    trim_point = await retried(pace.clock, log.find_trim_point)
    tail = (await retried(pace.clock, log.check_tail)).tail  # behind the trim point, as that was found before
    backups = [] if place is None else await place.newest_of_each_base()
    parts = [LogPart(trim_point, tail, PacedLog(LiveLog(log, READ_BYTES), pace))]
    for manifest in backups:
        assert place is not None
        if manifest.cluster != register.cluster.hex():
            raise WrongRecipientError("cluster", manifest.cluster, register.cluster.hex())
        parts += saved_parts(place, manifest, pace.clock)
    return PastLog(
        source=JoinedLog(parts), spans=merged((part.start, part.stop) for part in parts), tail=LogPosition(tail),
        trim_point=trim_point, backups=backups,
    )  # fmt: skip


def time_text(milliseconds: int) -> str:
    """A time for operators."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
