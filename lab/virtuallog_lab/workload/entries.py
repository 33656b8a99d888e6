"""Entries of a checked workload: each names its writer and its number."""

from __future__ import annotations

import attrs

FILLER = b"."


@attrs.frozen
class Entry:
    """Writer and number of an entry; as bytes, its payload."""

    writer: int
    number: int

    def encode(self, size: int = 0) -> bytes:
        """The payload, filled up to `size` bytes."""
        return (b"%d/%d" % (self.writer, self.number)).ljust(size, FILLER)

    @classmethod
    def parse(cls, payload: bytes) -> Entry | None:
        """Decode a payload; None if it is no entry of the workload."""
        writer, slash, number = payload.rstrip(FILLER).partition(b"/")
        if not slash or not writer.isdigit() or not number.isdigit():
            return None
        return cls(int(writer), int(number))
