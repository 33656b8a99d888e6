"""The pages of the console, as a Starlette application.

    /metrics   figures, for Prometheus (docs/reference/metrics.md)
    /healthz   200 as long as the event loop runs: for supervisors that restart dead processes
    /readyz    200 once the node knows a register and all its roles are open, else 503 and the reasons
    /status    this node's part of `virtuallog status --json`

`Probes` serves the first three alone, at an address that other machines may reach.

No page asks another node or a disk. An answer describes this process now, and arrives also while the node is in trouble.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import attrs
import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from trio.abc import Listener

from virtuallog.contract import metrics
from virtuallog.contract.ports import Clock
from virtuallog.rpc.security.credentials import Credentials
from virtuallog.runtime import log
from virtuallog_server.process.console import exposition
from virtuallog_server.process.console.exposition import Collector
from virtuallog_server.process.console.http_server import HttpServer
from virtuallog_server.process.console.process_metrics import (
    CertificateMetrics,
    ClockMetrics,
    DataDirectoryMetrics,
    process_collectors,
)

Page: TypeAlias = Callable[[Request], Awaitable[Response]]


class ConsoleSource(Protocol):
    """The node that the console shows."""

    def not_ready(self) -> Sequence[str]:
        """Reasons why it does not serve, a few words each. Empty once it serves."""
        ...

    def plain_status(self) -> dict[str, Any]:
        """Its status as plain values."""
        ...


@attrs.define(eq=False)
class Console:
    """The console of one node."""

    subject: ConsoleSource
    parts: Sequence[object]
    """Parts of the process. /metrics shows those that are `MetricsSource`s."""
    collectors: Sequence[Collector] = ()
    _scraping: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    """Held during a scrape: two at once would only slow each other down, and the node."""

    def application(self) -> Starlette:
        return _application({**self.probes, "/": self._index, "/status": self._status})

    @property
    def probes(self) -> Mapping[str, Page]:
        """The pages that supervisors and Prometheus ask for, by path."""
        return {"/metrics": self._metrics, "/healthz": self._health, "/readyz": self._readiness}

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


@attrs.frozen(eq=False)
class Probes:
    """The part of a console that supervisors and Prometheus need. `run_probes` serves it."""

    console: Console

    def application(self) -> Starlette:
        return _application(self.console.probes)


def _application(pages: Mapping[str, Page]) -> Starlette:
    return Starlette(routes=[Route(path, page, methods=["GET"]) for path, page in pages.items()])


def open_console(
    subject: ConsoleSource, parts: Sequence[object], data: Path, clock: Clock, credentials: Credentials | None
) -> Console:
    """The console of a node, with the metrics of its process.

    Args:
        subject: the node.
        parts: parts of its process that may have metrics.
        data: its data directory.
        clock: its clock.
        credentials: its certificate. None if there is no TLS.
    """
    surroundings = [DataDirectoryMetrics(data), ClockMetrics(clock), CertificateMetrics(credentials)]
    return Console(subject, [*parts, *surroundings], process_collectors())


async def run_console(console: Console, listeners: Sequence[Listener[Any]]) -> None:
    """Serve all pages until cancelled. Return if the console fails, which the node survives."""
    try:
        await HttpServer(console).run(listeners)
    except Exception:
        log.exception("the console has ended")


async def run_probes(console: Console, listeners: Sequence[Listener[Any]]) -> None:
    """Serve the probes until cancelled, to requests for any host name. Return if that fails, which the node survives."""
    try:
        await HttpServer(Probes(console), any_host=True).run(listeners)
    except Exception:
        log.exception("the probes have ended")
