"""The live tail: rows of the newest entries, made by the server and sent as server-sent events.

    event: rows     id: position before the next one     data: {"next": 41, "count": 3, "left_out": 0, "rows": "<tr>..."}
    event: ended    data: {"next": 41, "reason": "...", "again": true}, the last one

The page keeps `ROWS_MAX` rows, so no more of them are sent at a time: of a fast log the newest ones, with the number of those left out. All
viewers of a role share the rows, and the hub of the door reads the log once for all of them.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Hashable, Sequence
from contextlib import suppress
from typing import Any, Final

import attrs
import trio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from virtuallog.audit import AuditRecord
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import Gap, Record
from virtuallog_console.door.tail_hub import BehindError, ClosedError, TailCursor, TailHub
from virtuallog_console.door.tail_window import Skipped, TailChunk, start_of
from virtuallog_console.pages.frame import Frame, PageRequest
from virtuallog_console.pages.lines_response import wait_disconnect
from virtuallog_console.pages.page_query import parse_number
from virtuallog_console.pages.renderer import macro
from virtuallog_console.views.audit_records import find_record
from virtuallog_console.views.database_commands import DatabaseEntry, decode_entry
from virtuallog_console.views.entries import GapRow, read_last
from virtuallog_console.views.log_bounds import find_bounds
from virtuallog_console.views.values import Decoder, Value, decode
from virtuallog_console.views.viewer import Viewer

ROWS_MAX: Final = 200
"""Rows that the page keeps, and the most that one event has."""
ROWS_AT_FIRST: Final = 20
"""Rows that the page has when it is opened."""
PAUSE_SECONDS: Final = 0.5
"""Least time between two events to a viewer: what is appended meanwhile is one event. Many tails are sent less often by the hub."""
ROW_BYTES: Final = 256
"""Bytes that are shown of each value."""
BACK_MAX: Final = 1000
"""Positions before the tail at which a tail may begin. One that resumes further back begins there, and says what it leaves out."""
CACHED_ROWS: Final = 1024
"""Rows that are kept for further viewers, some KiB each."""
CACHED_EVENTS: Final = 8
"""Events that are kept for further viewers, some hundred KiB each at most."""
ROWS_BETWEEN: Final = 16
"""Rows that are made between two checkpoints, some milliseconds."""
STREAM_SECONDS: Final = 3600.0
"""Longest duration of a stream. The page comes back by itself."""
END_SECONDS: Final = 30.0
"""Time to send the last event, beyond `STREAM_SECONDS`."""
HEARTBEAT_SECONDS: Final = 15.0
"""Longest silence. A proxy ends a silent connection after a minute, and a send shows that a client has gone."""


@attrs.frozen(kw_only=True)
class TailRow:
    """One entry in the tail, with the names that a row of the list has."""

    kind: str = "entry"
    position: int
    time_ms: int
    value: Value | None
    database: DatabaseEntry | None
    audit: AuditRecord | None


@attrs.define(eq=False)
class WaitingRows:
    """Records that are not sent yet: whole chunks, as few as have the newest `ROWS_MAX` records."""

    skipped: int = 0
    """Positions before the first one of the stream, and those that the hub has skipped."""
    count: int = 0
    _parts: deque[Sequence[Record]] = attrs.field(factory=deque)
    _kept: int = 0
    """Records in the parts."""

    def add(self, chunk: TailChunk, position: int) -> None:
        """Add what a chunk has from a position on."""
        part = list[Record]()
        for record in chunk.records_from(position):
            if isinstance(record, Skipped):
                self.skipped += record.stop - record.start
            else:
                part.append(record)
        self.count += len(part)
        self._kept += len(part)
        self._parts.append(part)
        while self._kept - len(self._parts[0]) >= ROWS_MAX:
            self._kept -= len(self._parts.popleft())

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to tell."""
        return not self.count and not self.skipped

    def newest(self) -> list[Record]:
        """The records that are sent."""
        return [record for part in self._parts for record in part][-ROWS_MAX:]


@attrs.define(eq=False)
class RowCache:
    """Rows of the newest entries as HTML, and events of them, for each kind of viewer."""

    _events: dict[tuple[Hashable, ...], bytes] = attrs.field(factory=dict, init=False)
    _making: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    """Held by the viewer who makes an event; the others wait for it."""
    _rows: dict[tuple[bool, int], str] = attrs.field(factory=dict, init=False)

    async def event(self, waiting: WaitingRows, position: int, viewer: Viewer) -> bytes:
        """The event of what waits before a position. Made once for all viewers who are sent the same."""
        records = waiting.newest()
        left_out = waiting.skipped + waiting.count - len(records)
        key = (viewer.is_admin, position, waiting.count, left_out, *map(start_of, records))
        async with self._making:
            if key not in self._events:
                rows = await self.rows(records, viewer)
                data = {"next": position, "count": waiting.count, "left_out": left_out, "rows": rows}
                self._events[key] = _event("rows", data)
                if len(self._events) > CACHED_EVENTS:
                    del self._events[next(iter(self._events))]
            return self._events[key]

    async def rows(self, records: list[Record], viewer: Viewer) -> str:
        """Rows of these records, the newest first."""
        made = []
        for number, record in enumerate(reversed(records), 1):
            made.append(self._row(record, viewer))
            if number % ROWS_BETWEEN == 0:
                await trio.lowlevel.checkpoint()
        return "".join(made)

    def _row(self, record: Record, viewer: Viewer) -> str:
        position = record.start if isinstance(record, Gap) else record.position
        key = (viewer.is_admin, position)
        if isinstance(record, Gap) or key not in self._rows:
            text = str(macro("parts.html", "entry_row")(row_of(record, viewer), Decoder.AUTO.value))
            if isinstance(record, Gap):
                return text
            self._rows[key] = text
            if len(self._rows) > CACHED_ROWS:
                del self._rows[next(iter(self._rows))]
        return self._rows[key]


def row_of(record: Record, viewer: Viewer) -> TailRow | GapRow:
    """The row of one record, as this viewer may see it."""
    if isinstance(record, Gap):
        return GapRow(kind=record.kind.value, start=record.start, stop=record.stop)
    audit = find_record(record.payload)
    database = None if audit is not None else decode_entry(record.payload, viewer, max_bytes=ROW_BYTES)
    value = decode(record.payload, max_bytes=ROW_BYTES) if database is None and audit is None else None
    return TailRow(position=record.position, time_ms=record.time_ms, value=value, database=database, audit=audit)


@attrs.frozen
class TailPage:
    """The page of the tail, and its stream."""

    _frame: Frame
    _hub: TailHub
    _clock: Clock
    _cache: RowCache = attrs.field(factory=RowCache)

    async def show(self, asked: PageRequest) -> Response:
        """The page, with the last entries."""
        page = await read_last(self._frame.log, asked.viewer, count=ROWS_AT_FIRST)
        return self._frame.show("tail.html", asked, page=page, rows=page.rows[::-1], rows_max=ROWS_MAX)

    async def stream(self, asked: PageRequest) -> Response:
        """The stream: behind `Last-Event-ID`, from `from` on, or from the tail on."""
        start = asked.query.number("from")
        last = asked.request.http.headers.get("last-event-id", "")
        if last:  # it is newer than the address, which a browser uses again
            start = parse_number("Last-Event-ID", last) + 1
        bounds = await find_bounds(self._frame.log)
        tail, problem = bounds.tail, ""
        if tail is None:
            tail, problem = start or 0, bounds.problem
        begin = tail if start is None else min(tail, max(start, tail - BACK_MAX))
        return _RowStream(
            self._hub, self._clock, self._cache, asked, begin, max(0, begin - (start or begin)), problem
        )  # fmt: skip


class _RowStream(Response):
    """The answer: it sends until the log or the client ends it."""

    def __init__(
        self, hub: TailHub, clock: Clock, cache: RowCache, asked: PageRequest, start: int, left_out: int, problem: str
    ) -> None:
        super().__init__(None, 200, media_type="text/event-stream")
        del self.headers["content-length"]
        self.headers["X-Accel-Buffering"] = "no"
        self._hub = hub
        self._clock = clock
        self._cache = cache
        self._asked = asked
        self._start = start
        self._left_out = left_out
        self._problem = problem

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_disconnect, receive, nursery.cancel_scope)
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )  # fmt: skip
            if self._problem:
                last = _event("ended", {"next": self._start, "reason": self._problem, "again": True})
            else:
                with self._hub.follow(self._start, self._asked.request.connection.cut) as cursor:
                    last = await self._send_rows(cursor, send)
            await send({"type": "http.response.body", "body": last, "more_body": False})
            nursery.cancel_scope.cancel()

    async def _send_rows(self, cursor: TailCursor, send: Send) -> bytes:
        """Send events until the end. Returns the last one, which is not sent."""
        end = self._clock.monotonic() + STREAM_SECONDS
        waiting = WaitingRows(skipped=self._left_out)
        try:
            await self._send(cursor, send, await self._cache.event(waiting, cursor.position, self._asked.viewer))
            while self._clock.monotonic() < end:
                waiting = await self._gather(cursor, min(HEARTBEAT_SECONDS, end - self._clock.monotonic()))
                event = b":\n\n"
                if not waiting.is_empty:
                    event = await self._cache.event(waiting, cursor.position, self._asked.viewer)
                    event = f"id: {cursor.position - 1}\n".encode() + event
                await self._send(cursor, send, event)
            reason, again = f"open for {STREAM_SECONDS:g} s", True
        except BehindError:
            reason, again = "this page was too slow", True
        except ClosedError:
            reason, again = "the log is closed", False
        except VirtualLogError as error:
            reason, again = str(error), True
        return _event("ended", {"next": cursor.position, "reason": reason, "again": again})

    async def _gather(self, cursor: TailCursor, seconds: float) -> WaitingRows:
        """All that comes within a pause after the first record; nothing if none comes in time."""
        waiting = WaitingRows()
        with self._clock.timeout(max(0.0, seconds)):
            await self._take(cursor, waiting)
        if not waiting.is_empty:
            # What has come is sent before the failure, which the next call meets again.
            with (
                suppress(BehindError, ClosedError, VirtualLogError),
                self._clock.timeout(PAUSE_SECONDS),
            ):
                while True:
                    await self._take(cursor, waiting)
                    await trio.lowlevel.checkpoint()
        return waiting

    async def _take(self, cursor: TailCursor, waiting: WaitingRows) -> None:
        chunk = await self._hub.next(cursor)
        waiting.add(chunk, cursor.position)
        self._hub.move(cursor, chunk)

    async def _send(self, cursor: TailCursor, send: Send, event: bytes) -> None:
        cursor.sending_since = self._clock.monotonic()
        await send({"type": "http.response.body", "body": event, "more_body": True})
        cursor.sending_since = None


def _event(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
