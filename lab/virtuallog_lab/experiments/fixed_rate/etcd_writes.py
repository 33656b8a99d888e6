"""Writes of etcd: unary calls of gRPC, and as much of HTTP/2 (RFC 9113) as they need.

The server may keep no table of headers, so the headers of an answer need no decoding: gRPC sends a message for a call
that succeeded, and none for one that failed. etcd limits the bytes in flight, and not the number of calls.
"""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from typing import Final

from virtuallog_lab.experiments.fixed_rate.open_loop import Answered
from virtuallog_lab.harness.program import PeerError

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADER_BYTES: Final = 9
"""Length (3 bytes), type, flags, stream (4 bytes)."""
_WINDOW: Final = 0xFFFF
"""Bytes that a connection may carry before the receiver grants more, in the beginning."""
_WINDOW_MAX: Final = 0x7FFFFFFF
_NO_HEADER_TABLE: Final = b"\x00\x01\x00\x00\x00\x00"
_END_STREAM: Final = 1
_ACK: Final = 1
_END_HEADERS: Final = 4
_POST_HTTP: Final = b"\x83\x86"
"""Headers `:method: POST` and `:scheme: http`, from the static table."""
VALUE_BYTES_MAX: Final = 16_000
"""A call must fit in one frame, of 16,384 bytes."""


class _Frame(IntEnum):
    DATA = 0
    HEADERS = 1
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8


class EtcdWrites:
    """Puts keys in turn.

    Args:
        authority: address of the server.
        keys: number of keys.
        size: bytes of a value.
    """

    def __init__(self, authority: str, keys: int, size: int) -> None:
        headers = {
            ":path": "/etcdserverpb.KV/Put",
            ":authority": authority,
            "content-type": "application/grpc",
            "te": "trailers",
        }
        self._headers = _POST_HTTP + b"".join(_header(*pair) for pair in headers.items())
        self._messages = [_message(_field(1, b"/rate/%06d" % key) + _field(2, bytes(size))) for key in range(keys)]
        self._stream = -1
        """The last one that was opened: odd numbers, in order."""
        self._window = _WINDOW
        """Bytes of messages that the server takes at present."""
        self._held: deque[Answered] = deque()
        """Calls that wait for the window."""
        self._calls: dict[int, Answered] = {}
        """Calls in flight, by stream."""
        self._answered: set[int] = set()
        """Streams of these with a message from the server."""
        self._received = bytearray()

    def open(self) -> bytes:
        wide = (_WINDOW_MAX - _WINDOW).to_bytes(4, "big")
        return _PREFACE + _frame(_Frame.SETTINGS, 0, 0, _NO_HEADER_TABLE) + _frame(_Frame.WINDOW_UPDATE, 0, 0, wide)

    def write(self, done: Answered) -> bytes:
        self._held.append(done)
        return self._release()

    def receive(self, data: bytes) -> bytes:
        received, at, answer = self._received, 0, b""
        received += data
        while len(received) >= at + _HEADER_BYTES:
            body = at + _HEADER_BYTES
            end = body + int.from_bytes(received[at : at + 3], "big")
            if len(received) < end:
                break
            stream = int.from_bytes(received[at + 5 : body], "big")
            answer += self._take(received[at + 3], received[at + 4], stream, bytes(received[body:end]))
            at = end
        del received[:at]
        return answer + self._release()

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        """Take one frame; returns its acknowledgement, if it wants one."""
        match kind:
            case _Frame.DATA | _Frame.HEADERS | _Frame.RST_STREAM:
                if kind == _Frame.DATA and payload:
                    self._answered.add(stream)
                if kind == _Frame.RST_STREAM or flags & _END_STREAM:
                    self._end(stream)
            case _Frame.SETTINGS | _Frame.PING if not flags & _ACK:
                return _frame(kind, _ACK, 0, payload if kind == _Frame.PING else b"")
            case _Frame.WINDOW_UPDATE if stream == 0:
                self._window += int.from_bytes(payload, "big")
            case _Frame.GOAWAY:
                raise PeerError(f"etcd ends the connection: {payload!r}")
        return b""

    def _end(self, stream: int) -> None:
        if call := self._calls.pop(stream, None):  # else it has ended, and the server closes it once more
            call(None if stream in self._answered else PeerError("etcd refused a call"))
        self._answered.discard(stream)

    def _release(self) -> bytes:
        """Calls that were held back, as far as the window allows."""
        frames = []
        while self._held:
            message = self._messages[(self._stream + 2) // 2 % len(self._messages)]
            if len(message) > self._window:
                break
            self._window -= len(message)
            self._stream += 2
            self._calls[self._stream] = self._held.popleft()
            frames.append(_frame(_Frame.HEADERS, _END_HEADERS, self._stream, self._headers))
            frames.append(_frame(_Frame.DATA, _END_STREAM, self._stream, message))
        return b"".join(frames)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def _header(name: str, value: str) -> bytes:
    """A header that is in no table, as plain text (RFC 7541); both are shorter than 127 bytes."""
    return b"\x00" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()


def _message(content: bytes) -> bytes:
    """A message of gRPC, not compressed."""
    return b"\x00" + len(content).to_bytes(4, "big") + content


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes of Protocol Buffers."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    return bytes((number,)) if number < 0x80 else bytes((number & 0x7F | 0x80,)) + _varint(number >> 7)
