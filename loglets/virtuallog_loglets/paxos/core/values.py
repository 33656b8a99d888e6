"""Value of a position: one blob, which intermediate parts carry unparsed.

Durable and wire format, version 1, little-endian; it never changes once released:

    magic "VP" | version u8 | kind u8 | crc32c u32 of kind and all that follows | time u64, ms since the epoch | body

    NOP        body: tombstone u8. A tombstone says that this position and all below are truncated.
    APPEND     body: the bytes of the user; in a loglet, one batch or several (virtuallog/exactly_once/bundle.py)
    TRUNCATE   body: to u64 (first position kept) | trim u64 (first loglet offset kept) | digest: sessions whose batches may be dropped
    SEAL       body: empty. Later positions hold no user data.

Source: Mesos, src/messages/log.proto (Action); SEAL, the time and the digest are ours (docs/internals/protocols/paxos.md).
"""

from __future__ import annotations

import enum
import struct
from typing import Final

import attrs
from crc32c import crc32c

from virtuallog.contract.errors import CorruptionError, MalformedError

VALUE_BYTES_MAX: Final = 9 << 20
"""Cap on an encoded value: a batch of the largest size and its framing."""

_PREFIX: Final = struct.Struct("<2sBBI")
_TIME: Final = struct.Struct("<Q")
_TRUNCATE: Final = struct.Struct("<QQ")
_MAGIC: Final = b"VP"
_VERSION: Final = 1
BODY: Final = _PREFIX.size + _TIME.size
"""Byte offset of the body of a value."""


class ValueKind(enum.IntEnum):
    """Kind of a value, as encoded."""

    NOP = 1
    APPEND = 2
    TRUNCATE = 3
    SEAL = 4


_KINDS: Final = {kind.value: kind for kind in ValueKind}
"""Kinds by number. Looked up for every position; `ValueKind(number)` takes five times as long."""


@attrs.frozen
class Truncation:
    """The body of a TRUNCATE."""

    to: int
    trim: int
    digest: bytes


def nop(time_ms: int = 0, *, tombstone: bool = False) -> bytes:
    return _build(ValueKind.NOP, time_ms, b"\x01" if tombstone else b"\x00")


def append(payload: bytes, time_ms: int) -> bytes:
    return _build(ValueKind.APPEND, time_ms, payload)


def truncate(to: int, time_ms: int, trim: int = 0, digest: bytes = b"") -> bytes:
    return _build(ValueKind.TRUNCATE, time_ms, _TRUNCATE.pack(to, trim) + digest)


def seal(time_ms: int) -> bytes:
    return _build(ValueKind.SEAL, time_ms, b"")


def kind_of(value: bytes) -> ValueKind:
    """Kind of a value that has been checked."""
    return _KINDS[value[3]]


def time_of(value: bytes) -> int:
    """Time at which the proposer made the value, in milliseconds since the epoch."""
    time_ms: int = _TIME.unpack_from(value, _PREFIX.size)[0]
    return time_ms


def is_tombstone(value: bytes) -> bool:
    """True if the value says that its position and all below are truncated."""
    return value[3] == ValueKind.NOP and value[BODY] != 0


def payload_of(value: bytes) -> bytes:
    """Body of the value: the bytes that `append` was given."""
    return value[BODY:]


def truncation_of(value: bytes) -> Truncation:
    """Body of a checked TRUNCATE."""
    to, trim = _TRUNCATE.unpack_from(value, BODY)
    return Truncation(to, trim, value[BODY + _TRUNCATE.size :])


def check_untrusted(value: bytes) -> None:
    """Check that `value` is a value, and intact.

    Raises:
        MalformedError: not a value, or a value of a later version.
        CorruptionError: its bytes do not match its checksum.
    """
    if not BODY <= len(value) <= VALUE_BYTES_MAX:
        raise MalformedError(f"a value of {len(value)} bytes")
    magic, version, kind, checksum = _PREFIX.unpack_from(value)
    if magic != _MAGIC or version != _VERSION:
        raise MalformedError(f"not a value of version {_VERSION}: starts with {bytes(value[:4]).hex()}")
    if _checksum(kind, memoryview(value)[_PREFIX.size :]) != checksum:
        raise CorruptionError("a value does not match its checksum")
    body = len(value) - BODY
    if kind == ValueKind.APPEND or (kind == ValueKind.NOP and body == 1) or (kind == ValueKind.SEAL and body == 0):
        return
    if kind != ValueKind.TRUNCATE or body < _TRUNCATE.size:
        raise MalformedError(f"a value of kind {kind} with {body} bytes")


def _build(kind: ValueKind, time_ms: int, body: bytes) -> bytes:
    content = _TIME.pack(time_ms) + body
    return _PREFIX.pack(_MAGIC, _VERSION, kind, _checksum(kind, content)) + content


def _checksum(kind: int, content: bytes | memoryview) -> int:
    return crc32c(content, crc32c(bytes((kind,))))


TOMBSTONE: Final = nop(tombstone=True)
