"""Content digest: one checksum of a part of the log, independent of batches, reads and files.

Two copies of a segment may be cut differently: an archive into other pieces than a loglet, two
replicas into other reads. So the digest covers *runs*, not batches. A run has entries of one
session with consecutive positions and sequence numbers, the same time and the same headers. Hashed
are the start and common fields of each run, the length of each payload, the payloads, and gaps.
Adjacent gaps of the same kind are joined.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import attrs

from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, GapKind, PlacedBatch


def _sha256() -> Any:
    return hashlib.sha256()


@attrs.define(eq=False)
class ContentDigest:
    """Digest that is fed with adjacent items in order."""

    entries: int = 0
    _runs: Any = attrs.field(factory=_sha256)
    _lengths: Any = attrs.field(factory=_sha256)
    _payloads: Any = attrs.field(factory=_sha256)
    _next: tuple[object, ...] = ()
    """First fields of an item that would continue the last run."""
    _gap: Gap | None = None
    """The last gap, if nothing came after it; else None."""

    def feed(self, items: Iterable[Placed]) -> None:
        for item in items:
            if isinstance(item, Gap):
                self._feed_gap(item)
            else:
                self._feed_batch(item)

    def checksum(self) -> str:
        """Checksum of all items so far. It may be fed afterwards only if the next item does not
        prolong a gap."""
        self._end_gap()
        parts = (self._runs, self._lengths, self._payloads)
        return f"sha256:{hashlib.sha256(b''.join(part.digest() for part in parts)).hexdigest()}"

    def _feed_gap(self, gap: Gap) -> None:
        if self._gap is not None and (self._gap.kind, self._gap.stop) == (gap.kind, gap.start):
            gap = Gap(self._gap.start, gap.stop, gap.kind)
        else:
            self._end_gap()
        self._gap, self._next = gap, ()

    def _end_gap(self) -> None:
        if self._gap is not None:
            gap, self._gap = self._gap, None
            self._runs.update(f"gap {gap.start} {gap.stop} {gap.kind.value}\n".encode())

    def _feed_batch(self, item: PlacedBatch) -> None:
        self._end_gap()
        batch, count, places = item.batch, len(item.places), item.places
        if places.step != 1 and count > 1:
            raise ValueError(f"the entries of a batch at {item.start} are not side by side")
        common = (batch.session, item.time_ms, batch.packed_headers)
        sequence = batch.first_sequence + item.first
        if self._next != (item.start, sequence, *common):
            names = f"{item.start} {sequence} {item.time_ms} {batch.session.hex()} {batch.packed_headers.hex()}\n"
            self._runs.update(names.encode())
        self._next = (item.start + count, sequence + count, *common)
        lengths, low, high = _cut(batch.packed_ends, item.first, count)
        self._lengths.update(lengths)
        self._payloads.update(batch.packed_payloads[low:high])
        self.entries += count


def digest_of(items: Iterable[Placed]) -> str:
    """Checksum of adjacent items."""
    digest = ContentDigest()
    digest.feed(items)
    return digest.checksum()


def _cut(packed_ends: memoryview, first: int, count: int) -> tuple[bytes, int, int]:
    """Lengths (u32 each) of `count` payloads from number `first`, the start of the first and the
    end of the last."""
    import numpy as np  # a tenth of a second at the start of each node, and most nodes never hash an entry

    ends = np.frombuffer(packed_ends, dtype="<u4")
    low = int(ends[first - 1]) if first else 0
    ends = ends[first : first + count]
    return np.diff(ends, prepend=np.uint32(low)).astype("<u4").tobytes(), low, int(ends[-1])


def clipped(items: Iterable[Placed], start: int, stop: int) -> list[Placed]:
    """The part of adjacent items that lies in [start, stop)."""
    parts = (item.clip(start, stop) for item in items)
    return [part for part in parts if part is not None]


def trimmed_up_to(items: Iterable[Placed], start: int) -> int:
    """End of the last gap of trimmed positions among the items; `start` if there is none."""
    return max((item.stop for item in items if isinstance(item, Gap) and item.kind is GapKind.TRIMMED), default=start)
