"""Pages of the database's tree: a znode, the sessions, and an export."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import attrs
from starlette.responses import Response

from virtuallog_console.pages.frame import Frame, PageRequest
from virtuallog_console.pages.lines_response import LinesResponse
from virtuallog_console.views.sessions import read_sessions
from virtuallog_console.views.subtree_export import EXPORT_SECONDS, export_lines
from virtuallog_console.views.tree import read_znode
from virtuallog_console.views.values import PREVIEW_BYTES, PREVIEW_BYTES_MAX, Decoder

CHILDREN: Final = 100
"""Children of a page."""
EXPORT_REQUEST_SECONDS: Final = EXPORT_SECONDS + 30.0
"""Longest duration of a request for an export: its reads, and the time to send the last lines."""
NO_DATABASE: Final = "This cluster has no database: programs append to the log themselves, and there is no tree."


@attrs.frozen
class TreePages:
    """Shows the tree."""

    _frame: Frame

    async def znode(self, asked: PageRequest) -> Response:
        """One znode, and a page of its children."""
        if not await self._has_database():
            return self._frame.sentence(asked, "No tree", NO_DATABASE, 404)
        query, decoder = asked.query, asked.query.decoder()
        path = query.text("path") or "/"
        is_all = query.text("whole") == "1"
        view = await read_znode(
            self._frame.log,
            asked.viewer,
            path,
            after=query.text("after"),
            count=CHILDREN,
            decoder=decoder,
            preview_bytes=PREVIEW_BYTES_MAX if is_all else PREVIEW_BYTES,
            node=query.number("node"),
        )
        return self._frame.show(
            "tree.html",
            asked,
            view=view,
            steps=steps_of(path),
            after=query.text("after"),
            nodes=self._nodes(),
            is_masked=asked.viewer.masks.covers(path),
            is_admin=asked.viewer.is_admin,
            is_all=is_all,
            decoder=decoder.value,
            decoders=[each.value for each in Decoder],
        )

    async def sessions(self, asked: PageRequest) -> Response:
        """A page of sessions, for admins."""
        if not await self._has_database():
            return self._frame.sentence(asked, "No tree", NO_DATABASE, 404)
        view = await read_sessions(self._frame.log, asked.viewer, asked.query.text("after"), CHILDREN)
        return self._frame.show("sessions.html", asked, view=view)

    async def export(self, asked: PageRequest) -> Response:
        """A subtree as JSON lines, one after the other as they are read."""
        if not await self._has_database():
            return self._frame.sentence(asked, "No tree", NO_DATABASE, 404)
        path = asked.query.text("path") or "/"
        name = path.rpartition("/")[2] or "root"
        return LinesResponse(
            export_lines(self._frame.log, asked.viewer, path),
            "application/x-ndjson",
            {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='', errors='replace')}.jsonl"},
        )

    def _nodes(self) -> list[int]:
        """Nodes that may be asked instead. A server of the database knows the watches of its own clients."""
        register = self._frame.log.view.cached
        assert register is not None, "has_database has looked at it"
        return sorted(int(node) for node in register.nodes)

    async def _has_database(self) -> bool:
        if self._frame.log.view.cached is None:  # the first request of all; its failure is in the view
            await self._frame.log.view.current()
        return self._frame.has_database


def steps_of(path: str) -> list[tuple[str, str]]:
    """Names and paths from the root to a znode."""
    steps, at = [("/", "/")], ""
    for name in path.split("/"):
        if name:
            at += f"/{name}"
            steps.append((name, at))
    return steps
