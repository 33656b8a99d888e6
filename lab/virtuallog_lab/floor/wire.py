"""Framed messages on one non-blocking TCP socket. A frame is its length in four bytes, and a message."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import trio

from virtuallog.contract.schema import load

OnFrames: TypeAlias = Callable[[list[bytes]], None]
"""Called with the frames that one read has completed. Must not block."""

RECEIVE_BYTES: Final = 1 << 20
"""Bytes read at a time: all that is in progress with small entries."""
LENGTH_BYTES: Final = 4
MESSAGE: Final[Any] = load("virtuallog_lab.floor", "floor.capnp").Message
TRAVERSAL_WORDS_MAX: Final = 1 << 40
"""Words that a reader may visit: no limit, as there is none for what is outstanding."""


class Wire:
    """One connection. `send` may be called at any time, `run` reads.

    Args:
        connection: a connected socket; `run` closes it.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connection
        self._unsent = bytearray()
        self._has_unsent = trio.Event()
        self._token = trio.lowlevel.current_trio_token()

    def send(self, *messages: bytes) -> None:
        """Send messages together. What the socket does not take at once is left to the task of `run`."""
        data = b"".join([part for message in messages for part in (_length(message), message)])
        if self._unsent:
            self._unsent += data
            return
        sent = self._send_now(data)
        if sent < len(data):
            self._unsent += memoryview(data)[sent:]
            # Not at once: the client sends when the loop has decided already how long it waits.
            self._token.run_sync_soon(self._has_unsent.set)

    async def run(self, on_frames: OnFrames) -> None:
        """Read until the other side closes the connection."""
        with self._socket:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send_rest)
                await self._receive(on_frames)
                nursery.cancel_scope.cancel()

    async def _receive(self, on_frames: OnFrames) -> None:
        inbox = bytearray()
        while True:
            try:
                chunk = self._socket.recv(RECEIVE_BYTES)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._socket)
                continue
            except ConnectionResetError:
                return
            if not chunk:
                return
            inbox += chunk
            if frames := take_frames(inbox):
                on_frames(frames)

    async def _send_rest(self) -> None:
        while True:
            await self._has_unsent.wait()
            while self._unsent:
                await trio.lowlevel.wait_writable(self._socket)
                del self._unsent[: self._send_now(self._unsent)]
            self._has_unsent = trio.Event()

    def _send_now(self, data: bytes | bytearray) -> int:
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except (BrokenPipeError, ConnectionResetError):
            return len(data)  # the reader sees the end of the connection


def parse(frame: bytes) -> Any:
    """The message in a frame, as a context manager."""
    return MESSAGE.from_bytes(frame, TRAVERSAL_WORDS_MAX)


def _length(message: bytes) -> bytes:
    return len(message).to_bytes(LENGTH_BYTES, "little")


def take_frames(inbox: bytearray) -> list[bytes]:
    """Remove and return the complete frames at the front."""
    frames, start, end = [], 0, len(inbox)
    while end - start >= LENGTH_BYTES:
        stop = start + LENGTH_BYTES + int.from_bytes(inbox[start : start + LENGTH_BYTES], "little")
        if stop > end:
            break
        frames.append(bytes(inbox[start + LENGTH_BYTES : stop]))
        start = stop
    del inbox[:start]
    return frames
