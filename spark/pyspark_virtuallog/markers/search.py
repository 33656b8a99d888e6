"""Search for markers in the log: all of a range, and the ledger at the tail.

A range is read as a whole, since nothing in a log says where its markers are; of other batches only
the first bytes are looked at. The ledger at the tail is found backwards: the nearest marker with a
checkpoint has nearly all of it. Only the first commit of the first query of a log reads all of that
log.
"""

from __future__ import annotations

from typing import Final

import attrs

from pyspark_virtuallog.markers.ledger import Ledger
from pyspark_virtuallog.markers.marker import PlacedMarker, marker_of
from virtuallog.client.scan import RETRY_LIMIT_SECONDS, scan
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import CorruptionError, TrimmedError
from virtuallog.contract.types import Gap, GapKind, LogPosition, PlacedBatch

FIRST_STEP: Final = 1 << 12
"""Positions of the first look backwards; each further one takes twice as many as all before."""


@attrs.frozen
class FoundMarkers:
    """The markers of a range, in order, and the missing part of the range."""

    markers: list[PlacedMarker]
    trimmed_to: LogPosition | None = None
    """End of the trimmed part at the start of the range. None if nothing is trimmed."""

    def check_whole(self) -> None:
        """Raises TrimmedError: the start of the range is trimmed."""
        if self.trimmed_to is not None:
            raise TrimmedError(self.trimmed_to)


async def find_markers(
    log: VirtualLog,
    start: LogPosition,
    stop: LogPosition,
    patience: float = RETRY_LIMIT_SECONDS,
    *,
    may_miss: bool = False,
) -> FoundMarkers:
    """All markers in [start, stop), oldest first. `may_miss`: lost positions are skipped, perhaps
    with markers.

    Raises:
        RetryableError: nothing could be read for `patience` seconds.
        CorruptionError: a part of the range is lost, and must not be.
        UnsupportedError: a marker of a later version.
    """
    markers: list[PlacedMarker] = []
    trimmed_to = None
    async for piece in scan(log, start, stop, patience=patience):
        for placed in piece:
            if isinstance(placed, PlacedBatch):
                if (found := marker_of(placed)) is not None:
                    markers.append(found)
            elif placed.kind is GapKind.TRIMMED:
                markers, trimmed_to = [], LogPosition(placed.stop)
            elif not may_miss:
                _check_gap(placed)
    return FoundMarkers(markers, trimmed_to)


async def find_ledger(
    log: VirtualLog, tail: LogPosition, near: LogPosition | None = None, patience: float = RETRY_LIMIT_SECONDS
) -> Ledger:
    """Ledger of the markers below `tail`. `near`: the first look goes back to some positions before
    that one, if given.

    Trimmed positions count as never written. Errors as of `find_markers`.
    """
    newest = await _find_newest(log, tail, FIRST_STEP + max(0, tail - (tail if near is None else near)), patience)
    if newest is None or newest.marker.checkpoint is None:
        return Ledger(tail)
    ledger = Ledger.of(newest.marker.checkpoint)
    before = await find_markers(log, ledger.position, newest.position, patience)
    ledger.play_to([*before.markers, newest], tail)
    return ledger


async def _find_newest(log: VirtualLog, tail: LogPosition, step: int, patience: float) -> PlacedMarker | None:
    """The newest marker with a checkpoint. None if there is none. Markers of single jobs have none,
    and do not concern a ledger."""
    trimmed, stop = await log.find_trim_point(), tail
    while stop > trimmed:
        start = LogPosition(max(trimmed, stop - step))
        markers = (await find_markers(log, start, stop, patience)).markers
        if newest := next((found for found in reversed(markers) if found.marker.checkpoint is not None), None):
            return newest
        stop, step = start, 2 * step
    return None


def _check_gap(gap: Gap) -> None:
    if gap.kind is GapKind.LOST:
        raise CorruptionError(
            f"positions {gap.start} to {gap.stop - 1} are lost, perhaps with markers of committed batches"
        )
