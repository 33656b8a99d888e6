"""What the znodes of a loglet hold, beside batches: durable formats, version 1, little-endian.                          Pure.

the seal           "virtuallog 1 open", "... sealed", "... released": for people, and for whoever asks if it was dropped
a writer           magic "ZW" | version u8 | placed u8 | next sequence u64 | floor u32 | for each: first sequence u64, slot u32
a manifest         magic "ZM" | version u8 | 0 u8 | chunks u32 | bytes u32 | crc32c u32 of all of them | first sequence u64 |
session 16 bytes; what it stands for is a bundle like any other (`virtuallog.ordering.bundle`)
the trim point     JSON: {"deleted": 12, "trim": 851968}
"""

from __future__ import annotations

import json
import struct
from typing import Final

import attrs
from crc32c import crc32c

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import CorruptionError, ReconfigurationNeededError
from virtuallog.ordering.slots import INDEX_BITS

OPEN: Final = b"virtuallog 1 open"
SEALED: Final = b"virtuallog 1 sealed"
RELEASED: Final = b"virtuallog 1 released"
"""Of a loglet that has left the chain: nothing else of it is left. This znode stays, so that nobody makes it anew."""
PLACED_MAX: Final = 64
"""Bundles of a session that are remembered: more than an appender has under way (`virtuallog.client.appender.WINDOW_MAX`)."""
CHUNK_BYTES: Final = 900_000
"""Of one znode; with all that is in the same request it stays below the 1 MiB that ZooKeeper takes."""

_WRITER: Final = struct.Struct("<2sBBQI")
_ROW: Final = struct.Struct("<QI")
_MANIFEST: Final = struct.Struct("<2sBBIIIQ16s")
MANIFEST_BYTES: Final = _MANIFEST.size
_VERSION: Final = 1
_UNKNOWN: Final = 0xFFFF_FFFF


@attrs.frozen(kw_only=True)
class WriterState:
    """How far a session has come, and where its last bundles are: bundles follow each other without a gap in its numbers."""

    next_sequence: int
    placed: tuple[tuple[int, int | None], ...] = ()
    """(First sequence, slot), ascending. The slot of the last one is not known when this is written in one step with it; it is
    the one that the same transaction made."""
    floor: int = 0
    """That slot is at or behind this one."""

    def place_of(self, batch: Batch) -> int:
        """Offset of a batch that has been placed.

        Raises:
            ReconfigurationNeededError: it is not known any more.
        """
        for first, slot in reversed(self.placed):
            if first <= batch.first_sequence:
                if slot is None:
                    break
                return (slot << INDEX_BITS) + batch.first_sequence - first
        raise ReconfigurationNeededError("it is forgotten where this batch is")

    def with_bundle(self, first_sequence: int, stop_sequence: int, floor: int) -> WriterState:
        """Once a bundle follows, whose slot is not known yet."""
        placed = (*self.placed, (first_sequence, None))[-PLACED_MAX:]
        return WriterState(next_sequence=stop_sequence, placed=placed, floor=floor)

    def resolved(self, slot: int | None) -> WriterState:
        """The last bundle is in this slot; None: where it was is trimmed."""
        *others, (first, _) = self.placed
        return attrs.evolve(self, placed=(*others, (first, slot)))

    @property
    def is_resolved(self) -> bool:
        return not self.placed or self.placed[-1][1] is not None

    def encode(self) -> bytes:
        head = _WRITER.pack(b"ZW", _VERSION, len(self.placed), self.next_sequence, self.floor)
        return head + b"".join(_ROW.pack(first, _UNKNOWN if slot is None else slot) for first, slot in self.placed)


def decode_writer_untrusted(data: bytes) -> WriterState:
    """Raises CorruptionError."""
    try:
        magic, version, count, next_sequence, floor = _WRITER.unpack_from(data)
        rows = list(_ROW.iter_unpack(data[_WRITER.size :]))
    except struct.error as error:
        raise CorruptionError("the znode of a writer is cut off") from error
    if magic != b"ZW" or version != _VERSION or count != len(rows):
        raise CorruptionError(f"not the znode of a writer, of version {_VERSION}: starts with {data[:4].hex()}")
    placed = tuple((first, None if slot == _UNKNOWN else slot) for first, slot in rows)
    return WriterState(next_sequence=next_sequence, placed=placed, floor=floor)


@attrs.frozen(kw_only=True)
class ChunkManifest:
    """A bundle that is too large for one znode. The same batches get the same chunks, so a repeat finds its own."""

    session: SessionId
    first_sequence: int
    size: int
    """Bytes of the bundle."""
    checksum: int

    @classmethod
    def of(cls, batch: Batch, body: bytes) -> ChunkManifest:
        return cls(session=batch.session, first_sequence=batch.first_sequence, size=len(body), checksum=crc32c(body))

    @property
    def chunks(self) -> int:
        return -(-self.size // CHUNK_BYTES)

    @property
    def names(self) -> list[str]:
        """Of the znodes of the chunks, in their order."""
        bundle = f"{self.session.hex()}-{self.first_sequence}-{self.checksum:08x}"
        return [f"{bundle}-{number}" for number in range(self.chunks)]

    def encode(self) -> bytes:
        return _MANIFEST.pack(
            b"ZM", _VERSION, 0, self.chunks, self.size, self.checksum, self.first_sequence, self.session
        )


def decode_manifest_untrusted(data: bytes) -> ChunkManifest | None:
    """None: what is in the slot is the bundle itself.

    Raises:
        CorruptionError: a manifest that cannot be.
    """
    if data[:2] != b"ZM":
        return None
    if len(data) != MANIFEST_BYTES:
        raise CorruptionError(f"a manifest of {len(data)} bytes")
    _, version, zero, chunks, size, checksum, first_sequence, session = _MANIFEST.unpack(data)
    found = ChunkManifest(session=SessionId(session), first_sequence=first_sequence, size=size, checksum=checksum)
    if version != _VERSION or zero or chunks != found.chunks:
        raise CorruptionError(f"not a manifest of version {_VERSION}")
    return found


@attrs.frozen(kw_only=True)
class TrimState:
    """How far a loglet is trimmed. Only grows."""

    trim: int = 0
    """First offset that is not."""
    deleted: int = 0
    """First slot whose znode may still be there."""

    def encode(self) -> bytes:
        return json.dumps(attrs.asdict(self), sort_keys=True).encode()


def decode_trim_untrusted(data: bytes) -> TrimState:
    """Raises CorruptionError."""
    try:
        fields = json.loads(data)
        trim, deleted = fields["trim"], fields["deleted"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CorruptionError(f"not a trim point: {data[:100]!r}") from error
    if type(trim) is not int or type(deleted) is not int or not 0 <= deleted <= trim >> INDEX_BITS:
        raise CorruptionError(f"not a trim point: {data[:100]!r}")
    return TrimState(trim=trim, deleted=deleted)
