"""The page of a znode's past: its state at a moment, and the last changes before."""

from __future__ import annotations

from typing import Final

import attrs
from starlette.responses import Response

from virtuallog_console.pages.frame import Frame, PageRequest
from virtuallog_console.pages.page_query import PageQuery, PageQueryError
from virtuallog_console.pages.tree_pages import steps_of
from virtuallog_console.past.past_reader import ANSWER_SECONDS, PastReader
from virtuallog_console.past.past_znode import read_past
from virtuallog_console.views.values import Decoder

PAGE_SECONDS: Final = ANSWER_SECONDS + 30.0
"""Longest duration of a request: the question, and the end of its process."""


@attrs.frozen
class PastPage:
    """Shows the past of a znode."""

    _frame: Frame
    _reader: PastReader | None

    async def show(self, asked: PageRequest) -> Response:
        """One znode at a position or a time; without one, now."""
        query, decoder = asked.query, asked.query.decoder()
        path = query.text("path") or "/"
        view = await read_past(self._reader, asked.viewer, path, moment_of(query), decoder)
        return self._frame.show(
            "past.html",
            asked,
            view=view,
            steps=steps_of(path),
            at=query.text("at"),
            decoder=decoder.value,
            decoders=[each.value for each in Decoder],
        )


def moment_of(query: PageQuery) -> str:
    """The position or the time of a page, for a command. Empty for now.

    Raises:
        PageQueryError: it is neither.
    """
    text = query.text("at").strip()
    try:
        position = query.number("at")
    except PageQueryError:
        query.time_ms("at")
        return text
    return "" if position is None else str(position)
