"""Index of one WAL segment: its waves by loglet, as bytes. Format version 1, little-endian:

    magic "VNIX" | version u32 | (version u64, attempt u64, waves u64, columns of `WaveIndex.encode`) x loglets

Together with the snapshot at the head of the next segment (`durable_state.py`) it stands for the
records of its segment. The snapshot has all the rest: seals, trims, known tails, dropped loglets.
The WAL checks that an index is intact (`wal.core.index_format`).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import MalformedError
from virtuallog_loglets.native.core.wave_index import ENTRY_BYTES, WaveIndex

_PREFIX: Final = struct.Struct("<4sI")
_LOGLET: Final = struct.Struct("<QQQ")
_MAGIC: Final = b"VNIX"
_VERSION: Final = 1


def encode(parts: Mapping[SegmentId, WaveIndex]) -> bytes:
    chunks = [_PREFIX.pack(_MAGIC, _VERSION)]
    for segment, part in parts.items():
        chunks += (_LOGLET.pack(segment.version, segment.attempt, len(part)), part.encode())
    return b"".join(chunks)


def decode_untrusted(image: bytes) -> dict[SegmentId, WaveIndex]:
    """Decode an image made by `encode`.

    Raises:
        MalformedError: the image cannot be one, or it is of another version.
    """
    if len(image) < _PREFIX.size or _PREFIX.unpack_from(image) != (_MAGIC, _VERSION):
        raise MalformedError(f"not an index of version {_VERSION}: starts with {image[:8].hex()}")
    parts, at = {}, _PREFIX.size
    while at < len(image):
        if len(image) < at + _LOGLET.size:
            raise MalformedError("an index ends within the name of a loglet")
        version, attempt, waves = _LOGLET.unpack_from(image, at)
        at, stop = at + _LOGLET.size, at + _LOGLET.size + waves * ENTRY_BYTES
        if len(image) < stop:
            raise MalformedError(f"an index ends within {waves} waves of a loglet")
        parts[SegmentId(version, attempt)] = WaveIndex.decode_untrusted(image[at:stop])
        at = stop
    return parts
