"""An HTTP server for the console of a node and pages like it: read-only, for requests that name this machine. Probes are for other machines too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

from starlette.applications import Starlette
from starlette.types import ASGIApp
from trio.abc import Listener

from virtuallog.contract.ports import Clock
from virtuallog.runtime.clock import SystemClock
from virtuallog_server.process.console.host_check import LoopbackHostsOnly
from virtuallog_server.process.console.http_connections import HttpBounds, HttpConnections

CONNECTIONS_MAX: Final = 16
"""Connections at a time from one address: some scrapers and a person. For one more the oldest is closed, as an answer takes a moment."""
MACHINES_MAX: Final = 4
"""Addresses that may have all their connections at a time, at a port for other machines: one of them alone does not push out the rest."""
REQUEST_BYTES_MAX: Final = 8 << 10
"""Most bytes of a request's head. No page takes a body."""
READ_SECONDS: Final = 10
"""Seconds until a connection must have sent something, from its start or its last answer."""
KEEP_ALIVE_SECONDS: Final = 1
"""Seconds for which a connection without a request is kept. Scrapers come seconds apart and open a new one. A connection that its
peer has closed keeps its place for as long: Hypercorn waits for its timer.
"""

CONNECTION_SECONDS: Final = 60.0
"""Longest duration of a connection, however busy: scrapers open another one. Bounds peers that read no answers."""


class HttpApplication(Protocol):
    """An application to serve, such as `Console`."""

    def application(self) -> Starlette: ...


class HttpServer:
    """The server of one application."""

    def __init__(self, console: HttpApplication, clock: Clock | None = None, *, any_host: bool = False) -> None:
        """Serve nothing yet.

        Args:
            console: the application.
            clock: clock of all times. None for the system's.
            any_host: True to serve requests for any host name, from any machine.
        """
        bounds = HttpBounds(
            connections=CONNECTIONS_MAX * (MACHINES_MAX if any_host else 1),
            connections_of_address=CONNECTIONS_MAX,
            head_bytes=REQUEST_BYTES_MAX,
            read_seconds=READ_SECONDS,
            keep_alive_seconds=KEEP_ALIVE_SECONDS,
            connection_seconds=CONNECTION_SECONDS,
        )
        application: ASGIApp = console.application()
        guarded = application if any_host else LoopbackHostsOnly(application)
        self._connections = HttpConnections(guarded, bounds, clock or SystemClock())

    async def run(self, listeners: Sequence[Listener[Any]]) -> None:
        """Serve until cancelled."""
        await self._connections.run(listeners)
