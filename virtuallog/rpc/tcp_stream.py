"""A TCP stream with less overhead than `trio.SocketStream`, for the many small messages of an RPC
connection.

* A send that the socket takes at once does not yield to other tasks. Trio adds a turn of the
  scheduler to each.
* A receive waits first and reads then. Trio tries to read first, which fails for a caller that has
  just read everything there was; and bytes that come meanwhile are better read together.

Together they save 9 of 19 us of CPU per message of 300 bytes, sent and received; an append takes
six messages. Callers must yield by themselves: the two loops of a `Channel` do, as one waits for
something to send, and the other here for something to read.
"""

from __future__ import annotations

import os
from typing import Final

import trio
from trio.abc import Stream

_RECEIVE_BYTES: Final = 64 << 10


def as_tcp_stream(stream: Stream) -> Stream:
    """Return a plain TCP connection as a `TcpStream`, any other stream as it is."""
    return TcpStream(stream) if isinstance(stream, trio.SocketStream) else stream


class TcpStream(Stream):
    """A TCP stream for one sender and one receiver."""

    def __init__(self, stream: trio.SocketStream) -> None:
        """Take over `stream`: from now on only this object may close it."""
        self._stream = stream
        self._number = stream.socket.fileno()
        """Descriptor; -1 once this stream is closed, as the system may give its number to another file."""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send everything. A checkpoint only if the socket does not take it all at once.

        A cancelled send may have sent a part.
        """
        sent = self.send_now(data)
        while sent < len(data):
            await self.wait_send_all_might_not_block()
            sent += self.send_now(memoryview(data)[sent:])

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.wait_writable(self._require_open())

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while True:
            await trio.lowlevel.wait_readable(self._require_open())  # cancelled here, nothing has been read
            try:
                return os.read(self._number, max_bytes or _RECEIVE_BYTES)
            except BlockingIOError:  # spurious wake-up
                continue
            except OSError as error:
                raise trio.BrokenResourceError(f"socket connection broken: {error}") from error

    async def aclose(self) -> None:
        self._number = -1
        await self._stream.aclose()

    def send_now(self, data: bytes | bytearray | memoryview) -> int:
        """Send what the socket takes without waiting; return the number of bytes.

        May be called outside of tasks, but not while a task is in `send_all`.

        Raises:
            trio.BrokenResourceError: the connection is gone.
            trio.ClosedResourceError: this stream was closed.
        """
        try:
            return os.write(self._require_open(), data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise trio.BrokenResourceError(f"socket connection broken: {error}") from error

    def _require_open(self) -> int:
        if self._number < 0:
            raise trio.ClosedResourceError("this stream was closed")
        return self._number
