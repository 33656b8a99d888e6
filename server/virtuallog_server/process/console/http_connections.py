"""Connections of an HTTP server, with bounds on everything.

Hypercorn's `serve` opens its own sockets and takes any number of connections. So this server accepts connections itself, and
passes those with a whole head of a request, or hello of TLS, to Hypercorn's protocol (`ConnectionSieve`).

A connection without a request is of no use yet: of too many the oldest is closed (`ConnectionSlots`). An application that knows which
requests are worth it holds their connections (`HttpConnection.hold`): those are pushed out by none, and the application bounds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import attrs
import trio
from hypercorn.config import Config
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.utils import wrap_app
from starlette.types import ASGIApp
from trio.abc import Listener, Stream

from virtuallog.contract.caller_roles import Principal
from virtuallog.contract.ports import Clock
from virtuallog.rpc.connection_pace import ConnectionPace
from virtuallog.rpc.connection_slots import ConnectionSlots
from virtuallog.rpc.rate_limited_log import RateLimitedLog
from virtuallog.rpc.tls_acceptor import HANDSHAKE_SECONDS, TlsAcceptor
from virtuallog.rpc.transport import accepted, peer_address
from virtuallog.runtime import log
from virtuallog_server.process.console.connection_sieve import ConnectionSieve
from virtuallog_server.process.console.first_bytes import opening_of_http, opening_of_tls
from virtuallog_server.process.console.http1_protocol import Http1Connection

CONNECTION: Final = "connection"
"""Key of the `HttpConnection` in `scope["state"]`."""


@attrs.frozen(kw_only=True)
class HttpBounds:
    """Bounds of one HTTP server."""

    connections: int
    """Connections at a time that are not held. For one more the oldest is closed."""
    connections_of_address: int
    """The same of one address."""
    head_bytes: int
    """Most bytes of a request's head."""
    read_seconds: float | None
    """Seconds until a connection must have sent something, from its start or its last answer. None if the application bounds that."""
    keep_alive_seconds: float
    """Seconds for which a connection without a whole head of a request is kept."""
    connection_seconds: float
    """Longest duration of a connection that is not held, however busy."""


@attrs.define(eq=False)
class HttpConnection:
    """A connection as its requests see it, in `scope["state"]`."""

    address: str
    """Address of the other side, without a port; empty if it is unknown."""
    peer: Principal | None
    """Identity of the other side, from its certificate. None without TLS."""
    _clock: Clock
    _end: Callable[[], None]
    _deadline: float
    _holds: int = attrs.field(default=0, init=False)
    _changed: trio.Event = attrs.field(factory=trio.Event, init=False)

    @property
    def is_held(self) -> bool:
        """True if a request holds it: no other connection pushes it out."""
        return self._holds > 0

    @contextmanager
    def hold(self, seconds: float) -> Iterator[None]:
        """Keep the connection open for a request until the block ends, for `seconds` at most."""
        self._deadline = max(self._deadline, self._clock.monotonic() + seconds)
        self._holds += 1
        self._wake()
        try:
            yield
        finally:
            self._holds -= 1
            self._wake()

    def cut(self) -> None:
        """End the connection now, with all that it has yet to send."""
        self._end()

    def give_way(self) -> None:
        """End the connection for a newer one, unless it is held."""
        if not self.is_held:
            self._end()

    async def wait_deadline(self, slots: ConnectionSlots, counted: str) -> None:
        """Wait until the connection has lasted long enough. It takes a slot of the address `counted` while it is not held."""
        while (left := self._deadline - self._clock.monotonic()) > 0:
            changed = self._changed
            with self._clock.timeout(left):
                if self.is_held:
                    await changed.wait()
                else:
                    with slots.take(counted, self.give_way):
                        await changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


class HttpConnections:
    """The connections of one application."""

    def __init__(
        self,
        application: ASGIApp,
        bounds: HttpBounds,
        clock: Clock,
        *,
        acceptor: TlsAcceptor | None = None,
        pace: ConnectionPace | None = None,
        uncounted: Callable[[str], bool] = lambda address: False,
    ) -> None:
        """Serve nothing yet.

        Args:
            application: the application.
            bounds: bounds of the server.
            clock: clock of all times.
            acceptor: does the handshakes of TLS. None to serve without TLS.
            pace: pace of handshakes, or without TLS of connections, that come to nothing. None to serve at any pace.
            uncounted: True for an address, such as that of a proxy, that may have any number of connections.
        """
        # Starlette takes any mapping as a scope, Hypercorn's types name every kind of scope: both mean ASGI, and neither fits.
        self._app = wrap_app(application, wsgi_max_body_size=0, mode="asgi")  # type: ignore[arg-type]
        self._bounds = bounds
        self._config = _config(bounds)
        self._context = WorkerContext(max_requests=None)
        self._clock = clock
        self._acceptor = acceptor
        self._pace = pace
        self._uncounted = uncounted
        self._slots = ConnectionSlots(bounds.connections, bounds.connections_of_address)
        self._new_slots = ConnectionSlots(bounds.connections, bounds.connections_of_address)
        self._warnings = RateLimitedLog(clock)
        self._serving = 0
        self.opened = 0
        """Connections that came."""

    @property
    def open(self) -> int:
        """Connections that are open."""
        return self._serving + len(self._new_slots)

    async def run(self, listeners: Sequence[Listener[Any]]) -> None:
        """Serve until cancelled. Connections without a whole head of a request, or hello of TLS, have the same bounds by themselves."""
        bounds = self._bounds
        opening = (
            opening_of_http(bounds.head_bytes, bounds.keep_alive_seconds)
            if self._acceptor is None
            else opening_of_tls(HANDSHAKE_SECONDS, self._acceptor.goodbye)
        )
        async with trio.open_nursery() as nursery:
            for listener in listeners:
                sieve = ConnectionSieve(
                    opening=opening,
                    clock=self._clock,
                    slots=self._new_slots,
                    warnings=self._warnings,
                    pace=self._pace,
                    uncounted=self._uncounted,
                    came=self._count,
                )
                nursery.start_soon(sieve.run, listener, self.serve)

    def _count(self) -> None:
        self.opened += 1

    async def serve(self, stream: Stream) -> None:
        """Serve one connection, and close it. Its errors concern no other."""
        accepted(stream)
        address = peer_address(stream)
        self._serving += 1
        try:
            secured = stream if self._acceptor is None else await self._acceptor.receive(stream)
            if address is not None and secured is not None:
                if self._pace is not None:
                    self._pace.give_back(address[0])
                await self._serve(stream, secured, address)
        except Exception as error:
            log.warning("console connection failed", error=repr(error))
        finally:
            self._serving -= 1
            await trio.aclose_forcefully(stream)

    async def _serve(self, stream: Stream, secured: Stream, address: tuple[str, int]) -> None:
        async with trio.open_nursery() as nursery:
            connection = HttpConnection(
                address[0],
                getattr(secured, "peer", None),
                self._clock,
                nursery.cancel_scope.cancel,
                self._clock.monotonic() + self._bounds.connection_seconds,
            )
            nursery.start_soon(self._close_in_time, stream, connection)
            state = {CONNECTION: connection}
            await Http1Connection(
                self._app, self._config, self._context, secured, address, self._acceptor is not None, state
            )
            nursery.cancel_scope.cancel()

    async def _close_in_time(self, stream: Stream, connection: HttpConnection) -> None:
        """End a connection after its time. Hypercorn sends behind a shield: to a peer that reads nothing it would send for ever, and the
        process could not end.
        """
        try:
            await connection.wait_deadline(
                self._slots, "" if self._uncounted(connection.address) else connection.address
            )
            connection.cut()
        finally:
            if isinstance(stream, trio.SocketStream):
                stream.socket.close()
            else:
                await trio.aclose_forcefully(stream)


def _config(bounds: HttpBounds) -> Config:
    config = Config()
    config.errorlog = config.accesslog = None  # it would write to stderr beside our own log
    config.h11_max_incomplete_size = bounds.head_bytes
    config.read_timeout = bounds.read_seconds  # type: ignore[assignment]
    config.keep_alive_timeout = bounds.keep_alive_seconds
    config.alpn_protocols = ["http/1.1"]
    config.include_server_header = False
    return config
