"""Jute encoding as clients of the database write and read it.

Written from the protocol's description, and not shared with the server: a codec that both sides
share agrees with itself, right or wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from virtuallog.contract.errors import MalformedError
from virtuallog_database.tree.commands import Acl
from virtuallog_database.tree.results import Stat

_STAT: Final = struct.Struct(">qqqqiiiqiiq")


class Writer:
    """Puts fields one behind the other."""

    def __init__(self) -> None:
        self.content = bytearray()

    def int32(self, value: int) -> Writer:
        self.content += value.to_bytes(4, "big", signed=True)
        return self

    def int64(self, value: int) -> Writer:
        self.content += value.to_bytes(8, "big", signed=True)
        return self

    def flag(self, value: bool) -> Writer:
        self.content.append(value)
        return self

    def buffer(self, value: bytes | None) -> Writer:
        if value is None:
            return self.int32(-1)
        self.int32(len(value)).content += value
        return self

    def string(self, value: str) -> Writer:
        return self.buffer(value.encode())

    def strings(self, values: Sequence[str]) -> Writer:
        self.int32(len(values))
        for value in values:
            self.string(value)
        return self

    def acl(self, entries: Sequence[Acl]) -> Writer:
        self.int32(len(entries))
        for entry in entries:
            self.int32(entry.permissions).string(entry.scheme).string(entry.id)
        return self

    def frame(self) -> bytes:
        """Complete frame, with its length before it."""
        return len(self.content).to_bytes(4, "big") + self.content


class Reader:
    """Takes fields from a frame, one after the other.

    Every method raises MalformedError if the frame ends before.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def take(self, count: int) -> bytes:
        self._at += count
        if self._at > len(self._content):
            raise MalformedError(f"a frame of {len(self._content)} bytes ends within a field")
        return self._content[self._at - count : self._at]

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def flag(self) -> bool:
        return self.take(1) != b"\0"

    def buffer(self) -> bytes | None:
        length = self.int32()
        return None if length < 0 else self.take(length)

    def string(self) -> str:
        return (self.buffer() or b"").decode()

    def strings(self) -> list[str]:
        return [self.string() for _ in range(self.int32())]

    def acl(self) -> tuple[Acl, ...]:
        return tuple(Acl(self.int32(), self.string(), self.string()) for _ in range(self.int32()))

    def stat(self) -> Stat:
        return Stat(*_STAT.unpack(self.take(_STAT.size)))
