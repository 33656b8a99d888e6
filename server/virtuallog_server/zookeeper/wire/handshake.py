"""Handshake of a connection: the client asks for a session, the server answers with the one it gets.

    ConnectRequest   int version | long last zxid seen | int timeout in ms | long session, 0: a new one | buffer password |
                     bool read-only is fine
    ConnectResponse  int version | int timeout in ms | long session | buffer password | bool read-only

No header, both ways. Very old clients leave the last bool out, and must not be sent one. A session is refused by zeros: the only
way in which a client learns that its session has expired.
"""

from __future__ import annotations

import struct
from typing import Final

import attrs

from virtuallog_database.tree.commands import PASSWORD_BYTES
from virtuallog_server.zookeeper.wire.jute import Reader

_RESPONSE: Final = struct.Struct(f">iiiqi{PASSWORD_BYTES}s")


@attrs.frozen(kw_only=True)
class ConnectRequest:
    """The first frame of a client."""

    last_zxid: int
    """The newest zxid that it has seen: a server that is behind must not serve it."""
    timeout_ms: int
    session: int
    """Session to resume. 0 for a new one."""
    password: bytes
    read_only: bool
    """True if it accepts a server that can only be read."""
    tells_read_only: bool
    """True if its version of the protocol has that field."""


def parse_untrusted(frame: bytes) -> ConnectRequest:
    """Parse the first frame of a connection.

    Raises:
        MalformedError: it is no connect request.
    """
    reader = Reader(frame)
    reader.integer()  # the version of the protocol: there has only been one
    last_zxid, timeout_ms, session = reader.long(), reader.integer(), reader.long()
    password = reader.buffer() or b""
    tells = not reader.is_at_end
    return ConnectRequest(
        last_zxid=last_zxid,
        timeout_ms=timeout_ms,
        session=session,
        password=password,
        read_only=tells and reader.boolean(),
        tells_read_only=tells,
    )


def accepted(request: ConnectRequest, session: int, password: bytes, timeout_ms: int, *, read_only: bool) -> bytes:
    """The frame that gives a client its session."""
    packed = password.ljust(PASSWORD_BYTES, b"\0")[:PASSWORD_BYTES]
    tail = bytes((read_only,)) if request.tells_read_only else b""
    size = _RESPONSE.size - 4 + len(tail)
    return _RESPONSE.pack(size, 0, timeout_ms, session, PASSWORD_BYTES, packed) + tail


def refused(request: ConnectRequest) -> bytes:
    """The frame that refuses a session."""
    return accepted(request, 0, b"", 0, read_only=False)
