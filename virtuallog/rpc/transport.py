"""Streams over TCP, with or without TLS. The only module of the RPC that knows sockets.

Everything else is given a `Connect` and streams, so that the simulator and tests can put memory in their place.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

import trio
from trio.abc import Listener, Stream

from virtuallog.errors import InvalidSettingError

Connect: TypeAlias = Callable[[str], Awaitable[Stream]]
"""Opens a stream to an address. Raises OSError or trio.BrokenResourceError if it cannot, InvalidSettingError if the
address is none."""

_KEEPALIVE: Final = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
"""A peer that lost its power says no goodbye: notice within half a minute, though nobody calls it. Not all systems
know all of these."""


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[v6]:port`.

    Raises:
        InvalidSettingError: it is neither.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InvalidSettingError(f"address '{address}'", "is not host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def tcp_connect(ssl_context: ssl.SSLContext | None = None) -> Connect:
    """A `Connect` over TCP; with a context over TLS, which checks the host's name against its certificate."""

    async def connect(address: str) -> Stream:
        host, port = split_address(address)
        stream = await trio.open_tcp_stream(host, port)
        _keep_alive(stream)
        if ssl_context is None:
            return stream
        return trio.SSLStream(stream, ssl_context, server_hostname=host)

    return connect


async def tcp_listen(address: str, ssl_context: ssl.SSLContext | None = None) -> Sequence[Listener[Any]]:
    """Listeners at `address`; port 0 is any free one (see `bound_address`).

    Raises:
        OSError: the address is in use or not ours.
        InvalidSettingError: it is no address.
    """
    host, port = split_address(address)
    listeners = await trio.open_tcp_listeners(port, host=host)
    if ssl_context is None:
        return listeners
    return [trio.SSLListener(listener, ssl_context) for listener in listeners]


def bound_address(listener: Listener[Any]) -> str:
    """The address that a listener of `tcp_listen` listens at."""
    sockets = listener.transport_listener if isinstance(listener, trio.SSLListener) else listener
    assert isinstance(sockets, trio.SocketListener)
    host, port = sockets.socket.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def accepted(stream: Stream) -> None:
    """Set the options of a stream that a listener gave. (Trio itself sets TCP_NODELAY.)"""
    inner = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
    if isinstance(inner, trio.SocketStream):
        _keep_alive(inner)


def _keep_alive(stream: trio.SocketStream) -> None:
    with suppress(OSError):  # it is gone already, as its first use will show
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
