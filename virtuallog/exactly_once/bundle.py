"""Format of the batches that share a slot of a loglet (a position of the paxos loglet, a znode), as one body.

A slot is decided as a whole, so batches that share one are all in the log, or none, and in their order. If each had
a slot of its own, with several in flight, a failover could decide the second and put a NOP in place of the first.
The entries of a session would then be in the log with a hole (docs/internals/protocols/paxos.md, "Coordinator").

Durable and wire format, version 1, little-endian. One batch is itself (magic "VB", see `virtuallog.contract.batch`). Several are

    magic "VW" | version u8 | 0 u8 | batches u32 | for each: entries u32, bytes u32 | the batches, back to back
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import attrs

from virtuallog.contract.batch import Batch, glance_untrusted
from virtuallog.contract.errors import MalformedError

ENTRIES_MAX: Final = 1 << 16
"""Limit of entries of all batches in a slot: the low bits of an offset count them (`slots.SLOT`)."""

_HEAD: Final = struct.Struct("<2sBBI")
_MAGIC: Final = b"VW"
_VERSION: Final = 1
_ROW_BYTES: Final = 8


@attrs.frozen
class BundledBatch:
    """Place of one batch in the body of a slot."""

    start: int
    """Offset of its first byte."""
    stop: int
    """Offset past its last byte."""
    index: int
    """Number of entries before it in the slot."""
    count: int
    """Number of its entries."""


def join(batches: Sequence[Batch]) -> bytes:
    """Build the body of a slot with these batches, in this order."""
    assert sum(batch.count for batch in batches) <= ENTRIES_MAX
    if len(batches) == 1:
        return batches[0].blob
    table = struct.pack(f"<{2 * len(batches)}I", *(n for batch in batches for n in (batch.count, len(batch.blob))))
    return b"".join((_HEAD.pack(_MAGIC, _VERSION, 0, len(batches)), table, *(batch.blob for batch in batches)))


def split_untrusted(blob: bytes, at: int = 0) -> list[BundledBatch]:
    """Batches of the body that begins at `at`. They are not parsed, which keeps this cheap.

    Raises:
        MalformedError: neither one batch nor a body of several.
    """
    if blob[at : at + 2] != _MAGIC:
        lone = glance_untrusted(blob, at)
        if lone is None or not 0 < lone[2] <= ENTRIES_MAX:
            raise MalformedError(f"no batch: starts with {bytes(blob[at : at + 4]).hex()}")
        return [BundledBatch(at, len(blob), 0, lone[2])]
    try:
        _, version, zero, count = _HEAD.unpack_from(blob, at)
        start = at + _HEAD.size + _ROW_BYTES * count
        if version != _VERSION or zero or not 1 < count <= ENTRIES_MAX or start > len(blob):
            raise MalformedError(f"not the batches of a slot, of version {_VERSION}")
        rows = struct.unpack_from(f"<{2 * count}I", blob, at + _HEAD.size)
    except struct.error as error:
        raise MalformedError("the batches of a slot end within their table") from error
    parts, index = [], 0
    for entries, size in zip(rows[::2], rows[1::2], strict=True):
        parts.append(BundledBatch(start, start + size, index, entries))
        start, index = start + size, index + entries
        if not entries or not size:
            raise MalformedError("an empty batch among those of a slot")
    if start != len(blob) or index > ENTRIES_MAX:
        raise MalformedError("the batches of a slot do not add up")
    return parts
