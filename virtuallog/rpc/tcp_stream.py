"""A TCP socket with less in between than `trio.SocketStream` has: for the many small messages of an RPC connection.

* A send that the socket takes at once does not give way to other tasks. Trio adds a turn of the scheduler to each.
* A receive waits first and reads then. Trio tries to read first, which fails for whoever has just read everything there
  was; and what came meanwhile is better read together.

Together they save 9 of 19 us of CPU per message of 300 bytes, sent and received; an append takes six messages. Whoever
uses this must give way by himself: the two loops of a `Channel` do, as one waits for something to send, and the other
here for something to read.
"""

from __future__ import annotations

import os
from typing import Final

import trio
from trio.abc import Stream

_RECEIVE_BYTES: Final = 64 << 10


def as_tcp_stream(stream: Stream) -> Stream:
    """`stream` by the direct way, if it is a plain TCP connection; any other as it is."""
    return TcpStream(stream) if isinstance(stream, trio.SocketStream) else stream


class TcpStream(Stream):
    """See above. For one sender and one receiver."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._socket = stream.socket

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """A checkpoint only if the socket does not take everything at once. Cancelled, it may have sent a part."""
        sent = self.send_now(data)
        while sent < len(data):
            await trio.lowlevel.wait_writable(self._fileno())
            sent += self.send_now(memoryview(data)[sent:])

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.wait_writable(self._fileno())

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while True:
            await trio.lowlevel.wait_readable(self._fileno())  # cancelled here, nothing has been read
            try:
                return os.read(self._fileno(), max_bytes or _RECEIVE_BYTES)
            except BlockingIOError:  # woken for nothing
                continue
            except OSError as error:
                raise trio.BrokenResourceError(f"socket connection broken: {error}") from error

    async def aclose(self) -> None:
        await self._stream.aclose()

    def send_now(self, data: bytes | bytearray | memoryview) -> int:
        """Send what the socket takes without waiting; how many bytes that is. May be called outside of tasks, but not
        while somebody is in `send_all`.

        Raises:
            trio.BrokenResourceError: the connection is gone.
            trio.ClosedResourceError: this stream was closed.
        """
        try:
            return os.write(self._fileno(), data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise trio.BrokenResourceError(f"socket connection broken: {error}") from error

    def _fileno(self) -> int:
        """Asked for each time: once the socket is closed, the system may give its number to another file."""
        number = self._socket.fileno()
        if number < 0:
            raise trio.ClosedResourceError("this stream was closed")
        return number
