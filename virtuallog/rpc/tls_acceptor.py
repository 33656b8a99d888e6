"""TLS handshakes of incoming connections. Callers prove their identity before anything is done for them.

A handshake costs a millisecond of CPU and is over after two flights. One that stalls holds a socket
and no more. At most `HANDSHAKES_MAX` may be in progress, and `ADDRESS_HANDSHAKES_MAX` from one
address. If one more comes the oldest is closed (`connection_slots`), so that stalling connections
push each other out and not those that work.
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
"""Handshake timeout. Where two flights take longer, connections are of no use."""
HANDSHAKES_MAX: Final = 256
"""Handshakes at a time: enough for all clients of a cluster that come back at once, after a restart."""
ADDRESS_HANDSHAKES_MAX: Final = 128
"""Handshakes at a time from one address: half, so that one address does not keep all others out."""
_GOODBYE_SECONDS: Final = 1.0
"""Time for a refused caller to read the reason. Bytes it has sent meanwhile would wipe it out if we
closed at once."""
_TLS_ONLY: Final = b"".join(pack(message_writer.abort("this node serves connections inside TLS only")))
_GOODBYE_BYTES_MAX: Final = 256 << 10


def handshake_slots() -> ConnectionSlots:
    """Make the slots for the handshakes of one port that any stranger can reach."""
    return ConnectionSlots(HANDSHAKES_MAX, ADDRESS_HANDSHAKES_MAX)


@attrs.define(eq=False)
class TlsAcceptor:
    """TLS handshakes of one server."""

    credentials: Credentials
    _clock: Clock
    _warnings: RateLimitedLog
    goodbye: bytes = _TLS_ONLY
    """Answer to a caller that speaks no TLS: a message of the RPC, unless the port has another protocol."""
    _under_way: ConnectionSlots = attrs.field(factory=handshake_slots, init=False)

    async def receive(self, stream: Stream) -> TlsStream | None:
        """Return the stream inside TLS, with a verified peer. None if that failed.

        Then the stream is closed, and the log has the reason. Cancelling leaves a stream that can
        only be closed.
        """
        address, reason = peer_address(stream), "no TLS handshake in time"
        host = address[0] if address else ""
        try:
            with self._clock.timeout(HANDSHAKE_SECONDS) as scope, self._under_way.take(host, scope.cancel):
                return await self._secure(stream)
        except (OSError, trio.BrokenResourceError, UntrustedError) as error:
            reason = str(error) or "the connection broke during the TLS handshake"
        self._warnings.warn("connection refused", reason=reason)
        await trio.aclose_forcefully(stream)
        return None

    async def _secure(self, stream: Stream) -> TlsStream:
        try:
            secured = await tls_handshake(stream, self.credentials.current().server, server_side=True)
            self.credentials.check_peer(secured.peer)
        except UntrustedError as error:
            await self._send_refusal(stream, error)
            raise
        return secured

    async def _send_refusal(self, stream: Stream, error: UntrustedError) -> None:
        """Send the reason to a caller that speaks no TLS; TLS itself has told the others."""
        if isinstance(stream, trio.SocketStream):
            with suppress(OSError, trio.BrokenResourceError), self._clock.timeout(_GOODBYE_SECONDS):
                if error.reason == NO_TLS:
                    await stream.send_all(self.goodbye)
                await stream.send_eof()
                taken = 0
                while taken < _GOODBYE_BYTES_MAX and (chunk := await stream.receive_some()):
                    taken += len(chunk)
