"""Pages of entries: by position, by time, by a text in them, and one entry as a whole."""

from __future__ import annotations

from typing import Final

import attrs
from starlette.responses import Response

from virtuallog.contract.types import POSITION_MAX
from virtuallog_console.pages.frame import Frame, PageRequest
from virtuallog_console.pages.page_query import parse_number
from virtuallog_console.views.entries import ENTRIES_MAX, EntryPage, EntryRow, read_at_time, read_last, read_page
from virtuallog_console.views.entry_search import search
from virtuallog_console.views.values import PREVIEW_BYTES_MAX, Decoder

LEFT_OUT: Final = "left-out"
"""Value of `housekeeping` in the address of a page without it."""
ROWS_DEFAULT: Final = 50
"""Rows of a page, unless its address names another number."""
WHOLE_BYTES: Final = 64 << 10
"""Bytes of a value that the page of one entry shows at first. A link on it shows as much as a value may have."""


@attrs.frozen
class EntriesPages:
    """Shows entries."""

    _frame: Frame

    async def show(self, asked: PageRequest) -> Response:
        """A page of entries. Without any value in the address: the last ones."""
        query = asked.query
        decoder, count = query.decoder(), query.number("count", 1, ENTRIES_MAX) or ROWS_DEFAULT
        start, time_ms, text = query.number("from"), query.time_ms("time"), query.text("text")
        log, viewer = self._frame.log, asked.viewer
        leaves_out = query.text("housekeeping") == LEFT_OUT
        is_finished: bool | None = None
        if text:
            found = await search(log, viewer, text, start, decoder=decoder)
            page, is_finished = found.page, found.is_finished
        elif time_ms is not None:
            page = await read_at_time(log, viewer, time_ms, count=count, decoder=decoder, leaves_out=leaves_out)
        elif start is not None:
            page = await read_page(log, viewer, start, count=count, decoder=decoder, leaves_out=leaves_out)
        else:
            page = await read_last(log, viewer, count=count, decoder=decoder, leaves_out=leaves_out)
        return self._frame.show(
            "entries.html",
            asked,
            page=page,
            count=count,
            former=previous_start(page, count),
            decoder=decoder.value,
            decoders=[each.value for each in Decoder],
            text=text,
            time=query.text("time"),
            is_finished=is_finished,
            leaves_out=leaves_out,
            kept=f"&housekeeping={LEFT_OUT}" if leaves_out else "",
            has_database=self._frame.has_database,
        )

    async def one(self, asked: PageRequest) -> Response:
        """One entry, with all that is known of it."""
        position = parse_number("position", asked.part("position"), 0, POSITION_MAX)
        decoder, is_all = asked.query.decoder(), asked.query.text("whole") == "1"
        page = await read_page(
            self._frame.log,
            asked.viewer,
            position,
            count=1,
            decoder=decoder,
            preview_bytes=PREVIEW_BYTES_MAX if is_all else WHOLE_BYTES,
        )
        row = page.rows[0] if page.rows else None
        if isinstance(row, EntryRow) and row.position != position:  # it is in a batch of a striped loglet, with holes
            row = None
        return self._frame.show(
            "entry.html",
            asked,
            status=200 if isinstance(row, EntryRow) or page.problem else 404,
            page=page,
            position=position,
            row=row,
            is_all=is_all,
            decoder=decoder.value,
            decoders=[each.value for each in Decoder],
        )


def previous_start(page: EntryPage, count: int) -> int | None:
    """First position of the page before. None if there is none."""
    least = page.trim_point or 0
    return max(least, page.start - count) if page.start > least else None
