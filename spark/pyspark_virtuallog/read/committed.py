"""Which rows a reader with `isolationLevel=read_committed` sees: those of the attempts that a marker names.

    position   0 1 2 3 4 5   6    7 8 9   10    11
    log        a a x a b x   M1   b b x   M2    c        M1 names a, M2 names b; x failed, c is under way
    [0, 7)     a a   a                                   a row becomes visible with its marker
    [7, 12)            b          b b                    also one below the range

A range [start, stop) stands for the *markers* in it. The rows that they name lie below their marker, possibly below `start`; rows
in the range whose marker lies at `stop` or later come with a later range. So ranges that lie side by side show every row once,
and the positions of the rows of a range need not be in it.
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
"""Winners with less between them are read in one go: a few entries too many cost less than one more request."""


@attrs.frozen
class Visible:
    """A part of the log, and whose entries in it are visible."""

    start: LogPosition
    stop: LogPosition
    winners: tuple[Winner, ...]
    """In the order of their first positions."""


def plan(
    log: BlockingLog,
    start: LogPosition,
    stop: LogPosition,
    *,
    patience: float = RETRY_LIMIT_SECONDS,
    may_miss: bool = False,
) -> list[Visible]:
    """What becomes visible in [start, stop): parts in order of their positions, no two overlap. All below `stop` must be written.

    Reads the range once, and as much below it as the writer of its first marker had not looked at.

    Args:
        log: to read.
        start: first position whose marker counts here.
        stop: one past the last one.
        patience: how long to try again while nothing answers, in seconds.
        may_miss: whether it is all right that a part of the range has been trimmed or lost, perhaps with markers.

    Raises:
        TrimmedError: so it is, and it is not.
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
    """`plan` for those that run trio."""
    found = await find_markers(log, start, stop, patience, may_miss=may_miss)
    if not may_miss:
        found.check_whole()
    ledger = await _ledger_at(log, start, found.markers, patience, may_miss=may_miss)
    return parts_of([winner for each in found.markers if ledger.play(each) for winner in each.marker.winners])


async def _ledger_at(
    log: VirtualLog, start: LogPosition, markers: list[PlacedMarker], patience: float, *, may_miss: bool
) -> Ledger:
    """The ledger that the first marker with a checkpoint needs: as its writer knew it, and what got in between below `start`.
    What is missing there has been trimmed, and nobody can know it any more."""
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
    """The parts of the log that these lie in."""
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
    """The rows of an Arrow table (`virtuallog_loglets.archive.core.rows.SCHEMA`, or at least its column `session`) that these sessions wrote. Gaps
    are of no session."""
    column = table.column("session")
    return table.filter(pc.is_in(column, value_set=pa.array(sorted(sessions), column.type)))
