"""Format of a segment file. Durable format, version 1, little-endian; it never changes once
released.

    0                64                                    end                 size - 64        size
    |----------------|------------------|------------------|...................|----------------|
     header           snapshot records   other records      zeros (preallocated) footer, or zeros

    header   magic "VLOG-WAL" | version u32 | crc32c u32 of all that follows | sequence u64 | snapshot end u32 | zeros
    record   marker 3 bytes | kind u8 | length u32 | crc32c(payload) u32 | synced_upto u32 | crc32c(this header) u32
    footer   magic "VLOG-END" | version u32 | crc32c u32 of all that follows | sequence u64 | end u32 | records u32 | 0

Rules on which recovery builds:

* `synced_upto` of a record is where the segment's durable part ended when the record was written:
  the start of its group. A valid record with `synced_upto` past a bad spot proves that the bad spot
  had been synced.
* A header's checksum starts from its own address (`salt` of the segment xor offset). So a record
  that was copied to another place (a payload may well contain a log file) is not valid there.
* The marker lets recovery look for records behind a bad spot at the speed of `bytes.find`.
* A footer is durable before the next segment begins.
"""

from __future__ import annotations

import re
import struct
from typing import Final

from crc32c import crc32c

from virtuallog.contract.errors import CorruptionError, MalformedError

VERSION: Final = 1
HEADER_BYTES: Final = 64
"""Bytes of a segment's header, padding and checksum included."""
FOOTER_BYTES: Final = 64
"""Bytes of a segment's footer, padding and checksum included."""
SEGMENT_BYTES_MIN: Final = HEADER_BYTES + FOOTER_BYTES
"""Bytes of an empty segment: header and footer. A shorter file is no segment."""

MARKER: Final = b"\xc5wR"
RECORD: Final = struct.Struct("<3sBIIII")
RECORD_HEADER_BYTES: Final = RECORD.size
RECORD_CHECKED_BYTES: Final = RECORD.size - 4
"""Bytes of a record's header that its own checksum covers."""
RECORD_FIELDS: Final = struct.Struct("<3sBIII")
CHECKSUM: Final = struct.Struct("<I")

_HEADER_MAGIC: Final = b"VLOG-WAL"
_FOOTER_MAGIC: Final = b"VLOG-END"
_PREFIX: Final = struct.Struct("<8sII")
_HEADER_BODY: Final = struct.Struct("<QI36x")
_FOOTER_BODY: Final = struct.Struct("<QII32x")
_NAME: Final = re.compile(r"wal-(\d{10})")


def name_of(sequence: int) -> str:
    return f"wal-{sequence:010d}"


def sequence_in(name: str) -> int | None:
    """Sequence number in a file name; None for a file that is no segment."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def salt_of(sequence: int) -> int:
    """Start value of record checksums of this segment, before the offset is mixed in."""
    return sequence * 0x9E3779B1 & 0xFFFFFFFF  # an odd constant: consecutive sequences get far-apart salts


def header(sequence: int, snapshot_end: int) -> bytes:
    return _seal(_HEADER_MAGIC, _HEADER_BODY.pack(sequence, snapshot_end))


def footer(sequence: int, end: int, records: int) -> bytes:
    return _seal(_FOOTER_MAGIC, _FOOTER_BODY.pack(sequence, end, records))


def parse_header_untrusted(image: bytes, sequence: int, where: str) -> int:
    """The snapshot end in the header of segment `sequence`.

    Raises:
        MalformedError: another version.
        CorruptionError: not a header, or another segment's.
    """
    if len(image) < SEGMENT_BYTES_MIN:
        raise CorruptionError(f"{where}: a segment of {len(image)} bytes")
    body = _open_untrusted(image[:HEADER_BYTES], _HEADER_MAGIC, where)
    if body is None:
        raise CorruptionError(f"{where}: the segment header at offset 0 is damaged")
    found, snapshot_end = _HEADER_BODY.unpack(body)
    if found != sequence or not HEADER_BYTES <= snapshot_end <= len(image) - FOOTER_BYTES:
        raise CorruptionError(f"{where}: the header is that of segment {found}, snapshot up to {snapshot_end}")
    return int(snapshot_end)


def is_header_untrusted(image: bytes, sequence: int, where: str) -> bool:
    """True if `image` begins with a sound header of segment `sequence`. Needs only the header's
    bytes.

    Raises:
        MalformedError: another version.
    """
    body = _open_untrusted(image[:HEADER_BYTES], _HEADER_MAGIC, where)
    return body is not None and _HEADER_BODY.unpack(body)[0] == sequence


def parse_footer_untrusted(image: bytes, sequence: int, where: str) -> tuple[int, int] | None:
    """(end, number of records) of a closed segment; None if there is no valid footer.

    Raises:
        MalformedError: another version.
    """
    body = _open_untrusted(image[len(image) - FOOTER_BYTES :], _FOOTER_MAGIC, where)
    if body is None:
        return None
    found, end, records = _FOOTER_BODY.unpack(body)
    return (int(end), int(records)) if found == sequence else None


def _seal(magic: bytes, body: bytes) -> bytes:
    return _PREFIX.pack(magic, VERSION, crc32c(body)) + body


def _open_untrusted(block: bytes, magic: bytes, where: str) -> bytes | None:
    found, version, checksum = _PREFIX.unpack_from(block)
    if found != magic:
        return None
    if version != VERSION:
        raise MalformedError(f"{where}: written by format version {version}; this program reads version {VERSION}")
    body = block[_PREFIX.size :]
    return body if crc32c(body) == checksum else None


def parse_record_header_untrusted(header: bytes, sequence: int, offset: int) -> tuple[int, int, int] | None:
    """(kind, payload length, crc32c of the payload); None unless `header` is a record header for
    this very offset."""
    if len(header) != RECORD_HEADER_BYTES:
        return None
    marker, kind, length, payload_checksum, _synced, checksum = RECORD.unpack(header)
    if marker != MARKER or crc32c(header[:RECORD_CHECKED_BYTES], salt_of(sequence) ^ offset) != checksum:
        return None
    return int(kind), int(length), int(payload_checksum)
