"""Where connections that come in show who they are, before anything is done for them.

A handshake costs a millisecond of CPU and is over after two flights. One that stalls holds a socket and no more; at most
`HANDSHAKES_MAX` may be under way, and from one address `ADDRESS_HANDSHAKES_MAX`; if one more comes the oldest goes (`places`), so that
those who stall push each other out and not those who work.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import attrs
import trio
from trio.abc import Stream

from virtuallog.contract.errors import UntrustedError
from virtuallog.contract.ports import Clock
from virtuallog.rpc.connection_slots import ConnectionSlots
from virtuallog.rpc.protocol import message_writer
from virtuallog.rpc.protocol.frames import pack
from virtuallog.rpc.rate_limited_log import RateLimitedLog
from virtuallog.rpc.security.credentials import Credentials
from virtuallog.rpc.security.tls_stream import NO_TLS, TlsStream, tls_handshake
from virtuallog.rpc.transport import peer_address

HANDSHAKE_SECONDS: Final = 5.0
"""On a network where two flights take longer, connections are of no use."""
HANDSHAKES_MAX: Final = 256
"""At a time: a cluster whose clients all come back at once, after a restart."""
ADDRESS_HANDSHAKES_MAX: Final = 128
"""Of those from one address: half, so that one alone does not keep all others out."""
_GOODBYE_SECONDS: Final = 1.0
"""For somebody who was refused, to read why: closed at once, what he has sent meanwhile would wipe it out."""
_TLS_ONLY: Final = "this node serves connections inside TLS only"
_GOODBYE_BYTES_MAX: Final = 256 << 10


def handshake_slots() -> ConnectionSlots:
    """For the handshakes of one port that any stranger can reach."""
    return ConnectionSlots(HANDSHAKES_MAX, ADDRESS_HANDSHAKES_MAX)


@attrs.define(eq=False)
class TlsAcceptor:
    """Of one server."""

    credentials: Credentials
    _clock: Clock
    _complaints: RateLimitedLog
    _under_way: ConnectionSlots = attrs.field(factory=handshake_slots, init=False)

    async def receive(self, stream: Stream) -> TlsStream | None:
        """The stream inside TLS, once it is known who is there; None if that failed: then it is closed, and the log
        says why. Cancelling leaves a stream that can only be closed."""
        address, reason = peer_address(stream), "no TLS handshake in time"
        host = address[0] if address else ""
        try:
            with self._clock.timeout(HANDSHAKE_SECONDS) as scope, self._under_way.take(host, scope.cancel):
                return await self._secure(stream)
        except (OSError, trio.BrokenResourceError, UntrustedError) as error:
            reason = str(error) or "the connection broke during the TLS handshake"
        self._complaints.warn("connection refused", reason=reason)
        await trio.aclose_forcefully(stream)
        return None

    async def _secure(self, stream: Stream) -> TlsStream:
        try:
            secured = await tls_handshake(stream, self.credentials.current().server, server_side=True)
            self.credentials.check_peer(secured.peer)
        except UntrustedError as error:
            await self._let_read(stream, error)
            raise
        return secured

    async def _let_read(self, stream: Stream, error: UntrustedError) -> None:
        """TLS itself has told those who speak it."""
        if isinstance(stream, trio.SocketStream):
            with suppress(OSError, trio.BrokenResourceError), self._clock.timeout(_GOODBYE_SECONDS):
                if error.reason == NO_TLS:
                    await stream.send_all(b"".join(pack(message_writer.abort(_TLS_ONLY))))
                await stream.send_eof()
                taken = 0
                while taken < _GOODBYE_BYTES_MAX and (chunk := await stream.receive_some()):
                    taken += len(chunk)
