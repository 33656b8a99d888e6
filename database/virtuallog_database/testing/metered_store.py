"""A store in memory that counts its accesses: the work of a command, without a clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from virtuallog.contract.ports import Span
from virtuallog_database.testing.memory_store import MemoryStore

PLAIN_BYTES = 4 << 10
"""Bytes of a znode's record above which it is one of the former version, with the data in it."""


@attrs.define(eq=False)
class MeteredStore(MemoryStore):
    """Counters in bytes, except for `looks` and `visited`."""

    looks: int = 0
    """Calls of `get`."""
    read: int = 0
    """Bytes of values read by `get`."""
    scanned: int = 0
    """Bytes of keys and values read by `scan`."""
    visited: int = 0
    """Pairs read by scans."""
    written: int = 0
    """Bytes of keys and values written."""
    former: int = 0
    """Share of `read` in znode records of the former version."""
    former_keys: set[bytes] = attrs.field(factory=set)
    """Keys of these records."""

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
