"""The port for clients with TLS: a bounded handshake first, then a connection like any other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import attrs
import trio
from trio.abc import Listener, Stream

from virtuallog.contract.errors import UntrustedError
from virtuallog.contract.ports import Clock
from virtuallog.rpc.connection_slots import ConnectionSlots
from virtuallog.rpc.rate_limited_log import RateLimitedLog
from virtuallog.rpc.tls_acceptor import HANDSHAKE_SECONDS, handshake_slots
from virtuallog.rpc.transport import accepted, peer_address


class TlsHandshake(Protocol):
    """The handshake (`virtuallog_server.zookeeper.auth.tls.ClientSecurity`)."""

    async def secure(self, stream: Stream) -> tuple[Stream, str]:
        """Shake hands with a client (`ClientSecurity.secure`)."""
        ...


class StreamServer(Protocol):
    """The server of the connections (`virtuallog_server.zookeeper.server`)."""

    async def serve_stream(self, stream: Stream, host: str, port: int = 0, subject: str | None = None) -> None: ...


@attrs.define(eq=False)
class TlsPort:
    """The port. Handshakes that stall give way to later ones (`virtuallog.rpc.connection_slots`)."""

    _security: TlsHandshake
    _server: StreamServer
    _clock: Clock
    _under_way: ConnectionSlots = attrs.field(factory=handshake_slots, init=False)
    _complaints: RateLimitedLog = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._complaints = RateLimitedLog(self._clock)

    async def serve(self, listeners: Sequence[Listener[Any]]) -> None:
        """Accept connections until cancelled."""
        await trio.serve_listeners(self._serve_accepted, list(listeners))

    async def _serve_accepted(self, stream: trio.SocketStream) -> None:
        async with stream:
            address = peer_address(stream)
            if address is not None:
                accepted(stream)
                await self.serve_stream(stream, *address)

    async def serve_stream(self, stream: Stream, host: str, port: int = 0) -> None:
        """Serve one connection until it ends, from its handshake on. Closes the stream if the handshake succeeds; else the caller must."""
        secured = await self._secure(stream, host)
        if secured is not None:
            await self._server.serve_stream(secured[0], host, port, secured[1])

    async def _secure(self, stream: Stream, host: str) -> tuple[Stream, str] | None:
        """Shake hands, within the time. None if the client is refused."""
        reason = "no TLS handshake in time"
        try:
            with self._clock.timeout(HANDSHAKE_SECONDS) as scope, self._under_way.take(host, scope.cancel):
                return await self._security.secure(stream)
        except (OSError, trio.BrokenResourceError, UntrustedError) as error:
            reason = str(error) or "the connection broke during the TLS handshake"
        self._complaints.warn("connection refused", address=host, reason=reason)
        return None
