"""An HTTP server for the console and pages like it, by Hypercorn, with bounds on everything.

Hypercorn's `serve` opens its own sockets and takes any number of connections. So this server accepts connections itself, and
passes each to Hypercorn's `TCPServer`, as `serve` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import trio
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState
from hypercorn.utils import wrap_app
from starlette.applications import Starlette
from trio.abc import Listener

from virtuallog.contract.ports import Clock
from virtuallog.rpc.connection_slots import ConnectionSlots
from virtuallog.runtime import log
from virtuallog.runtime.clock import SystemClock
from virtuallog_server.process.console.host_check import LoopbackHostsOnly

CONNECTIONS_MAX: Final = 16
"""Connections at a time: some scrapers and a person. For one more the oldest is closed, as an answer takes a moment."""
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

    def __init__(self, console: HttpApplication, clock: Clock | None = None) -> None:
        # Starlette takes any mapping as a scope, Hypercorn's types name every kind of scope: both mean ASGI, and neither fits.
        self._app = wrap_app(LoopbackHostsOnly(console.application()), wsgi_max_body_size=0, mode="asgi")  # type: ignore[arg-type]
        self._config = _config()
        self._context = WorkerContext(max_requests=None)
        self._clock = clock or SystemClock()
        self._places = ConnectionSlots(CONNECTIONS_MAX, CONNECTIONS_MAX)

    async def run(self, listeners: Sequence[Listener[Any]]) -> None:
        """Serve until cancelled."""
        await trio.serve_listeners(self._serve, list(listeners))

    async def _serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection. Its errors concern no other."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._close_in_time, stream, nursery.cancel_scope)
                # Declared for TLS streams only. It checks for TLS itself, and serves streams without it as well.
                await TCPServer(self._app, self._config, self._context, ConnectionState({}), stream)  # type: ignore[arg-type]
                nursery.cancel_scope.cancel()
        except Exception as error:
            log.warning("console connection failed", error=repr(error))

    async def _close_in_time(self, stream: trio.SocketStream, connection: trio.CancelScope) -> None:
        """End a connection after its time. Hypercorn sends behind a shield: to a peer that reads nothing it would send for ever, and the
        node could not end.
        """
        try:
            with self._places.take("", connection.cancel):
                await self._clock.sleep(CONNECTION_SECONDS)
        finally:
            stream.socket.close()


def _config() -> Config:
    config = Config()
    config.errorlog = config.accesslog = None  # it would write to stderr beside our own log
    config.h11_max_incomplete_size = REQUEST_BYTES_MAX
    config.read_timeout = READ_SECONDS
    config.keep_alive_timeout = KEEP_ALIVE_SECONDS
    config.alpn_protocols = ["http/1.1"]
    config.include_server_header = False
    return config
