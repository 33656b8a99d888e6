"""Format of an index file: the content of a closed segment as its user encodes it. Version 1.

    magic "VLOG-IDX" | version u32 | crc32c u32 of all that follows | sequence u64 | end u32 | records u32 | the user's bytes

An index is derived from its segment and replaces reading it: a recovery that finds one hands it to
the user and does not look at the records. `end` and `records` are those of the segment's footer, so
an index can only stand for the very segment that it was made of. It may be missing, torn, damaged
or of a later version: then the segment is read.

It is a separate file, not a part of the segment's footer, since nothing depends on it. The append
path does not wait for it. A segment needs no room for it however small its records are. Programs
that know no index read the same segments.
"""

from __future__ import annotations

import re
import struct
from typing import Final

from crc32c import crc32c

VERSION: Final = 1
HEADER: Final = struct.Struct("<8sII")
_BODY: Final = struct.Struct("<QII")
_MAGIC: Final = b"VLOG-IDX"
_NAME: Final = re.compile(r"wal-(\d{10})\.index")


def name_of(sequence: int) -> str:
    return f"wal-{sequence:010d}.index"


def sequence_in(name: str) -> int | None:
    """Sequence of the segment that a file is the index of; None for any other file."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def encode(sequence: int, footer: tuple[int, int], content: bytes) -> bytes:
    """Encode the index of the segment with this (end, records) in its footer."""
    body = _BODY.pack(sequence, *footer) + content
    return HEADER.pack(_MAGIC, VERSION, crc32c(body)) + body


def decode_untrusted(image: bytes, sequence: int, footer: tuple[int, int]) -> bytes | None:
    """The user's bytes; None unless `image` is a whole index of that segment, of this version."""
    if len(image) < HEADER.size + _BODY.size:
        return None
    magic, version, checksum = HEADER.unpack_from(image)
    body = memoryview(image)[HEADER.size :]
    if (magic, version) != (_MAGIC, VERSION) or crc32c(body) != checksum:
        return None
    if _BODY.unpack_from(body) != (sequence, *footer):
        return None
    return bytes(body[_BODY.size :])
