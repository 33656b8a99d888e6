"""Search for entries that contain some bytes, forward and within bounds.

One call reads at most `SEARCH_BYTES`, takes at most `SEARCH_SECONDS` and returns at most `FOUND_MAX` entries. It says up to where it has
looked, and the next call goes on there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs
import trio

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import InvalidSettingError, VirtualLogError
from virtuallog.contract.types import Gap, LogPosition, PlacedBatch
from virtuallog_console.views.database_commands import visible_parts
from virtuallog_console.views.entries import EntryPage, EntryRow, Row, RowMaker, empty_page
from virtuallog_console.views.log_bounds import find_bounds, joined
from virtuallog_console.views.values import PREVIEW_BYTES, Decoder
from virtuallog_console.views.viewer import Viewer

SEARCH_BYTES: Final = 32 << 20
"""Bytes of the log that one search reads: some tenths of a second."""
PIECE_BYTES: Final = 1 << 20
"""Bytes of one read. All other tasks of the process wait while it is searched, some milliseconds."""
SEARCH_SECONDS: Final = 5.0
FOUND_MAX: Final = 50
"""Most entries that one search returns."""
NEEDLE_BYTES_MAX: Final = 1024
"""Longest text that is searched for."""


@attrs.frozen(kw_only=True)
class SearchPage:
    """Entries that contain the text, from `start` up to `looked_to`."""

    page: EntryPage
    """The found entries. `page.next` is where to go on: everything before it has been looked at."""
    is_finished: bool
    """True if the search has reached the tail."""


async def search(
    log: VirtualLog, viewer: Viewer, text: str, start: int | None = None, *, decoder: Decoder = Decoder.AUTO
) -> SearchPage:
    """Entries that contain a text as UTF-8, from a position on.

    Entries of a database are searched as this viewer sees them: their paths, and the values that are not hidden.

    Raises:
        InvalidSettingError: the text is empty or too long.
    """
    needle = text.encode("utf-8", "surrogatepass")
    if not 0 < len(needle) <= NEEDLE_BYTES_MAX:
        raise InvalidSettingError("text", f"must have 1 to {NEEDLE_BYTES_MAX} bytes")
    page = empty_page(await find_bounds(log), start)
    if page.tail is None:
        return SearchPage(page=page, is_finished=False)
    state = _Search(needle, viewer, RowMaker(viewer, decoder, PREVIEW_BYTES), page.start)
    try:
        with log.view.environment.clock.timeout(SEARCH_SECONDS):
            await state.run(log, page.tail)
    except VirtualLogError as error:
        page = attrs.evolve(page, problem=joined(page.problem, f"at {state.position}: {error}"))
    page = attrs.evolve(page, rows=tuple(state.rows), next=state.position)
    return SearchPage(page=page, is_finished=page.next >= (page.tail or 0))


@attrs.define
class _Search:
    needle: bytes
    viewer: Viewer
    maker: RowMaker
    position: int
    """First position that has not been looked at."""
    rows: list[Row] = attrs.field(factory=list)

    async def run(self, log: VirtualLog, tail: int) -> None:
        left = SEARCH_BYTES
        while self.position < tail and left > 0 and len(self.rows) < FOUND_MAX:
            for placed in await log.read(LogPosition(self.position), LogPosition(tail), PIECE_BYTES):
                await trio.lowlevel.checkpoint()  # an entry of many commands takes some milliseconds
                left -= 1 if isinstance(placed, Gap) else len(placed.batch.blob)
                self._look(placed)
                if len(self.rows) >= FOUND_MAX:
                    return

    def _look(self, placed: PlacedBatch | Gap) -> None:
        """Look at one item, up to its end or up to the last entry that is to be found."""
        if isinstance(placed, PlacedBatch) and self.needle in placed.batch.blob:  # most batches end here
            for row in self._found(placed):
                self.rows.append(row)
                self.position = row.position + 1
                if len(self.rows) >= FOUND_MAX:
                    return
        self.position = placed.stop

    def _found(self, placed: PlacedBatch) -> Iterator[EntryRow]:
        payloads = placed.batch.payloads
        for index in range(len(placed.places)):
            payload = payloads[placed.first + index]
            if self.needle not in payload:
                continue
            parts = visible_parts(payload, self.viewer)
            if parts is None or any(self.needle in part for part in parts):
                yield self.maker.row(placed, index, payload)
