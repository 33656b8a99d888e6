"""The pages of the console, as a Starlette application.

    /metrics   figures, for Prometheus (docs/howto/monitor.md)
    /healthz   200 as long as the event loop turns: whoever restarts dead processes asks this
    /readyz    200 once the node knows a register and all its roles are open, else 503 and what is missing
    /status    what `virtuallog status --json` says of this node

Nothing here asks another node, or a disk: an answer says how things are here, now, and comes while they are bad.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import attrs
import structlog
import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from trio.abc import Listener

from virtuallog.contract import metrics
from virtuallog_server.process.console import exposition
from virtuallog_server.process.console.exposition import Collector
from virtuallog_server.process.console.http_server import HttpServer
from virtuallog_server.process.console.process_metrics import DataDirectoryMetrics, process_collectors


class ConsoleSource(Protocol):
    """The node that the console shows."""

    def not_ready(self) -> Sequence[str]:
        """What keeps it from serving, a few words each; nothing once it serves."""
        ...

    def plain_status(self) -> dict[str, Any]:
        """How it is, as plain values."""
        ...


@attrs.define(eq=False)
class Console:
    """See above."""

    subject: ConsoleSource
    parts: Sequence[object]
    """Those of them that are `Measured` are told at /metrics."""
    collectors: Sequence[Collector] = ()
    _scraping: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    """One scrape after the other: two at once would only slow each other down, and the node."""

    def application(self) -> Starlette:
        pages: dict[str, Callable[[Request], Any]] = {
            "/": self._index,
            "/metrics": self._metrics,
            "/healthz": self._health,
            "/readyz": self._readiness,
            "/status": self._status,
        }
        return Starlette(routes=[Route(path, page, methods=["GET"]) for path, page in pages.items()])

    async def _index(self, _: Request) -> Response:
        return PlainTextResponse("/metrics\n/healthz\n/readyz\n/status\n")

    async def _metrics(self, _: Request) -> Response:
        async with self._scraping:
            text = await exposition.expose(metrics.of(self.parts), self.collectors)
        return Response(text, media_type=exposition.CONTENT_TYPE)

    async def _health(self, _: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _readiness(self, _: Request) -> Response:
        missing = self.subject.not_ready()
        if missing:
            return PlainTextResponse("".join(f"{each}\n" for each in missing), status_code=503)
        return PlainTextResponse("ready\n")

    async def _status(self, _: Request) -> Response:
        return JSONResponse(self.subject.plain_status())


# FOLDED from virtuallog_server.console.running: Puts the console of a node together and runs it.

log = structlog.get_logger(__name__)


async def run_console(
    subject: ConsoleSource, parts: Sequence[object], data: Path, listeners: Sequence[Listener[Any]]
) -> None:
    """Serve until cancelled; returns when the console has failed, which the node survives.

    Args:
        subject: the node.
        parts: whatever may be `Measured` in its process.
        data: its data directory.
        listeners: where the console listens.
    """
    try:
        console = Console(subject, [*parts, DataDirectoryMetrics(data)], process_collectors())
        await HttpServer(console).run(listeners)
    except Exception:
        log.exception("the console has ended")
