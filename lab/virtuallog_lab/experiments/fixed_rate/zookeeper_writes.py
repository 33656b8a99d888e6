"""Writes of znodes in ZooKeeper's protocol, whose answers come in the order of the requests."""

from __future__ import annotations

import struct
from collections import deque
from typing import Final

from virtuallog_lab.experiments.churn.client import TIMEOUT_MS, path_of
from virtuallog_lab.experiments.fixed_rate.open_loop import Answered
from virtuallog_lab.harness.program import PeerError
from virtuallog_simulation.workload.database import wire

_REQUEST: Final = struct.Struct(">iii")
"""Length, number, type."""
_REPLY: Final = struct.Struct(">iiqi")
"""Length, number of the request, zxid, error."""
_SET_DATA: Final = 5
_ANY_VERSION: Final = struct.pack(">i", -1)


class ZooKeeperWrites:
    """Sets znodes of `path_of` in turn, without a condition.

    Args:
        keys: number of znodes, which exist.
        size: bytes of a value.
    """

    def __init__(self, keys: int, size: int) -> None:
        self._bodies = [_buffer(path_of(key).encode()) + _buffer(bytes(size)) + _ANY_VERSION for key in range(keys)]
        self._xid = 0
        self._calls: deque[Answered] = deque([self._take_session])
        self._received = bytearray()

    def open(self) -> bytes:
        return wire.encode_connect(0, bytes(16), 0, TIMEOUT_MS)

    def write(self, done: Answered) -> bytes:
        self._calls.append(done)
        self._xid += 1
        body = self._bodies[self._xid % len(self._bodies)]
        return _REQUEST.pack(len(body) + 8, self._xid, _SET_DATA) + body

    def receive(self, data: bytes) -> bytes:
        received, at = self._received, 0
        received += data
        while len(received) >= at + _REPLY.size:
            length, _, zxid, error = _REPLY.unpack_from(received, at)
            if len(received) < at + 4 + length:
                break
            at += 4 + length
            self._calls.popleft()(PeerError(f"error {error}, zxid {zxid}") if error else None)
        del received[:at]
        return b""

    def _take_session(self, _: object) -> None:
        """Take the answer to the opening, which has another form; a server that refuses a session ends the connection."""


def _buffer(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content
