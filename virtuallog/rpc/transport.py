"""Streams over TCP, with or without TLS. Besides `tcp_stream` the only RPC module that uses sockets.

All others are given a `Connect` and streams, so that the simulator and tests can use memory
instead.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

import trio
from trio.abc import Listener, Stream

from virtuallog.contract.address import split_address
from virtuallog.contract.errors import InvalidSettingError, WrongRecipientError
from virtuallog.contract.types import NodeId
from virtuallog.rpc.security.credentials import Credentials
from virtuallog.rpc.security.tls_stream import TlsStream, tls_handshake

Connect: TypeAlias = Callable[[str], Awaitable[Stream]]
"""Opens a stream to an address.

Raises OSError or trio.BrokenResourceError if it cannot, InvalidSettingError for a malformed
address.
"""

_KEEPALIVE: Final = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
"""Keepalive options: detect within half a minute a peer that lost power, even without calls.

Not all systems have all of these.
"""


def tcp_connect(credentials: Credentials | None = None) -> Connect:
    """Make a `Connect` over TCP; with credentials inside TLS, and only to nodes of our cluster
    (`check_recipient`).

    The result also raises UntrustedError if the other side does not prove that it is one.
    """

    async def connect(address: str) -> Stream:
        host, port = split_address(address)
        try:
            stream = await trio.open_tcp_stream(host, port)
        except ValueError as error:  # the resolver has stricter rules for host names
            raise InvalidSettingError(f"address '{address}'", str(error)) from error
        _keep_alive(stream)
        return stream if credentials is None else await _secured(stream, credentials)

    return connect


async def _secured(stream: Stream, credentials: Credentials) -> TlsStream:
    try:
        secured = await tls_handshake(stream, credentials.current().client, server_side=False)
        credentials.check_peer(secured.peer)
    except BaseException:  # also when cancelled: this is the only reference to the stream
        await trio.aclose_forcefully(stream)
        raise
    return secured


def check_recipient(stream: Stream, node: NodeId) -> None:
    """Check that a stream leads to the intended node. Without TLS any process may be there.

    Raises:
        WrongRecipientError: the certificate names another owner.
    """
    if isinstance(stream, TlsStream) and stream.peer.node != node:
        raise WrongRecipientError("certificate", f"one of node {node}", f"one of {stream.peer}")


async def tcp_listen(address: str) -> Sequence[Listener[Any]]:
    """Open listeners at `address`; port 0 is any free one (see `bound_address`).

    Raises:
        OSError: the address is in use or not ours.
        InvalidSettingError: malformed address.
    """
    host, port = split_address(address, port_min=0)
    return await trio.open_tcp_listeners(port, host=host)


def bound_address(listener: Listener[Any]) -> str:
    """Return the address of a listener made by `tcp_listen`."""
    assert isinstance(listener, trio.SocketListener)
    host, port = listener.socket.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def peer_address(stream: Stream) -> tuple[str, int] | None:
    """Return host and port of the other side; ("", 0) if it is no socket's. None if it is gone
    already."""
    if not isinstance(stream, trio.SocketStream):
        return "", 0
    try:
        host, port = stream.socket.getpeername()[:2]
    except OSError:
        return None
    return str(host), int(port)


def accepted(stream: Stream) -> None:
    """Set the options of a stream that a listener gave. (Trio itself sets TCP_NODELAY.)"""
    if isinstance(stream, trio.SocketStream):
        _keep_alive(stream)


def _keep_alive(stream: trio.SocketStream) -> None:
    with suppress(OSError):  # it is gone already, as its first use will show
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
