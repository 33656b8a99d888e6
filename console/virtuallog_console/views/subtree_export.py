"""Export of a subtree as JSON lines, for backups by hand and for imports elsewhere.

    {"export": 1, "path": "/app", "server": 2, "zxid": 4711}
    {"path": "/app", "data": "text", "acl": ["world:anyone: rwcda"], "version": 3, "mtime_ms": 1700000000000, "owner": ""}
    {"path": "/app/key", "data_base64": "/w==", ...}
    {"path": "/app/password", "withheld": "masked by a path pattern of this console", "data_bytes": 12, ...}
    {"end": true, "znodes": 3, "bytes": 9, "cut": ""}

Parents come before their children. It is no snapshot: writes go on while the server is read, one znode at a time. The last line says if the
export was cut, and why; an export without that line was broken off.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

import attrs

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Clock
from virtuallog_console.views.database_commands import acl_texts
from virtuallog_console.views.tree import REFUSED, child_path, hex_session
from virtuallog_console.views.tree_server import TreeServer, find_server
from virtuallog_console.views.viewer import MASKED, Viewer
from virtuallog_database.control.tree_messages import DATA_BYTES_MAX, ListChildren, ReadZnode, ZnodeReport
from virtuallog_database.tree import paths
from virtuallog_database.tree.acl import ENTRIES_MAX
from virtuallog_database.tree.commands import Acl

FORMAT: Final = 1
ZNODES_MAX: Final = 10_000
"""Most znodes of one export."""
EXPORT_BYTES_MAX: Final = 16 << 20
"""Most bytes of data in one export."""
EXPORT_SECONDS: Final = 60.0


@attrs.frozen(kw_only=True)
class ExportBounds:
    """Bounds of one export. Larger values than the defaults have no effect."""

    znodes: int = ZNODES_MAX
    data_bytes: int = EXPORT_BYTES_MAX
    seconds: float = EXPORT_SECONDS


async def export_lines(
    log: VirtualLog, viewer: Viewer, path: str, bounds: ExportBounds | None = None
) -> AsyncGenerator[str, None]:
    """Lines of the export, each with its end of line. Yields as it reads, and never raises a VirtualLogError: the last line says it."""
    bounds = bounds or ExportBounds()
    state = _Export(viewer, bounds, log.view.environment.clock)
    try:
        if not paths.is_valid(path):
            state.cut = "this is no path of a znode"
        else:
            server = await find_server(log)
            async with aclosing(state.lines(server, path)) as lines:
                async for line in lines:
                    yield line
    except VirtualLogError as error:
        state.cut = str(error)
    yield _line({"end": True, "znodes": state.znodes, "bytes": state.data_bytes, "cut": state.cut})


@attrs.define
class _Export:
    viewer: Viewer
    bounds: ExportBounds
    clock: Clock
    znodes: int = 0
    data_bytes: int = 0
    cut: str = ""
    """Reason why the export ends before the end of the subtree. Empty if it does not."""
    deadline: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.deadline = self.clock.monotonic() + min(self.bounds.seconds, EXPORT_SECONDS)

    async def lines(self, server: TreeServer, top: str) -> AsyncGenerator[str, None]:
        """The head, and a line for each znode, depth first."""
        waiting = [(top, "")]
        """Paths with children to read, each with the name behind which these go on."""
        first = await self._read(server, top)
        if not first.found:
            self.cut = "there is no such znode"
            return
        yield _line({"export": FORMAT, "path": top, "server": server.node, "zxid": first.zxid})
        yield self._znode(top, first)
        while waiting and not self.cut:
            parent, after = waiting.pop()
            request = ListChildren(path=parent, after=after, as_admin=self.viewer.is_admin)
            report = await server.ask(request)
            if report.has_more and report.children:
                waiting.append((parent, report.children[-1].name))
            inner = []
            for child in report.children:
                path = child_path(parent, child.name)
                hidden = self.viewer.masks.covers(path)
                if not self._has_room(0 if hidden else child.data_bytes, path):
                    return
                found = await self._read(server, path)
                if not found.found:  # deleted meanwhile
                    continue
                yield self._znode(path, found)
                if found.children:
                    inner.append((path, ""))
            waiting += reversed(inner)

    async def _read(self, server: TreeServer, path: str) -> ZnodeReport:
        wanted = 0 if self.viewer.masks.covers(path) else DATA_BYTES_MAX
        return await server.ask(ReadZnode(path=path, data_bytes_max=wanted, as_admin=self.viewer.is_admin))

    def _has_room(self, data_bytes: int, path: str) -> bool:
        """True if one more znode is within the bounds; else notes why the export is cut."""
        bounds = self.bounds
        if self.znodes >= min(bounds.znodes, ZNODES_MAX):
            self.cut = f"{self.znodes} znodes; the next one is {path}"
        elif self.data_bytes + data_bytes > min(bounds.data_bytes, EXPORT_BYTES_MAX):
            self.cut = f"{self.data_bytes} bytes of data; the next one is {path}"
        elif self.clock.monotonic() >= self.deadline:
            self.cut = f"the time is over; the next one is {path}"
        return not self.cut

    def _znode(self, path: str, report: ZnodeReport) -> str:
        self.znodes += 1
        row: dict[str, Any] = {"path": path}
        if self.viewer.masks.covers(path) or not report.readable:
            row["withheld"] = MASKED if self.viewer.masks.covers(path) else REFUSED
            row["data_bytes"] = report.data_bytes
        else:
            self.data_bytes += len(report.data)
            row |= _data(report)
        return _line(
            {
                **row,
                "acl": list(
                    acl_texts([Acl(each.permissions, each.scheme, each.id) for each in report.acl], ENTRIES_MAX)
                ),
                "version": report.version,
                "mtime_ms": report.mtime_ms,
                "owner": hex_session(report.ephemeral_owner),
            }
        )


def _data(report: ZnodeReport) -> dict[str, Any]:
    """Data as text if it is UTF-8, else in base64. The size, too, if a former version has stored more than is read."""
    rest = {"data_bytes": report.data_bytes} if report.data_bytes > len(report.data) else {}
    try:
        return {"data": report.data.decode(), **rest}
    except UnicodeDecodeError:
        return {"data_base64": base64.b64encode(report.data).decode(), **rest}


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row) + "\n"
