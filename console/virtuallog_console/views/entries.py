"""Entries of the log: a page by position, by time, or from the end.

A page has at most `ENTRIES_MAX` rows of at most `PREVIEW_BYTES` each, reads at most `READ_BYTES` and one batch, and takes at most `SECONDS`.
What it has not read begins at `next`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import attrs

from virtuallog.client.time_search import find_time
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, LogPosition, PlacedBatch, Sealed
from virtuallog_console.views.database_commands import COMMANDS_MAX, DatabaseEntry, decode_entry
from virtuallog_console.views.values import PREVIEW_BYTES, Decoder, Value, decode
from virtuallog_console.views.viewer import Viewer

ENTRIES_MAX: Final = 200
"""Most rows of a page."""
READ_BYTES: Final = 1 << 20
"""Bytes that a page reads of the log, about; at least one batch, of 8 MiB at most."""
SECONDS: Final = 5.0
"""Time after which a page is shown as far as it is. A read takes some milliseconds, or the timeout of a silent server."""
SEARCH_SECONDS: Final = 10.0
"""Time for the search of a time of day: about one read per binary digit of the length of the log."""


@attrs.frozen(kw_only=True)
class EntryRow:
    """One entry."""

    kind: Literal["entry"] = "entry"
    position: int
    time_ms: int
    """Time of ordering, in milliseconds since the epoch. Goes back where the sequencers' clocks differ."""
    session: str
    """Session of the appender, in hexadecimal."""
    sequence: int
    """Number of the entry in its session."""
    batch: range
    """Positions of its batch, as it was appended; a part of them may be trimmed."""
    value: Value | None = None
    """The payload. None for an entry of a database."""
    database: DatabaseEntry | None = None
    """The commands in it, if a server of a database has proposed it."""


@attrs.frozen(kw_only=True)
class GapRow:
    """Positions without an entry."""

    kind: Literal["trimmed", "filler", "lost"]
    start: int
    stop: int


Row: TypeAlias = EntryRow | GapRow


@attrs.frozen(kw_only=True)
class EntryPage:
    """Entries and gaps from `start` to `next`, without a hole."""

    start: int
    """First position of the page."""
    next: int
    """First position that the page does not show."""
    rows: tuple[Row, ...] = ()
    trim_point: int | None = None
    """First position that is not trimmed. None if it could not be learnt."""
    tail: int | None = None
    """First unwritten position. None if it could not be learnt."""
    is_closed: bool = False
    """True if the log was closed on purpose, and takes no appends."""
    problem: str = ""
    """Reason why the page is not whole. Empty if it is."""

    @property
    def has_more(self) -> bool:
        """True if there are entries at `next`, as far as is known."""
        return self.tail is None or self.next < self.tail


async def read_page(
    log: VirtualLog,
    viewer: Viewer,
    start: int | None = None,
    *,
    count: int = ENTRIES_MAX,
    decoder: Decoder = Decoder.AUTO,
    preview_bytes: int = PREVIEW_BYTES,
) -> EntryPage:
    """Entries from a position on.

    Args:
        log: an open client.
        viewer: the caller.
        start: the first position; None: the trim point.
        count: most rows, at most `ENTRIES_MAX`.
        decoder: of payloads.
        preview_bytes: bytes that are shown of each payload; ask for one row to see more than `PREVIEW_BYTES`.
    """
    page = EntryPage(start=start or 0, next=start or 0)
    with log.view.environment.clock.timeout(SECONDS) as scope:
        page = await _with_bounds(log, page)
        first = max(0, (page.trim_point or 0) if start is None else start)
        page = attrs.evolve(page, start=first, next=first)
        if page.tail is None or first >= page.tail:
            return page
        count = max(1, min(count, ENTRIES_MAX))
        is_alone = count == 1
        shown = preview_bytes if is_alone else min(preview_bytes, PREVIEW_BYTES)
        return await _read_rows(log, page, count, RowMaker(viewer, decoder, shown, is_alone))
    assert scope.cancelled_caught
    return attrs.evolve(page, problem=_add(page.problem, f"no answer within {SECONDS:g} s"))


async def read_last(
    log: VirtualLog, viewer: Viewer, *, count: int = ENTRIES_MAX, decoder: Decoder = Decoder.AUTO
) -> EntryPage:
    """The last `count` entries before the tail."""
    bounds = await find_bounds(log)
    if bounds.tail is None:
        return bounds
    first = max(bounds.trim_point or 0, bounds.tail - max(1, min(count, ENTRIES_MAX)))
    return await read_page(log, viewer, first, count=count, decoder=decoder)


async def read_at_time(
    log: VirtualLog, viewer: Viewer, time_ms: int, *, count: int = ENTRIES_MAX, decoder: Decoder = Decoder.AUTO
) -> EntryPage:
    """Entries from a time of day on, in milliseconds since the epoch (`virtuallog.client.time_search.find_time`)."""
    problem = f"the time was not found within {SEARCH_SECONDS:g} s"
    with log.view.environment.clock.timeout(SEARCH_SECONDS):
        try:
            position = await find_time(log, time_ms, patience=SECONDS)
        except VirtualLogError as error:
            problem = str(error)
        else:
            return await read_page(log, viewer, position, count=count, decoder=decoder)
    return attrs.evolve(await find_bounds(log), problem=problem)


async def find_bounds(log: VirtualLog) -> EntryPage:
    """A page without rows: the bounds of the log, as far as they can be learnt within `SECONDS`."""
    page = EntryPage(start=0, next=0)
    with log.view.environment.clock.timeout(SECONDS):
        return await _with_bounds(log, page)
    return attrs.evolve(page, problem=f"no answer within {SECONDS:g} s")


async def _with_bounds(log: VirtualLog, page: EntryPage) -> EntryPage:
    """The page with the bounds of the log. One that cannot be learnt is None, with the reason."""
    try:
        found = await log.check_tail()
        page = attrs.evolve(page, tail=found.tail, is_closed=isinstance(found, Sealed))
    except VirtualLogError as error:
        known = log.view.known_tail  # everything below can still be read
        page = attrs.evolve(page, tail=known or None, problem=_add(page.problem, f"tail: {error}"))
    try:
        return attrs.evolve(page, trim_point=await log.find_trim_point())
    except VirtualLogError as error:
        return attrs.evolve(page, problem=_add(page.problem, f"trim point: {error}"))


async def _read_rows(log: VirtualLog, page: EntryPage, count: int, maker: RowMaker) -> EntryPage:
    assert page.tail is not None
    rows: list[Row] = []
    position, left = page.start, READ_BYTES
    try:
        while position < page.tail and len(rows) < count and left > 0:
            found = await log.read(LogPosition(position), LogPosition(page.tail), left)
            for placed in found:
                left -= len(placed.batch.blob) if isinstance(placed, PlacedBatch) else 1
                for row in maker.rows(placed, count - len(rows)):
                    rows.append(row)
                    position = row.stop if isinstance(row, GapRow) else row.position + 1
                if len(rows) >= count:
                    break
    except VirtualLogError as error:
        reason = "" if isinstance(error, UnavailableError) else f"{type(error).__name__}: "
        page = attrs.evolve(page, problem=_add(page.problem, f"at {position}: {reason}{error}"))
    return attrs.evolve(page, rows=tuple(rows), next=position)


@attrs.frozen
class RowMaker:
    """Makes rows for one viewer."""

    viewer: Viewer
    decoder: Decoder
    max_bytes: int
    """Bytes that are shown of each payload."""
    is_alone: bool = False
    """True for one entry that is shown alone, with all its commands."""

    def rows(self, placed: Placed, count: int) -> Iterator[Row]:
        """The first `count` rows of an item that was read."""
        if isinstance(placed, Gap):
            yield GapRow(kind=placed.kind.value, start=placed.start, stop=placed.stop)
            return
        payloads = placed.batch.payloads
        for index in range(min(count, len(placed.places))):
            yield self.row(placed, index, payloads[placed.first + index])

    def row(self, placed: PlacedBatch, index: int, payload: bytes) -> EntryRow:
        """The row of the entry at `placed.places[index]`."""
        batch, place, step = placed.batch, placed.places[index], placed.places.step
        begin = placed.start - placed.first * step
        bounds = {"max_bytes": self.max_bytes, "commands_max": COMMANDS_MAX} if self.is_alone else {}
        database = decode_entry(payload, self.viewer, self.decoder, **bounds)
        return EntryRow(
            position=place,
            time_ms=placed.time_ms,
            session=batch.session.hex(),
            sequence=batch.first_sequence + placed.first + index,
            batch=range(begin, begin + (batch.count - 1) * step + 1),
            value=decode(payload, self.decoder, self.max_bytes) if database is None else None,
            database=database,
        )


def _add(problem: str, more: str) -> str:
    return f"{problem}; {more}" if problem else more
