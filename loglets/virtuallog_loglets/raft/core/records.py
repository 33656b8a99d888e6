"""Record of a Raft log: what one index holds. One blob, which is written, sent and read without being parsed again.

Entries have offsets, records have an index. A record says at which offset it begins, so an offset is a function of the
log's prefix, and the same on all replicas. Only BATCHES takes offsets; the other kinds take an index and no offset.

Durable and wire format, version 1, little-endian; it never changes once released:

    magic "VR" | version u8 | kind u8 | crc32c u32 of kind and all that follows
    loglet: version u64, attempt u64 | index u64 | term u64 | first offset u64 | entries u32 | commit u64 | time in ms u64 | body

    BATCHES        body: one batch, or several (virtuallog/exactly_once/bundle.py)
    NOOP           body: empty. A leader's first record.
    CONFIGURATION  body: the members from this record on (membership.py)
    SEAL           body: empty. No record behind it holds batches.

`commit` is the leader's commit index when it made the record, so that a replayed log knows nearly all that is committed.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator, Sequence
from typing import Final

import attrs
from crc32c import crc32c

from virtuallog.contract.batch import Batch, SessionId, glance_untrusted
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog.contract.types import POSITION_MAX, PlacedBatch
from virtuallog.exactly_once import bundle

RECORD_BYTES_MAX: Final = 9 << 20
"""Largest record: a batch of the largest size and its framing."""

_PREFIX: Final = struct.Struct("<2sBBI")
_HEADER: Final = struct.Struct("<QQQQQIQQ")
_START: Final = _PREFIX.size
_BODY: Final = _PREFIX.size + _HEADER.size
_MAGIC: Final = b"VR"
_VERSION: Final = 1


class RecordKind(enum.IntEnum):
    """Kind of a record, as encoded."""

    BATCHES = 1
    NOOP = 2
    CONFIGURATION = 3
    SEAL = 4


_KINDS: Final = {kind.value: kind for kind in RecordKind}
_SEEDS: Final = {kind: crc32c(bytes((kind,))) for kind in _KINDS}


# not frozen: made for every store, and frozen classes take twice as long to make
@attrs.define(eq=False, kw_only=True)
class RaftRecord:
    """A record with its header decoded. Records of one loglet with the same index and term are the same."""

    blob: bytes = attrs.field(repr=False)
    kind: RecordKind
    segment: SegmentId
    index: int
    term: int
    first: int
    """Offset of its first entry, or of the next record's first one if it has none."""
    count: int
    """Entries."""
    commit: int
    """Commit index of its leader when it was made; below `index`."""
    time_ms: int

    @property
    def stop(self) -> int:
        """One past the offset of its last entry."""
        return self.first + self.count

    @property
    def body(self) -> bytes:
        return self.blob[_BODY:]

    def placed(self) -> Iterator[PlacedBatch]:
        """Batches at their offsets.

        Raises:
            MalformedError, CorruptionError: the body contradicts the header.
        """
        if self.kind is not RecordKind.BATCHES:
            return
        place = self.first
        for part in bundle.split_untrusted(self.blob, _BODY):
            batch = Batch.parse_untrusted(self.blob[part.start : part.stop])
            if batch.count != part.count:
                raise MalformedError(f"a batch of {batch.count} entries where a record says {part.count}")
            yield PlacedBatch(range(place, place + batch.count), batch, self.time_ms)
            place += batch.count
        if place != self.stop:
            raise MalformedError("the batches of a record do not add up to its entries")

    def glance_lone(self) -> tuple[SessionId, int, int] | None:
        """(session, first sequence number, count) of the batch, unparsed; None if there is none, or are several."""
        return glance_untrusted(self.blob, _BODY) if self.kind is RecordKind.BATCHES else None

    def parts(self) -> list[tuple[int, bundle.BundledBatch]]:
        """(offset, place in `blob`) of each batch, unparsed; none if the record holds no batches."""
        if self.kind is not RecordKind.BATCHES:
            return []
        return [(self.first + part.index, part) for part in bundle.split_untrusted(self.blob, _BODY)]


@attrs.define(kw_only=True)
class RecordPlace:
    """Place and origin of a new record."""

    segment: SegmentId
    index: int
    term: int
    first: int
    commit: int
    time_ms: int


def build_batches(place: RecordPlace, batches: Sequence[Batch]) -> RaftRecord:
    """Build the record of these batches, in this order."""
    return _build(place, RecordKind.BATCHES, bundle.join(batches), sum(batch.count for batch in batches))


def build(place: RecordPlace, kind: RecordKind, body: bytes = b"") -> RaftRecord:
    """Build a record without entries."""
    assert kind is not RecordKind.BATCHES
    return _build(place, kind, body, 0)


def _build(place: RecordPlace, kind: RecordKind, body: bytes, count: int) -> RaftRecord:
    segment = place.segment
    header = _HEADER.pack(
        segment.version, segment.attempt, place.index, place.term, place.first, count, place.commit, place.time_ms
    )
    checksum = crc32c(body, crc32c(header, _SEEDS[kind]))
    blob = b"".join((_PREFIX.pack(_MAGIC, _VERSION, kind, checksum), header, body))
    return RaftRecord(
        blob=blob, kind=kind, segment=segment, index=place.index, term=place.term, first=place.first, count=count,
        commit=place.commit, time_ms=place.time_ms,
    )  # fmt: skip


def parse_untrusted(blob: bytes) -> RaftRecord:
    """Check a record from the network or a disk and decode its header. `placed` cuts out and checks the batches.

    Raises:
        MalformedError: not a record, or one of a later version.
        CorruptionError: a record whose bytes do not match its checksum.
    """
    size = len(blob)
    if not _BODY <= size <= RECORD_BYTES_MAX:
        raise MalformedError(f"a Raft record of {size} bytes")
    magic, version, number, checksum = _PREFIX.unpack_from(blob)
    kind = _KINDS.get(number)
    if magic != _MAGIC or version != _VERSION or kind is None:
        raise MalformedError(f"not a Raft record of version {_VERSION}: starts with {bytes(blob[:4]).hex()}")
    if crc32c(memoryview(blob)[_START:], _SEEDS[kind]) != checksum:
        raise CorruptionError("a Raft record does not match its checksum")
    segment_version, attempt, index, term, first, count, commit, time_ms = _HEADER.unpack_from(blob, _START)
    if not 0 < index <= POSITION_MAX or not 0 < term <= POSITION_MAX or commit >= index:
        raise MalformedError(f"a Raft record of index {index}, term {term}, commit index {commit}")
    if first + count > POSITION_MAX or (count > 0) != (kind is RecordKind.BATCHES):
        raise MalformedError(f"a Raft record of kind {kind.name} with {count} entries at offset {first}")
    if kind in (RecordKind.NOOP, RecordKind.SEAL) and size != _BODY:
        raise MalformedError(f"a Raft record of kind {kind.name} with a body of {size - _BODY} bytes")
    return RaftRecord(
        blob=blob, kind=kind, segment=SegmentId(segment_version, attempt), index=index, term=term, first=first,
        count=count, commit=commit, time_ms=time_ms,
    )  # fmt: skip
