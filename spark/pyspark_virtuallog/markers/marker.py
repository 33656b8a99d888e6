"""Marker: the entry that makes the rows of one batch of a sink visible, all at once.

    log   a a b a b b x x M          two partitions wrote as sessions a and b, an attempt that failed as x; M names a and b

It also carries what its writer had found of earlier markers (`Checkpoint`), so that readers need
not read the log from its start; `ledger.py` has the rules. A marker is alone in its batch of the
log: a search for markers opens no other batch.

Durable format, version 1, little-endian:

    magic "VLMARKER" | version u8 | flags u8 (0) | crc32c u32 of all that follows
    query 16 bytes | batch i64 (-1: of no sequence) | looked up to u64 | heads u32 | winners u32
    heads, with the older position first: query 16 bytes, batch u64, position u64
    winners: session 16 bytes, first position u64, last position u64, entries u64, bytes u64

A marker of no sequence has looked up to 0, and has no heads.
"""

from __future__ import annotations

import struct
from typing import Final, NewType

import attrs
from crc32c import crc32c

from virtuallog.contract.batch import ENTRY_BYTES_MAX, SessionId
from virtuallog.contract.errors import MalformedError, TooLargeError, UnsupportedError
from virtuallog.contract.types import LogPosition, PlacedBatch

QueryId = NewType("QueryId", bytes)
"""16 bytes naming a streaming query for as long as its checkpoint lives, or one job."""

MAGIC: Final = b"VLMARKER"
HEADS_MAX: Final = 1024
"""Streaming queries that a log remembers: 32 KiB of a marker. The longest silent one is forgotten."""

_PREFIX: Final = struct.Struct("<8sBBI")
_BODY: Final = struct.Struct("<16sqQII")
_HEAD: Final = struct.Struct("<16sQQ")
_WINNER: Final = struct.Struct("<16sQQQQ")
_VERSION: Final = 1
_ALONE: Final = -1


@attrs.frozen
class Winner:
    """An attempt of a task whose rows are visible: all entries of its session."""

    session: SessionId
    first: LogPosition
    last: LogPosition
    entries: int
    bytes: int
    """Bytes of all payloads."""


@attrs.frozen
class Head:
    """The newest batch of a query that counts, and the position of its marker."""

    query: QueryId
    batch: int
    position: LogPosition


@attrs.frozen
class Checkpoint:
    """The newest batch of each query, of all markers below a position."""

    position: LogPosition
    heads: tuple[Head, ...]
    """Heads of the queries, the longest silent one first; at most `HEADS_MAX`."""


@attrs.frozen
class Marker:
    """Content of a marker, which the driver of a batch appends when all its tasks have succeeded."""

    query: QueryId
    batch: int | None
    """Its number in the query. None for a single job, which is never committed again."""
    checkpoint: Checkpoint | None
    """Ledger known to its writer. None only if there is no batch."""
    winners: tuple[Winner, ...]

    def __attrs_post_init__(self) -> None:
        assert (self.batch is None) == (self.checkpoint is None)
        assert self.winners

    def encode(self) -> bytes:
        """The payload of its entry.

        Raises:
            TooLargeError: more winners than fit into an entry.
        """
        heads = self.checkpoint.heads if self.checkpoint is not None else ()
        looked = self.checkpoint.position if self.checkpoint is not None else 0
        batch = _ALONE if self.batch is None else self.batch
        parts = [_BODY.pack(self.query, batch, looked, len(heads), len(self.winners))]
        parts += [_HEAD.pack(*attrs.astuple(head)) for head in heads]
        parts += [_WINNER.pack(*attrs.astuple(winner)) for winner in self.winners]
        body = b"".join(parts)
        if (size := _PREFIX.size + len(body)) > ENTRY_BYTES_MAX:
            raise TooLargeError(f"bytes in the marker of {len(self.winners)} tasks", size, ENTRY_BYTES_MAX)
        return _PREFIX.pack(MAGIC, _VERSION, 0, crc32c(body)) + body


@attrs.frozen
class PlacedMarker:
    """A marker and its position."""

    position: LogPosition
    marker: Marker


def parse_untrusted(payload: bytes) -> Marker:
    """Parse the payload of an entry.

    Raises:
        MalformedError: not a marker.
        UnsupportedError: a marker of a later version: a reader that skipped it would not see its
            rows.
    """
    try:
        magic, version, flags, checksum = _PREFIX.unpack_from(payload)
        body = memoryview(payload)[_PREFIX.size :]
        if magic != MAGIC or not version or crc32c(body) != checksum:
            raise MalformedError(f"no marker: starts with {bytes(payload[:12]).hex()}")
        if version != _VERSION or flags:
            raise UnsupportedError(f"a marker of version {version}, flags {flags}: a newer program can read it")
        return _parse_body(body)
    except struct.error as error:
        raise MalformedError("a marker is cut off") from error


def _parse_body(body: memoryview) -> Marker:
    query, batch, looked, heads_count, winners_count = _BODY.unpack_from(body)
    heads_stop = _BODY.size + heads_count * _HEAD.size
    if heads_stop + winners_count * _WINNER.size != len(body):
        raise MalformedError("the parts of a marker do not add up to its size")
    heads = tuple(Head(*fields) for fields in _HEAD.iter_unpack(body[_BODY.size : heads_stop]))
    winners = tuple(Winner(*fields) for fields in _WINNER.iter_unpack(body[heads_stop:]))
    _check_heads(batch, looked, heads)
    _check_winners(winners)
    checkpoint = None if batch == _ALONE else Checkpoint(looked, heads)
    return Marker(query, None if batch == _ALONE else batch, checkpoint, winners)


def _check_heads(batch: int, looked: int, heads: tuple[Head, ...]) -> None:
    positions = [head.position for head in heads]
    if batch < _ALONE or (batch == _ALONE and (looked or heads)):
        raise MalformedError(f"a marker of batch {batch} that has looked up to {looked}")
    if len({head.query for head in heads}) != len(heads) or len(heads) > HEADS_MAX:
        raise MalformedError("a marker names a query twice, or too many")
    if positions != sorted(set(positions)) or (positions and positions[-1] >= looked):
        raise MalformedError("a marker names others that are out of order, or that its writer cannot have seen")


def _check_winners(winners: tuple[Winner, ...]) -> None:
    if not winners or len({winner.session for winner in winners}) != len(winners):
        raise MalformedError("a marker names no session, or one twice")
    if not all(1 <= winner.entries <= winner.last - winner.first + 1 for winner in winners):
        raise MalformedError("a marker names more entries than positions for them, or none")


def marker_of(placed: PlacedBatch) -> PlacedMarker | None:
    """The marker in a batch of the log. None if not a valid marker, even if it starts with the
    marker magic: its writer has not committed anything.

    Raises:
        UnsupportedError: a marker of a later version.
    """
    if placed.batch.count != 1 or bytes(placed.batch.packed_payloads[: len(MAGIC)]) != MAGIC:
        return None
    position = LogPosition(placed.places[0])
    try:
        marker = parse_untrusted(bytes(placed.batch.packed_payloads))
    except MalformedError:
        return None
    looked = marker.checkpoint.position if marker.checkpoint is not None else 0
    if looked > position or max(winner.last for winner in marker.winners) >= position:
        return None  # no writer can have known this there
    return PlacedMarker(position, marker)
