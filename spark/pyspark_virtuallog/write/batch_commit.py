"""The driver's commit of a batch: it appends one marker, and is safe to repeat.

    look -----------------> append --------------> look at what got in between
    is it committed?        with the ledger         does my marker count?
                            as of that look

`ledger.py` makes a batch count once, not the first look. That look saves readers a second marker,
detects that this driver has been replaced, and gives the marker its checkpoint. The second look is
for the driver. Without it, a driver whose marker came second would take lost rows for written ones.
So nothing needs to be settled: after an error or a kill at any point the same call may be made
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import attrs

from pyspark_virtuallog.markers.ledger import Ledger, Verdict
from pyspark_virtuallog.markers.marker import Marker, QueryId, Winner
from pyspark_virtuallog.markers.search import find_ledger, find_markers
from virtuallog.client.scan import RETRY_LIMIT_SECONDS
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import TerminalError
from virtuallog.contract.types import LogPosition


@attrs.define
class SupersededError(TerminalError):
    """A later batch of the same query is committed: another driver runs the query too, or the
    checkpoint is older than the log."""

    query: str
    batch: int

    def __str__(self) -> str:
        return (
            f"batch {self.batch} of query {self.query}: a later batch is committed. Another driver runs this query, or its "
            "checkpoint is an old copy"
        )


class Committed(Enum):
    """Result of `commit`."""

    NOW = "its marker has been appended"
    BEFORE = "an earlier marker has committed it; the rows of other attempts stay unseen"
    NOTHING = "it has no rows, so it needs no marker"


async def commit(
    log: VirtualLog,
    query: QueryId,
    batch: int | None,
    winners: Sequence[Winner],
    patience: float = RETRY_LIMIT_SECONDS,
) -> Committed:
    """Make the rows of `winners` visible; see `Marker.batch` for None. They must be in the log.

    Raises:
        SupersededError: a later batch of the query is committed; these rows are never seen.
        TooLargeError: too many winners for one marker; nothing was done.
        SealedError: the log is closed; nothing was done.
        CorruptionError: a part of the log is lost that may have said if the batch is committed.
        UnavailableError: unknown outcome; may be called again, unless the batch is None: two
            markers of it would both count.
    """
    if not winners:
        return Committed.NOTHING
    if batch is None:
        await _append(log, Marker(query, None, None, tuple(winners)))
        return Committed.NOW
    ledger = await _look(log, min(winner.first for winner in winners), patience)
    if (found := _answer(ledger, query, batch)) is not None:
        return found
    position = await _append(log, Marker(query, batch, ledger.checkpoint(), tuple(winners)))
    between = await find_markers(log, ledger.position, position, patience)
    ledger.play_to(between.markers, position)
    return _answer(ledger, query, batch) or Committed.NOW


async def _look(log: VirtualLog, near: LogPosition, patience: float) -> Ledger:
    # The marker of the batch before is just below the rows of this one: the search begins there.
    return await find_ledger(log, LogPosition((await log.check_tail()).tail), near, patience)


def _answer(ledger: Ledger, query: QueryId, batch: int) -> Committed | None:
    """Result if the batch needs no marker of ours. None if a marker of the batch would count at the
    ledger's position."""
    verdict = ledger.verdict(query, batch)
    if verdict is Verdict.SUPERSEDED:
        raise SupersededError(query.hex(), batch)
    return Committed.BEFORE if verdict is Verdict.COMMITTED else None


async def _append(log: VirtualLog, marker: Marker) -> LogPosition:
    payload = marker.encode()
    with log.appender() as appender:  # of its own: a marker is alone in its batch
        return LogPosition((await appender.append([payload]))[0])
