"""Jute, ZooKeeper's record format: fields one after another, big-endian, no tags, no padding.

    bool 1 byte | int 4 | long 8 | buffer: int length, bytes; -1: null | ustring: the same, UTF-8 | vector: int count, items

Bytes from clients are read with a `Reader`, which raises MalformedError and nothing else. Records of known shape are packed with
`struct` in one call, as a call costs more than the bytes do.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import attrs

from virtuallog.contract.errors import MalformedError

ItemT = TypeVar("ItemT")

INT: Final = struct.Struct(">i")
LONG: Final = struct.Struct(">q")
_NULL: Final = INT.pack(-1)
TRUE: Final = b"\1"
FALSE: Final = b"\0"


@attrs.define
class Reader:
    """Takes fields off untrusted bytes, from the front."""

    content: bytes
    at: int = 0

    def integer(self) -> int:
        at = self.at
        self.at = at + 4
        try:
            return INT.unpack_from(self.content, at)[0]  # type: ignore[no-any-return]
        except struct.error:
            raise MalformedError("a record ends within a number") from None

    def long(self) -> int:
        at = self.at
        self.at = at + 8
        try:
            return LONG.unpack_from(self.content, at)[0]  # type: ignore[no-any-return]
        except struct.error:
            raise MalformedError("a record ends within a number") from None

    def boolean(self) -> bool:
        at = self.at
        self.at = at + 1
        try:
            return self.content[at] != 0
        except IndexError:
            raise MalformedError("a record ends before a bool") from None

    def buffer(self) -> bytes | None:
        length = self.integer()
        if length < 0:
            if length == -1:
                return None
            raise MalformedError(f"a buffer of {length} bytes")
        at = self.at
        self.at = end = at + length
        if end > len(self.content):
            raise MalformedError("a record ends within a buffer")
        return self.content[at:end]

    def string(self) -> str:
        """Read a string. Null is malformed: no single string may be null."""
        found = self.buffer()
        if found is None:
            raise MalformedError("a string is null")
        try:
            return found.decode()
        except UnicodeDecodeError:
            raise MalformedError("a string is no UTF-8") from None

    def optional_string(self) -> str | None:
        at = self.at
        if self.integer() == -1:
            return None
        self.at = at
        return self.string()

    def vector(self, read: Callable[[], ItemT]) -> list[ItemT]:
        """Read a vector. Null counts as empty. Nothing is reserved for the announced count: each item takes bytes."""
        count = self.integer()
        if count < -1 or count > len(self.content) - self.at:
            raise MalformedError(f"a vector of {count} items")
        return [read() for _ in range(count)]

    @property
    def is_at_end(self) -> bool:
        return self.at >= len(self.content)


def buffer(content: bytes | None) -> bytes:
    return _NULL if content is None else INT.pack(len(content)) + content


def string(text: str) -> bytes:
    encoded = text.encode()
    return INT.pack(len(encoded)) + encoded


def strings(texts: Iterable[str]) -> bytes:
    """Write a vector of strings."""
    parts = [b""]
    for text in texts:
        encoded = text.encode()
        parts += (INT.pack(len(encoded)), encoded)
    parts[0] = INT.pack(len(parts) // 2)
    return b"".join(parts)
