"""Rows visible to a reader with `isolationLevel=read_committed`: those of the attempts that a
marker names.

    position   0 1 2 3 4 5   6    7 8 9   10    11
    log        a a x a b x   M1   b b x   M2    c        M1 names a, M2 names b; x failed, c is under way
    [0, 7)     a a   a                                   a row becomes visible with its marker
    [7, 12)            b          b b                    also one below the range

A range [start, stop) stands for the *markers* in it. The rows that they name lie below their
marker, possibly below `start`. Rows in the range whose marker lies at `stop` or later come with a
later range. So adjacent ranges show every row once, and the positions of a range's rows need not be
in it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_virtuallog.markers.ledger import Ledger
from pyspark_virtuallog.markers.marker import PlacedMarker, Winner
from pyspark_virtuallog.markers.search import find_markers
from virtuallog.blocking import BlockingLog
from virtuallog.client.scan import RETRY_LIMIT_SECONDS
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.types import LogPosition

MERGE_POSITIONS: Final = 1 << 12
"""Winners with fewer positions between them are read in one go: a few entries too many cost less
than one more request."""


@attrs.frozen
class Visible:
    """A part of the log, and the sessions whose entries in it are visible."""

    start: LogPosition
    stop: LogPosition
    winners: tuple[Winner, ...]
    """Winners in the order of their first positions."""


def plan(
    log: BlockingLog,
    start: LogPosition,
    stop: LogPosition,
    *,
    patience: float = RETRY_LIMIT_SECONDS,
    may_miss: bool = False,
) -> list[Visible]:
    """Parts that become visible in [start, stop): in order of their positions, without overlap. All
    below `stop` must be written.

    Reads the range once, and below it what the writer of its first marker had not looked at.

    Args:
        log: the log to read.
        start: first position whose marker counts here.
        stop: one past the last one.
        patience: seconds of retries while no server answers.
        may_miss: True if a part of the range may be trimmed or lost, perhaps with markers.

    Raises:
        TrimmedError: a part of the range is trimmed, and `may_miss` is False.
        RetryableError: nothing could be read for `patience` seconds.
        CorruptionError: a part of the range is lost, and must not be.
        UnsupportedError: a marker of a later version.
    """
    return log.run(find_visible, start, stop, patience, may_miss=may_miss)


async def find_visible(
    log: VirtualLog,
    start: LogPosition,
    stop: LogPosition,
    patience: float = RETRY_LIMIT_SECONDS,
    *,
    may_miss: bool = False,
) -> list[Visible]:
    """`plan` for callers that run trio."""
    found = await find_markers(log, start, stop, patience, may_miss=may_miss)
    if not may_miss:
        found.check_whole()
    ledger = await _ledger_at(log, start, found.markers, patience, may_miss=may_miss)
    return parts_of([winner for each in found.markers if ledger.play(each) for winner in each.marker.winners])


async def _ledger_at(
    log: VirtualLog, start: LogPosition, markers: list[PlacedMarker], patience: float, *, may_miss: bool
) -> Ledger:
    """The ledger that the first marker with a checkpoint needs: that of its writer, and the markers
    since then below `start`. Missing positions there are trimmed, and cannot be known any more."""
    checkpoint = next((each.marker.checkpoint for each in markers if each.marker.checkpoint is not None), None)
    if checkpoint is None:
        return Ledger(start)
    ledger = Ledger.of(checkpoint)
    if checkpoint.position < start:
        before = await find_markers(log, checkpoint.position, start, patience, may_miss=may_miss)
        ledger.play_to(before.markers, start)
    ledger.position = min(ledger.position, start)
    return ledger


def parts_of(winners: Collection[Winner]) -> list[Visible]:
    """Parts of the log in which the winners lie."""
    parts: list[Visible] = []
    together: list[Winner] = []
    stop = 0
    for winner in sorted(winners, key=lambda each: each.first):
        if together and winner.first > stop + MERGE_POSITIONS:
            parts.append(Visible(together[0].first, LogPosition(stop), tuple(together)))
            together = []
        together.append(winner)
        stop = max(stop, winner.last + 1)
    return [*parts, Visible(together[0].first, LogPosition(stop), tuple(together))] if together else []


def rows_of(table: pa.Table, sessions: Collection[bytes]) -> pa.Table:
    """Rows of an Arrow table (`virtuallog_loglets.archive.core.rows.SCHEMA`, or at least its column
    `session`) that these sessions wrote. Gaps are of no session."""
    column = table.column("session")
    return table.filter(pc.is_in(column, value_set=pa.array(sorted(sessions), column.type)))
