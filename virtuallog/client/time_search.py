"""Binary search for the position that the log had reached at a time of day.

Each batch carries the wall-clock time of the sequencer that ordered it. Clocks of sequencers differ, so
times go back at some places, and there may be several answers; this finds one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias

from virtuallog.client.scan import RETRY_LIMIT_SECONDS, read_with_retry
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.types import LogPosition, PlacedBatch

LOOK_BYTES: Final = 1
"""Size of one read: the first batch is enough."""

FirstBatch: TypeAlias = Callable[[LogPosition, LogPosition], Awaitable[PlacedBatch | None]]
"""First batch in [start, stop), or the rest of it after a trim; None if there is none."""


async def find_time(log: VirtualLog, milliseconds: int, *, patience: float = RETRY_LIMIT_SECONDS) -> LogPosition:
    """A position that the log had reached at a time of day.

    The entry there was ordered at that time or later, the entry right before it earlier, by the clocks
    of their sequencers. Approximate: entries further away may be on the wrong side by as much as
    clocks of nodes differ. Within one segment of the kind `native` times never go back. Exact enough
    for "since noon", not for "after that entry".

    Costs about one read of one batch per binary digit of the length of the log.

    Args:
        log: the log to search.
        milliseconds: time since the epoch.
        patience: seconds to try each read again, as in `scan`.

    Returns:
        The trim point if all older entries are trimmed, the tail if all entries are older.

    Raises: as `scan`, and as `VirtualLog.find_trim_point`.
    """
    low, high = await log.find_trim_point(), LogPosition((await log.check_tail()).tail)
    return await search_time(partial(_first_batch, log, patience), low, high, milliseconds)


async def search_time(first_batch: FirstBatch, low: LogPosition, high: LogPosition, milliseconds: int) -> LogPosition:
    """`find_time` in [low, high), over any function that finds a first batch."""
    while low < high:
        middle = LogPosition((low + high) // 2)
        found = await first_batch(middle, high)
        if found is not None and found.time_ms < milliseconds:
            low = LogPosition(found.stop)
        else:  # from the middle on there are only gaps, or batches that are late enough
            high = middle
    return high


async def _first_batch(log: VirtualLog, patience: float, start: LogPosition, stop: LogPosition) -> PlacedBatch | None:
    while start < stop:
        for placed in await read_with_retry(log, start, stop, LOOK_BYTES, patience):
            if isinstance(placed, PlacedBatch):
                return placed
            start = LogPosition(placed.stop)
    return None
