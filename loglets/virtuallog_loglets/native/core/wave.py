"""Wave: consecutive batches that the sequencer ordered together, as one blob.

The sequencer builds it once. It is then sent, stored, repaired and read without being parsed. It is
the unit of commit, repair and storage. Wave boundaries are the same on all servers, so two waves of
one loglet either are the same or do not overlap. A wave names its loglet, so that it cannot be
stored or repaired into another one.

Durable format, version 1, little-endian (also the wire format; it never changes once released):

    magic "VW" | version u8 | flags u8 (0) | crc32c u32 of all that follows
    segment: version u64, attempt u64 | first offset u64 | known tail u64 | time in ms u64 | entries u32 | batches u32
    (entries u32, bytes u32) x batches
    batches, back to back

`known tail` is what was committed when the wave was built, so a replayed log knows its tail nearly
exactly.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

import attrs
from crc32c import crc32c

from virtuallog.contract.batch import Batch
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog.contract.types import POSITION_MAX, PlacedBatch

_PREFIX: Final = struct.Struct("<2sBBI")
_HEADER: Final = struct.Struct("<QQQQQII")
_START: Final = _PREFIX.size
_TABLE: Final = _PREFIX.size + _HEADER.size
_MAGIC: Final = b"VW"
_VERSION: Final = 1


# not frozen: made for every store, and frozen classes take twice as long to make
@attrs.define(eq=False, kw_only=True)
class Wave:
    """A wave with its header decoded. Two waves are the same if their checksums are equal."""

    blob: bytes = attrs.field(repr=False)
    checksum: int
    segment: SegmentId
    first: int
    """Offset of the first entry."""
    stop: int
    """One past the offset of the last entry."""
    known_tail: int
    time_ms: int
    batches: int

    @property
    def entries(self) -> int:
        return self.stop - self.first

    def placed(self) -> Iterator[PlacedBatch]:
        """Batches at their offsets.

        Raises:
            MalformedError, CorruptionError: the content contradicts the header.
        """
        table = struct.unpack_from(f"<{2 * self.batches}I", self.blob, _TABLE)
        at, place = _TABLE + 8 * self.batches, self.first
        for entries, size in zip(table[::2], table[1::2], strict=True):
            batch = Batch.parse_untrusted(self.blob[at : at + size])
            if batch.count != entries:
                raise MalformedError(f"a batch of {batch.count} entries where a wave says {entries}")
            yield PlacedBatch(range(place, place + entries), batch, self.time_ms)
            at, place = at + size, place + entries
        if at != len(self.blob) or place != self.stop:
            raise MalformedError("the batches of a wave do not add up to its size")


def build(*, segment: SegmentId, first: int, known_tail: int, time_ms: int, batches: Sequence[Batch]) -> Wave:
    """Build the wave that places `batches` from offset `first` on."""
    entries = 0
    table: list[int] = []
    blobs: list[bytes] = []
    for batch in batches:
        entries += batch.count
        table += (batch.count, len(batch.blob))
        blobs.append(batch.blob)
    count = len(blobs)
    header = _HEADER.pack(segment.version, segment.attempt, first, known_tail, time_ms, entries, count)
    parts = [header + struct.pack(f"<{2 * count}I", *table), *blobs]
    checksum = 0
    for part in parts:
        checksum = crc32c(part, checksum)
    blob = b"".join((_PREFIX.pack(_MAGIC, _VERSION, 0, checksum), *parts))
    return Wave(
        blob=blob, checksum=checksum, segment=segment, first=first, stop=first + entries, known_tail=known_tail,
        time_ms=time_ms, batches=count,
    )  # fmt: skip


def parse_untrusted(blob: bytes) -> Wave:
    """Check a wave from the network or a disk and decode its header. `placed` cuts out and checks
    the batches.

    Raises:
        MalformedError: not a wave, or one of a later version.
        CorruptionError: a wave whose bytes do not match its checksum.
    """
    size = len(blob)
    if size < _TABLE:
        raise MalformedError(f"a wave of {size} bytes")
    magic, version, flags, checksum = _PREFIX.unpack_from(blob)
    if magic != _MAGIC or version != _VERSION or flags:
        raise MalformedError(f"not a wave of version {_VERSION}: starts with {bytes(blob[:4]).hex()}")
    if crc32c(memoryview(blob)[_START:]) != checksum:
        raise CorruptionError("a wave does not match its checksum")
    segment_version, attempt, first, known_tail, time_ms, entries, batches = _HEADER.unpack_from(blob, _START)
    if not 0 < batches <= entries or _TABLE + 8 * batches > size or known_tail > first:
        raise MalformedError(f"a wave of {size} bytes claims {batches} batches with {entries} entries")
    if first + entries > POSITION_MAX:
        raise MalformedError(f"a wave of {entries} entries at offset {first}")
    return Wave(
        blob=blob, checksum=checksum, segment=SegmentId(segment_version, attempt), first=first, stop=first + entries,
        known_tail=known_tail, time_ms=time_ms, batches=batches,
    )  # fmt: skip
