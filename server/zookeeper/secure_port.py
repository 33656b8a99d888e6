"""The port for clients with TLS: a handshake first, within bounds, then a connection like any other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import attrs
import structlog
import trio
from trio.abc import Listener, Stream

from server.zookeeper.secure import ClientSecurity
from virtuallog.errors import UntrustedError
from virtuallog.ports import Clock
from virtuallog.rpc.reception import HANDSHAKE_SECONDS, HANDSHAKES_MAX
from virtuallog.rpc.transport import accepted, peer_address

log = structlog.get_logger(__name__)


class ServesStreams(Protocol):
    """Who goes on with a connection: see `server.zookeeper.serving`."""

    async def serve_stream(self, stream: Stream, host: str, port: int = 0, subject: str | None = None) -> None: ...


@attrs.define(eq=False)
class SecurePort:
    """See above."""

    _security: ClientSecurity
    _server: ServesStreams
    _clock: Clock
    _shaking_hands: int = attrs.field(default=0, init=False)

    async def serve(self, listeners: Sequence[Listener[Any]]) -> None:
        """Accept connections until cancelled."""
        await trio.serve_listeners(self._serve, list(listeners))

    async def _serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            address = peer_address(stream)
            if address is None or self._shaking_hands >= HANDSHAKES_MAX:
                return
            accepted(stream)
            secured = await self._secure(stream, address[0])
            if secured is not None:
                await self._server.serve_stream(secured[0], *address, secured[1])

    async def _secure(self, stream: Stream, host: str) -> tuple[Stream, str] | None:
        """None: refused, and closed soon."""
        self._shaking_hands += 1
        reason = "no TLS handshake in time"
        try:
            with self._clock.timeout(HANDSHAKE_SECONDS):
                return await self._security.secure(stream)
        except (OSError, trio.BrokenResourceError, UntrustedError) as error:
            reason = str(error) or "the connection broke during the TLS handshake"
        finally:
            self._shaking_hands -= 1
        log.info("client refused", address=host, reason=reason)
        return None
