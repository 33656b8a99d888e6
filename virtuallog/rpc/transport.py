"""Streams over TCP, with or without TLS. Besides `direct.py` the only module of the RPC that knows sockets.

Everything else is given a `Connect` and streams, so that the simulator and tests can put memory in their place.
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
"""Opens a stream to an address. Raises OSError or trio.BrokenResourceError if it cannot, InvalidSettingError if the
address is none."""

_KEEPALIVE: Final = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
"""A peer that lost its power says no goodbye: notice within half a minute, though nobody calls it. Not all systems
know all of these."""


def tcp_connect(credentials: Credentials | None = None) -> Connect:
    """A `Connect` over TCP; with credentials inside TLS, to nodes of our cluster only (see `check_recipient`).

    What it returns also raises UntrustedError, if the other side does not prove that it is one.
    """

    async def connect(address: str) -> Stream:
        host, port = split_address(address)
        try:
            stream = await trio.open_tcp_stream(host, port)
        except ValueError as error:  # the resolver has stricter rules for the names of hosts
            raise InvalidSettingError(f"address '{address}'", str(error)) from error
        _keep_alive(stream)
        return stream if credentials is None else await _secured(stream, credentials)

    return connect


async def _secured(stream: Stream, credentials: Credentials) -> TlsStream:
    try:
        secured = await tls_handshake(stream, credentials.current().client, server_side=False)
        credentials.check_peer(secured.peer)
    except BaseException:  # cancelled, too: nobody else knows of the stream
        await trio.aclose_forcefully(stream)
        raise
    return secured


def check_recipient(stream: Stream, node: NodeId) -> None:
    """Whether a stream leads to the node that is meant, as far as TLS can tell: without it anybody may be there.

    Raises:
        WrongRecipientError: the certificate is of somebody else.
    """
    if isinstance(stream, TlsStream) and stream.peer.node != node:
        raise WrongRecipientError("certificate", f"one of node {node}", f"one of {stream.peer}")


async def tcp_listen(address: str) -> Sequence[Listener[Any]]:
    """Listeners at `address`; port 0 is any free one (see `bound_address`).

    Raises:
        OSError: the address is in use or not ours.
        InvalidSettingError: it is no address.
    """
    host, port = split_address(address, port_min=0)
    return await trio.open_tcp_listeners(port, host=host)


def bound_address(listener: Listener[Any]) -> str:
    """The address that a listener of `tcp_listen` listens at."""
    assert isinstance(listener, trio.SocketListener)
    host, port = listener.socket.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def peer_address(stream: Stream) -> tuple[str, int] | None:
    """Host and port of the other side; no name and 0 if it is no socket's. None: it is gone already."""
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
