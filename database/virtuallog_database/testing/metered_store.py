"""A store in memory that counts what it is asked for: the work of a command, without a clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from virtuallog.contract.ports import Span
from virtuallog_database.testing.memory_store import MemoryStore

PLAIN_BYTES = 4 << 10
"""A record of a znode with more bytes is one of the former version, in which data stand in it."""


@attrs.define(eq=False)
class MeteredStore(MemoryStore):
    """Counts in bytes, but `looks` and `visited`."""

    looks: int = 0
    """Calls of `get`."""
    read: int = 0
    """By `get`: of values."""
    scanned: int = 0
    """By `scan`: of keys and values."""
    visited: int = 0
    """Pairs of scans."""
    written: int = 0
    """Of keys and values."""
    former: int = 0
    """Of `read`, in records of znodes that are of the former version."""
    former_keys: set[bytes] = attrs.field(factory=set)
    """Of these."""

    def get(self, key: bytes) -> bytes | None:
        found = super().get(key)
        self.looks += 1
        if found is not None:
            self.read += len(found)
            if key[:1] == b"n" and len(found) > PLAIN_BYTES:
                self.former += len(found)
                self.former_keys.add(key)
        return found

    def scan(self, span: Span, count: int) -> list[tuple[bytes, bytes]]:
        found = super().scan(span, count)
        self.visited += len(found)
        self.scanned += sum(len(key) + len(value) for key, value in found)
        return found

    def write(self, changes: Mapping[bytes, bytes | None], dropped: Sequence[Span] = ()) -> None:
        super().write(changes, dropped)
        self.written += sum(len(key) + len(value or b"") for key, value in changes.items())
