"""Finds the position that belongs to a time of day, by a binary search over what the log holds.

Each batch carries the wall-clock time of whoever ordered it. Sequencers come and go, and their clocks differ, so times go back
at some places, and there may be several answers; this finds one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias

from virtuallog.client.scan import RETRY_LIMIT_SECONDS, read_with_retry
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.types import LogPosition, PlacedBatch

LOOK_BYTES: Final = 1
"""Of one look: the first batch is enough."""

FirstBatch: TypeAlias = Callable[[LogPosition, LogPosition], Awaitable[PlacedBatch | None]]
"""The first batch, or what is left of it, in [start, stop); None: there is none."""


async def find_time(log: VirtualLog, milliseconds: int, *, patience: float = RETRY_LIMIT_SECONDS) -> LogPosition:
    """A position that the log had reached at a time of day: what lies there was ordered at that time or later, what lies right
    before it earlier, by the clocks of those that ordered them.

    Approximate: entries further away may be on the other side by as much as clocks of nodes differ. Within one segment of the
    kind `native` times never go back. Exact enough for "since noon", not for "after that entry".

    Costs about one read per binary digit of the length of the log, of one batch each.

    Args:
        log: to search.
        milliseconds: since the epoch.
        patience: as of `scan`, for each read.

    Returns:
        The trim point if nothing is left of what is older, the tail if everything is older.

    Raises: as `scan`, and as `VirtualLog.find_trim_point`.
    """
    low, high = await log.find_trim_point(), LogPosition((await log.check_tail()).tail)
    return await search_time(partial(_first_batch, log, patience), low, high, milliseconds)


async def search_time(first_batch: FirstBatch, low: LogPosition, high: LogPosition, milliseconds: int) -> LogPosition:
    """The same in [low, high), wherever that can be read."""
    while low < high:
        middle = LogPosition((low + high) // 2)
        found = await first_batch(middle, high)
        if found is not None and found.time_ms < milliseconds:
            low = LogPosition(found.stop)
        else:  # from the middle on there are only gaps, or what is late enough
            high = middle
    return high


async def _first_batch(log: VirtualLog, patience: float, start: LogPosition, stop: LogPosition) -> PlacedBatch | None:
    while start < stop:
        for placed in await read_with_retry(log, start, stop, LOOK_BYTES, patience):
            if isinstance(placed, PlacedBatch):
                return placed
            start = LogPosition(placed.stop)
    return None
