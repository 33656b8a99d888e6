"""A connection to a server of another system, with as many requests in flight as the caller likes.

A request leaves at once, in the call that posts it, as in our own RPC. Frames are made by hand, by a protocol that
knows no sockets: less work than a real client has, which is in favour of the servers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

import trio

from virtuallog.contract.address import split_address
from virtuallog.rpc.tcp_stream import TcpStream
from virtuallog_lab.experiments.fixed_rate.open_loop import Answered, Post
from virtuallog_lab.harness.program import PeerError

_RECEIVE_BYTES: Final = 1 << 18
"""Bytes of one receive: the answers to some thousand writes."""


class WriteProtocol(Protocol):
    """Client side of a protocol, for writes; knows no sockets."""

    def open(self) -> bytes:
        """First bytes of a connection."""
        ...

    def write(self, done: Answered) -> bytes:
        """Bytes of one more write, and of those that were held back; empty if this one is held back."""
        ...

    def receive(self, data: bytes) -> bytes:
        """Take received bytes, and call back for each answer in them. Returns bytes to send.

        Raises:
            PeerError: the server ends the connection, or does not keep to the protocol.
        """
        ...


class PipelinedConnection:
    """Sends writes of one protocol on one stream. Made by `connected`."""

    def __init__(self, stream: TcpStream, protocol: WriteProtocol) -> None:
        self._stream = stream
        self._protocol = protocol
        self._unsent = bytearray(protocol.open())
        """Bytes that the socket has not taken."""
        self._blocked = trio.Event()
        """Set if there are any."""
        self._blocked.set()

    def post(self, calls: Sequence[Answered]) -> None:
        """Start one write for each callback."""
        self._send(b"".join(map(self._protocol.write, calls)))

    async def receive(self) -> None:
        """Take answers until cancelled.

        Raises:
            PeerError: the connection broke.
        """
        while data := await self._stream.receive_some(_RECEIVE_BYTES):
            self._send(self._protocol.receive(data))
        raise PeerError("the server ended the connection")

    async def send(self) -> None:
        """Send what the socket did not take at once, until cancelled."""
        while True:
            await self._blocked.wait()
            await self._stream.wait_send_all_might_not_block()
            del self._unsent[: self._stream.send_now(self._unsent)]
            if not self._unsent:
                self._blocked = trio.Event()

    def _send(self, data: bytes) -> None:
        if not self._unsent and data:
            data = data[self._stream.send_now(data) :]
        if data:
            self._unsent += data
            self._blocked.set()


@asynccontextmanager
async def connected(address: str, protocol: WriteProtocol) -> AsyncIterator[Post]:
    """Connect to a server, for the length of the block; yields what posts writes.

    Raises:
        PeerError: no connection, or it broke.
    """
    try:
        async with (
            TcpStream(await trio.open_tcp_stream(*split_address(address))) as stream,
            trio.open_nursery() as nursery,
        ):
            connection = PipelinedConnection(stream, protocol)
            nursery.start_soon(connection.receive)
            nursery.start_soon(connection.send)
            yield connection.post
            nursery.cancel_scope.cancel()
    except* (OSError, trio.BrokenResourceError) as broken:
        raise PeerError(f"the connection to {address} broke") from broken
