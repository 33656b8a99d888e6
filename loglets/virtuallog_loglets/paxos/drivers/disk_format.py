"""Disk format of the replicas of a node: keys and values of one DurableMap store.

    f                          founding: incarnation u64, founded i64, lowest live version u64
    h | segment                header of a log: status u8 | promised i64 | coordinator i64 | begin u64 | learned u64 | end u64 |
                               seal i64 | trim u64 | members u16, incarnations u16 | quorum u16 | node u32 each |
                               (node u32, incarnation u64) each
    d | segment                digest: positions below this u64 are in it | encoded as in virtuallog/exactly_once/session_digest.py
    r | segment | position     record of a position: flags u8 (1: learned) | promised i64 | performed i64 | value

A segment is version u64, attempt u64. Numbers in keys are big-endian, so that keys are in order; all others are
little-endian. Each value is magic "VL" | crc32c u32 of all that follows | format u8 (1) | the above. The first six bytes
are the same in every format, so that damage is never taken for a later format.

Positions below `learned` of the header are decided, even if the record does not say so. Records below `begin` are garbage.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

import attrs
from crc32c import crc32c

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog.contract.ports import DurableMap, Span
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.core.position_digest import PositionDigest
from virtuallog_loglets.paxos.core.replica import Replica
from virtuallog_loglets.paxos.core.slots import PaxosSlots
from virtuallog_loglets.paxos.messages import NOWHERE, Incarnation, PaxosRecord, Status

Pair: TypeAlias = tuple[bytes, bytes]

INCARNATION_KEY: Final = b"f"
_HEADER: Final = b"h"
_DIGEST: Final = b"d"
_RECORD: Final = b"r"
_MAGIC: Final = b"VL"
_FORMAT: Final = 1
_FRAME: Final = struct.Struct("<2sIB")
_COVERED: Final = 6
"""Byte offset from which the checksum covers."""
_SEGMENT: Final = struct.Struct(">QQ")
_POSITION: Final = struct.Struct(">Q")
_FIELDS: Final = struct.Struct("<BqqQQQqQHHH")
_MEMBER: Final = struct.Struct("<I")
_TOLD: Final = struct.Struct("<IQ")
_SLOT: Final = struct.Struct("<Bqq")
_STOP: Final = struct.Struct("<Q")
_FOUNDING: Final = struct.Struct("<QqQ")
_LEARNED: Final = 1
_END: Final = (1 << 64) - 1
"""Bound above every position."""
_FORMAT_CHECKSUM: Final = crc32c(bytes((_FORMAT,)))
_PIECE_BYTES: Final = 8 << 20
"""Cap on records in memory while a replica is restored, in bytes."""


@attrs.frozen
class Header:
    """The header of a log, as stored."""

    segment: SegmentId
    status: Status
    promised: int
    coordinator: NodeId
    begin: int
    learned: int
    end: int
    seal: int
    trim: int
    ensemble: Ensemble
    """Ensemble of the log; without members for a log used by itself or copied here."""
    incarnations: tuple[Incarnation, ...]


def header_pair(replica: Replica, ensemble: Ensemble) -> Pair:
    """Key and value of the current header of a log."""
    slots, told = replica.slots, replica.incarnations
    fields = _FIELDS.pack(
        replica.status,
        replica.promised,
        replica.coordinator,
        slots.begin,
        slots.learned,
        slots.end,
        slots.seal,
        slots.trim,
        len(ensemble.members),
        len(told),
        ensemble.quorum,
    )
    members = struct.pack(f"<{len(ensemble.members)}I", *ensemble.members)
    others = b"".join(_TOLD.pack(other.node, other.incarnation) for other in told)
    return _HEADER + _name(replica.segment), _frame(fields + members + others)


def record_pair(segment: SegmentId, record: PaxosRecord) -> Pair:
    """Key and value of the record of one position."""
    head = _SLOT.pack(_LEARNED if record.learned else 0, record.promised, record.performed)
    return _record_key(segment, record.position), _frame(head, record.value)


def digest_pair(segment: SegmentId, digest: PositionDigest) -> Pair:
    """Key and value of a checkpoint of the digest, which replaces the former one."""
    return _DIGEST + _name(segment), _frame(_STOP.pack(digest.stop) + digest.encode())


def record_span(segment: SegmentId, first: int, stop: int) -> Span:
    """Key span of the records of positions in [first, stop)."""
    return _record_key(segment, first), _record_key(segment, stop)


def spans_of(segment: SegmentId) -> list[Span]:
    """Key spans of everything that belongs to a log."""
    name = _name(segment)
    return [(kind + name, kind + name + b"\xff" * 9) for kind in (_HEADER, _DIGEST, _RECORD)]


def parse_record(key: bytes, stored: bytes) -> tuple[SegmentId, PaxosRecord] | None:
    """Record in a pair; None if the pair holds something else.

    Raises:
        CorruptionError, MalformedError: see `restore`.
    """
    if key[:1] != _RECORD:
        return None
    body = _open_frame(key, stored)
    flags, promised, performed = _unpack(key, _SLOT, body)
    version, attempt = _SEGMENT.unpack_from(key, 1)
    (position,) = _POSITION.unpack_from(key, 1 + _SEGMENT.size)
    value, learned = body[_SLOT.size :], bool(flags & _LEARNED)
    record = PaxosRecord(position=position, promised=promised, performed=performed, value=value, learned=learned)
    return SegmentId(version, attempt), record


def parse_header(key: bytes, stored: bytes) -> Header | None:
    """Header in a pair; None if the pair holds something else.

    Raises:
        CorruptionError, MalformedError: see `restore`.
    """
    if key[:1] != _HEADER:
        return None
    body = _open_frame(key, stored)
    status, promised, coordinator, begin, learned, end, seal, trim, members, told, quorum = _unpack(key, _FIELDS, body)
    stop = _FIELDS.size + members * _MEMBER.size
    if len(body) != stop + told * _TOLD.size or status not in Status.__members__.values():
        raise CorruptionError(f"paxos: the record {key.hex()} does not add up")
    named = tuple(NodeId(node) for (node,) in _MEMBER.iter_unpack(body[_FIELDS.size : stop]))
    others = tuple(
        Incarnation(node=NodeId(node), incarnation=number) for node, number in _TOLD.iter_unpack(body[stop:])
    )
    return Header(
        SegmentId(*_SEGMENT.unpack_from(key, 1)),
        Status(status),
        promised,
        NodeId(coordinator),
        begin,
        learned,
        end,
        seal,
        trim,
        Ensemble(members=named, quorum=quorum),
        others,
    )


async def headers(store: DurableMap) -> list[Header]:
    """Headers of all logs in the store.

    Raises:
        CorruptionError, MalformedError, StorageError: see `restore`.
    """
    found = [parse_header(key, stored) for key, stored in await store.scan(_HEADER)]
    return [header for header in found if header is not None]


async def restore(store: DurableMap, header: Header, node: NodeId, incarnation: int) -> Replica:
    """Restore a replica as of its last answer, or later. It may have forgotten that some positions are decided.

    Reads the undecided positions, and those behind the last checkpoint of the digest.

    Raises:
        CorruptionError: a record is damaged or missing.
        MalformedError: a record has a later format.
        StorageError: the store cannot be read.
    """
    slots = PaxosSlots(begin=header.begin, learned=header.learned, end=header.end, seal=header.seal, trim=header.trim)
    if header.seal == NOWHERE:
        slots.digest = await _restore_digest(store, header)
    await _restore_open(store, header.segment, slots)
    return Replica(
        header.segment,
        node,
        incarnation,
        header.status,
        header.promised,
        header.coordinator,
        slots,
        header.incarnations,
    )


async def read_records(
    store: DurableMap, segment: SegmentId, first: int, stop: int, max_bytes: int
) -> list[PaxosRecord]:
    """Stored records of [first, stop), in order: at least one if there is any, then as many as fit in `max_bytes`."""
    pairs = await store.scan_span(record_span(segment, first, stop), max_bytes)
    parsed = [parse_record(key, stored) for key, stored in pairs]
    return [each[1] for each in parsed if each is not None]


async def _restore_digest(store: DurableMap, header: Header) -> PositionDigest:
    key = _DIGEST + _name(header.segment)
    stored, digest = await store.get(key), PositionDigest()
    if stored is not None:
        body = _open_frame(key, stored)
        (stop,) = _unpack(key, _STOP, body)
        digest = PositionDigest.decode_untrusted_below(body[_STOP.size :], stop)
    digest.skip_to(header.begin)
    while digest.stop < header.learned:
        records = await read_records(store, header.segment, digest.stop, header.learned, _PIECE_BYTES)
        if not records:
            raise CorruptionError(f"paxos: log {header.segment} has lost position {digest.stop}")
        for record in records:
            if record.position != digest.stop:
                raise CorruptionError(f"paxos: log {header.segment} has lost position {digest.stop}")
            digest.take(record.position, record.value)
    return digest


async def _restore_open(store: DurableMap, segment: SegmentId, slots: PaxosSlots) -> None:
    first = slots.learned
    while records := await read_records(store, segment, first, _END, _PIECE_BYTES):
        for record in records:
            if slots.is_learned(record.position):  # a TRUNCATE or the like is above what it drops
                continue
            if record.learned:
                slots.learn(record)
            else:
                slots.put(record)
        first = records[-1].position + 1


def _name(segment: SegmentId) -> bytes:
    return _SEGMENT.pack(segment.version, segment.attempt)


def _record_key(segment: SegmentId, position: int) -> bytes:
    return _RECORD + _SEGMENT.pack(segment.version, segment.attempt) + _POSITION.pack(position)


def _frame(head: bytes, value: bytes = b"") -> bytes:
    checksum = crc32c(value, crc32c(head, _FORMAT_CHECKSUM))
    return b"".join((_FRAME.pack(_MAGIC, checksum, _FORMAT), head, value))


def _open_frame(key: bytes, stored: bytes) -> bytes:
    if len(stored) < _FRAME.size or crc32c(memoryview(stored)[_COVERED:]) != _FRAME.unpack_from(stored)[1]:
        raise CorruptionError(f"paxos: the record {key.hex()} is damaged")
    magic, _, form = _FRAME.unpack_from(stored)
    if magic != _MAGIC:
        raise CorruptionError(f"paxos: the record {key.hex()} is damaged")
    if form != _FORMAT:
        raise MalformedError(f"paxos: a record of format {form}; this program reads {_FORMAT}")
    return stored[_FRAME.size :]


def _unpack(key: bytes, form: struct.Struct, body: bytes) -> tuple[int, ...]:
    if len(body) < form.size:
        raise CorruptionError(f"paxos: the record {key.hex()} does not add up")
    return form.unpack_from(body)


def incarnation_pair(incarnation: int, founded: int, lowest_live_version: int) -> Pair:
    """Key and value of the founding of the store."""
    return INCARNATION_KEY, _frame(_FOUNDING.pack(incarnation, founded, lowest_live_version))


def parse_incarnation(stored: bytes) -> tuple[int, int, int]:
    """(incarnation, founded, lowest live version).

    Raises:
        CorruptionError, MalformedError: see `restore`.
    """
    incarnation, founded, lowest = _unpack(INCARNATION_KEY, _FOUNDING, _open_frame(INCARNATION_KEY, stored))
    return incarnation, founded, lowest
