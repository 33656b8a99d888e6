"""`GET /metrics`: figures of this console for Prometheus."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import trio
from starlette.responses import Response

from virtuallog.contract import metrics
from virtuallog.contract.caller_roles import Role
from virtuallog.contract.metrics import MetricFamily
from virtuallog_console.access.routes import ConsoleRequest, ConsoleRoute, RouteGroup
from virtuallog_server.process.console import exposition
from virtuallog_server.process.console.exposition import Collector
from virtuallog_server.process.console.http_connections import HttpConnections
from virtuallog_server.process.console.process_metrics import process_collectors


@attrs.frozen
class ConnectionMetrics:
    """The figures of the connections."""

    connections: HttpConnections

    def metrics(self) -> Sequence[MetricFamily]:
        """Connections that are open, and those that came."""
        return [
            metrics.gauge("virtuallog_console_connections", "Connections that are open.", self.connections.open),
            metrics.counter("virtuallog_console_connections_total", "Connections that came.", self.connections.opened),
        ]


@attrs.define(eq=False)
class ConsoleMetrics:
    """The figures of one console."""

    parts: list[object] = attrs.field(factory=list)
    """Parts with figures (`MetricsSource`). They are added when they are made, as some of them serve this route."""
    _collectors: Sequence[Collector] = attrs.field(factory=process_collectors)
    _scraping: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    """Held during a scrape: two at once would only slow each other down."""

    async def show(self, _: ConsoleRequest) -> Response:
        """All figures as of now, as text."""
        async with self._scraping:
            text = await exposition.expose(metrics.of(self.parts), self._collectors)
        return Response(text, media_type=exposition.CONTENT_TYPE)

    def routes(self) -> RouteGroup:
        """The route of the figures."""
        summary = "Show figures of this console, for Prometheus"
        return RouteGroup(
            "metrics",
            (ConsoleRoute(method="GET", path="/metrics", endpoint=self.show, role=Role.CLIENT, summary=summary),),
        )
