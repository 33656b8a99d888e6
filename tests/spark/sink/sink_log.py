"""A log of the sink's entries for tests: attempts of tasks, their markers, and what a reader is to see of them."""

from __future__ import annotations

from pyspark_virtuallog.markers.marker import QueryId, Winner
from pyspark_virtuallog.read.committed import Visible, find_visible
from pyspark_virtuallog.write.attempt import SETTINGS, Attempt
from pyspark_virtuallog.write.batch_commit import Committed, commit
from virtuallog.client.scan import scan
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.types import LogPosition, PlacedBatch

QUERY = QueryId(b"query" + bytes(11))


async def attempt(log: VirtualLog, *rows: bytes) -> Winner:
    """One attempt that writes these, one chunk each."""
    with log.appender(SETTINGS) as appender:
        made = Attempt(appender)
        for row in rows:
            await made.write([row])
        winner = await made.finish()
    assert winner is not None
    return winner


async def committed(log: VirtualLog, batch: int | None, *rows: bytes, query: QueryId = QUERY) -> Committed:
    """A batch of one task."""
    return await commit(log, query, batch, [await attempt(log, *rows)])


async def tail_of(log: VirtualLog) -> LogPosition:
    return LogPosition((await log.check_tail()).tail)


async def seen(log: VirtualLog, start: int = 0, stop: int | None = None) -> list[bytes]:
    """Rows that a reader of committed rows sees in this range, in order of positions."""
    end = await tail_of(log) if stop is None else LogPosition(stop)
    parts = await find_visible(log, LogPosition(start), end)
    return [row for part in parts for row in await rows_of(log, part)]


async def rows_of(log: VirtualLog, part: Visible) -> list[bytes]:
    sessions = {winner.session for winner in part.winners}
    return [
        data.payload
        async for piece in scan(log, part.start, part.stop)
        for placed in piece
        if isinstance(placed, PlacedBatch) and placed.batch.session in sessions
        for data in placed.records()
    ]
