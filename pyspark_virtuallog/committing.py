"""The driver's part of a batch: one marker, whatever has happened before.

Before it appends, it looks whether the batch is committed. That is not what makes a batch count once, `ledger.py` is: it saves
readers a second marker, finds out that this driver is not the one any more, and gives the marker its checkpoint. So nothing
needs settling: after an error or a kill at any point the same call may be made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import attrs

from pyspark_virtuallog.ledger import Verdict
from pyspark_virtuallog.marker_search import find_ledger
from pyspark_virtuallog.markers import Checkpoint, Marker, QueryId, Winner
from virtuallog.errors import TerminalError
from virtuallog.scanning import PATIENCE_SECONDS
from virtuallog.types import LogPosition
from virtuallog.virtual_log import VirtualLog


@attrs.define
class SupersededError(TerminalError):
    """A later batch of the same query is committed: another driver runs the query too, or the checkpoint is older than the log."""

    query: str
    batch: int

    def __str__(self) -> str:
        return (
            f"batch {self.batch} of query {self.query}: a later batch is committed. Another driver runs this query, or its "
            "checkpoint is an old copy"
        )


class Committed(Enum):
    """What `commit` has found or done."""

    NOW = "its marker has been appended"
    BEFORE = "it was committed already; the rows of this attempt stay unseen"
    NOTHING = "it has no rows, so it needs no marker"


async def commit(
    log: VirtualLog,
    query: QueryId,
    batch: int | None,
    winners: Sequence[Winner],
    patience: float = PATIENCE_SECONDS,
) -> Committed:
    """Make the rows of `winners` visible; see `Marker.batch` for None. They must be in the log.

    Raises:
        SupersededError: a later batch of the query is committed; nothing was done.
        TooLargeError: too many winners for one marker; nothing was done.
        SealedError: the log is closed; nothing was done.
        UnavailableError: unknown outcome; may be called again, unless the batch is None: two markers of it would both count.
    """
    if not winners:
        return Committed.NOTHING
    checkpoint = None
    if batch is not None:
        verdict, checkpoint = await _look(log, query, batch, min(winner.first for winner in winners), patience)
        if verdict is Verdict.COMMITTED:
            return Committed.BEFORE
        if verdict is Verdict.SUPERSEDED:
            raise SupersededError(query.hex(), batch)
    marker = Marker(query, batch, checkpoint, tuple(winners)).encode()
    with log.appender() as appender:  # of its own: a marker is alone in its batch
        await appender.append([marker])
    return Committed.NOW


async def _look(
    log: VirtualLog, query: QueryId, batch: int, near: LogPosition, patience: float
) -> tuple[Verdict, Checkpoint]:
    # The marker of the batch before is just below the rows of this one: that is where the look begins.
    tail = LogPosition((await log.check_tail()).tail)
    ledger = await find_ledger(log, tail, near, patience)
    return ledger.verdict(query, batch), ledger.checkpoint()
