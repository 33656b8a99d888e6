"""Entries of the log: a page by position, by time, or from the end.

A page has at most `ENTRIES_MAX` rows of at most `PREVIEW_BYTES` each, and reads at most `READ_BYTES` and one batch. It takes at most `SECONDS`,
and before that `BOUND_SECONDS` for the bounds of the log. What it has not read begins at `next`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import attrs
import trio

from virtuallog.audit import AuditRecord
from virtuallog.client.time_search import find_time
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, LogPosition, PlacedBatch
from virtuallog_console.views.audit_records import find_record
from virtuallog_console.views.database_commands import COMMANDS_MAX, DatabaseEntry, decode_entry
from virtuallog_console.views.log_bounds import LogBounds, find_bounds, joined
from virtuallog_console.views.values import PREVIEW_BYTES, Decoder, Value, decode
from virtuallog_console.views.viewer import Viewer

ENTRIES_MAX: Final = 200
"""Most rows of a page."""
LOOKED_MAX: Final = 1000
"""Most entries that a page looks at, with those that it leaves out: they are decoded in some tens of milliseconds."""
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
    """The payload. None for an entry of a database and for an audit record."""
    database: DatabaseEntry | None = None
    """The commands in it, if a server of a database has proposed it."""
    audit: AuditRecord | None = None
    """The audit record in it, if it is one: then there is neither a value nor a database."""


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
    left_out: int = 0
    """Entries between `start` and `next` that are the housekeeping of a database, and have no row. 0 unless that was asked for."""
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
    leaves_out: bool = False,
) -> EntryPage:
    """Entries from a position on.

    Args:
        log: an open client.
        viewer: the caller.
        start: the first position; None: the trim point.
        count: most rows, at most `ENTRIES_MAX`.
        decoder: of payloads.
        preview_bytes: bytes that are shown of each payload; ask for one row to see more than `PREVIEW_BYTES`.
        leaves_out: True to leave out the housekeeping of a database (`DatabaseEntry.is_housekeeping`), among `LOOKED_MAX` entries.
    """
    page = empty_page(await find_bounds(log), start)
    return await _with_rows(log, page, count, RowMaker.of(viewer, decoder, preview_bytes, count), leaves_out)


async def read_last(
    log: VirtualLog,
    viewer: Viewer,
    *,
    count: int = ENTRIES_MAX,
    decoder: Decoder = Decoder.AUTO,
    leaves_out: bool = False,
) -> EntryPage:
    """The last `count` entries before the tail; of the last `ENTRIES_MAX` those that are no housekeeping, if `leaves_out`."""
    bounds = await find_bounds(log)
    most = ENTRIES_MAX if leaves_out else max(1, min(count, ENTRIES_MAX))
    start = None if bounds.tail is None else max(bounds.trim_point or 0, bounds.tail - most)
    maker = RowMaker.of(viewer, decoder, PREVIEW_BYTES, most)
    return await _with_rows(log, empty_page(bounds, start), most, maker, leaves_out)


async def read_at_time(
    log: VirtualLog,
    viewer: Viewer,
    time_ms: int,
    *,
    count: int = ENTRIES_MAX,
    decoder: Decoder = Decoder.AUTO,
    leaves_out: bool = False,
) -> EntryPage:
    """Entries from a time of day on, in milliseconds since the epoch (`virtuallog.client.time_search.find_time`)."""
    position, problem = None, f"the time was not found within {SEARCH_SECONDS:g} s"
    with log.view.environment.clock.timeout(SEARCH_SECONDS):
        try:
            position = await find_time(log, time_ms, patience=SECONDS)
        except VirtualLogError as error:
            problem = str(error)
    if position is not None:
        return await read_page(log, viewer, position, count=count, decoder=decoder, leaves_out=leaves_out)
    page = empty_page(await find_bounds(log))
    return attrs.evolve(page, problem=joined(page.problem, problem))


def empty_page(bounds: LogBounds, start: int | None = None) -> EntryPage:
    """A page without rows that begins at `start`; None: at the trim point."""
    first = max(0, (bounds.trim_point or 0) if start is None else start)
    return EntryPage(
        start=first,
        next=first,
        trim_point=bounds.trim_point,
        tail=bounds.tail,
        is_closed=bounds.is_closed,
        problem=bounds.problem,
    )


async def _with_rows(log: VirtualLog, page: EntryPage, count: int, maker: RowMaker, leaves_out: bool) -> EntryPage:
    """The page with its rows, as far as they can be read within `SECONDS`."""
    if page.tail is None or page.start >= page.tail:
        return page
    found = _Found(max(1, min(count, ENTRIES_MAX)), page.start, leaves_out)
    problem = f"not all was read within {SECONDS:g} s"
    with log.view.environment.clock.timeout(SECONDS):
        try:
            await found.read(log, page.tail, maker)
            problem = ""
        except VirtualLogError as error:
            kind = "" if isinstance(error, UnavailableError) else f"{type(error).__name__}: "
            problem = f"at {found.next}: {kind}{error}"
    return attrs.evolve(
        page, rows=tuple(found.rows), next=found.next, left_out=found.left_out, problem=joined(page.problem, problem)
    )


@attrs.define
class _Found:
    """Rows of a page, while they are read."""

    count: int
    """Most rows."""
    next: int
    """First position that has not been looked at."""
    leaves_out: bool
    rows: list[Row] = attrs.field(factory=list)
    left_out: int = 0

    async def read(self, log: VirtualLog, tail: int, maker: RowMaker) -> None:
        """Add rows, up to the bounds of a page."""
        left = READ_BYTES
        while self.next < tail and self.room > 0 and left > 0:
            for placed in await log.read(LogPosition(self.next), LogPosition(tail), left):
                left -= len(placed.batch.blob) if isinstance(placed, PlacedBatch) else 1
                for row in maker.rows(placed, LOOKED_MAX):
                    if self.room <= 0:
                        return
                    self._add(row)
                await trio.lowlevel.checkpoint()

    @property
    def room(self) -> int:
        """Entries that are looked at yet."""
        return min(self.count - len(self.rows), LOOKED_MAX - len(self.rows) - self.left_out)

    def _add(self, row: Row) -> None:
        self.next = row.stop if isinstance(row, GapRow) else row.position + 1
        if self.leaves_out and isinstance(row, EntryRow) and row.database is not None and row.database.is_housekeeping:
            self.left_out += 1
        else:
            self.rows.append(row)


@attrs.frozen
class RowMaker:
    """Makes rows for one viewer."""

    viewer: Viewer
    decoder: Decoder
    max_bytes: int
    """Bytes that are shown of each payload."""
    is_alone: bool = False
    """True for one entry that is shown alone, with all its commands."""

    @classmethod
    def of(cls, viewer: Viewer, decoder: Decoder, max_bytes: int, count: int) -> RowMaker:
        """For a page of `count` rows: one row alone may show more."""
        is_alone = count <= 1
        return cls(viewer, decoder, max_bytes if is_alone else min(max_bytes, PREVIEW_BYTES), is_alone)

    def rows(self, placed: Placed, count: int) -> Iterator[Row]:
        """The first `count` rows of an item that was read."""
        if isinstance(placed, Gap):
            if count > 0:
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
        audit = find_record(payload)
        database = None if audit is not None else decode_entry(payload, self.viewer, self.decoder, **bounds)
        return EntryRow(
            position=place,
            time_ms=placed.time_ms,
            session=batch.session.hex(),
            sequence=batch.first_sequence + placed.first + index,
            batch=range(begin, begin + (batch.count - 1) * step + 1),
            value=decode(payload, self.decoder, self.max_bytes) if database is None and audit is None else None,
            database=database,
            audit=audit,
        )
