"""Contents of a loglet's znodes beside batches: durable formats, version 1, little-endian.

the seal           "virtuallog 1 open", "... sealed", "... released": for people, and to find out if it was dropped
a writer           magic "ZW" | version u8 | placed u8 | next sequence u64 | floor u32 | for each: first sequence u64, slot u32
a manifest         magic "ZM" | version u8 | 0 u8 | chunks u32 | bytes u32 | crc32c u32 of all of them | first sequence u64 |
                   session 16 bytes; what it stands for is a bundle like any other (`virtuallog.exactly_once.bundle`)
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
from virtuallog.exactly_once.slot_offsets import INDEX_BITS

OPEN: Final = b"virtuallog 1 open"
SEALED: Final = b"virtuallog 1 sealed"
RELEASED: Final = b"virtuallog 1 released"
"""Content of the seal of a loglet that has left the chain. Only this znode is left, so that no
client creates the loglet again."""
PLACED_MAX: Final = 64
"""Most bundles remembered per session: more than an appender has in flight
(`virtuallog.client.appender.WINDOW_MAX`)."""
CHUNK_BYTES: Final = 900_000
"""Most bytes in one znode. With the rest of the request it stays below the 1 MiB that ZooKeeper accepts."""

_WRITER: Final = struct.Struct("<2sBBQI")
_ROW: Final = struct.Struct("<QI")
_MANIFEST: Final = struct.Struct("<2sBBIIIQ16s")
MANIFEST_BYTES: Final = _MANIFEST.size
_VERSION: Final = 1
_UNKNOWN: Final = 0xFFFF_FFFF


@attrs.frozen(kw_only=True)
class WriterState:
    """Progress of a session and the slots of its last bundles. Bundles are consecutive, without
    gaps in the numbers."""

    next_sequence: int
    placed: tuple[tuple[int, int | None], ...] = ()
    """(First sequence, slot) of the last bundles, ascending.

    The slot of the last one is not known when this is written in one transaction with it: it is the
    slot that the same transaction created.
    """
    floor: int = 0
    """Lower bound of that slot."""

    def place_of(self, batch: Batch) -> int:
        """Offset of a batch that has been placed.

        Raises:
            ReconfigurationNeededError: it is no longer known.
        """
        for first, slot in reversed(self.placed):
            if first <= batch.first_sequence:
                if slot is None:
                    break
                return (slot << INDEX_BITS) + batch.first_sequence - first
        raise ReconfigurationNeededError("it is forgotten where this batch is")

    def with_bundle(self, first_sequence: int, stop_sequence: int, floor: int) -> WriterState:
        """State after one more bundle, whose slot is not known yet."""
        placed = (*self.placed, (first_sequence, None))[-PLACED_MAX:]
        return WriterState(next_sequence=stop_sequence, placed=placed, floor=floor)

    def resolved(self, slot: int | None) -> WriterState:
        """State once the slot of the last bundle is known. `slot` is None if the bundle is trimmed."""
        *others, (first, _) = self.placed
        return attrs.evolve(self, placed=(*others, (first, slot)))

    @property
    def is_resolved(self) -> bool:
        return not self.placed or self.placed[-1][1] is not None

    def encode(self) -> bytes:
        head = _WRITER.pack(b"ZW", _VERSION, len(self.placed), self.next_sequence, self.floor)
        return head + b"".join(_ROW.pack(first, _UNKNOWN if slot is None else slot) for first, slot in self.placed)


def decode_writer_untrusted(data: bytes) -> WriterState:
    """Decode a writer's znode. Raises CorruptionError."""
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
    """Manifest of a bundle that is too large for one znode. The same batches get the same chunks,
    so a repeat finds its own."""

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
        """Names of the chunks' znodes, in order."""
        bundle = f"{self.session.hex()}-{self.first_sequence}-{self.checksum:08x}"
        return [f"{bundle}-{number}" for number in range(self.chunks)]

    def encode(self) -> bytes:
        return _MANIFEST.pack(
            b"ZM", _VERSION, 0, self.chunks, self.size, self.checksum, self.first_sequence, self.session
        )


def decode_manifest_untrusted(data: bytes) -> ChunkManifest | None:
    """Decode a manifest; None if the slot holds the bundle itself.

    Raises:
        CorruptionError: an impossible manifest.
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
    """Trim progress of a loglet. It only grows."""

    trim: int = 0
    """First offset that is not trimmed."""
    deleted: int = 0
    """First slot whose znode may still exist."""

    def encode(self) -> bytes:
        return json.dumps(attrs.asdict(self), sort_keys=True).encode()


def decode_trim_untrusted(data: bytes) -> TrimState:
    """Decode the trim znode. Raises CorruptionError."""
    try:
        fields = json.loads(data)
        trim, deleted = fields["trim"], fields["deleted"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CorruptionError(f"not a trim point: {data[:100]!r}") from error
    if type(trim) is not int or type(deleted) is not int or not 0 <= deleted <= trim >> INDEX_BITS:
        raise CorruptionError(f"not a trim point: {data[:100]!r}")
    return TrimState(trim=trim, deleted=deleted)
