"""Scan of a segment image: its records, their end, and whether that end is torn or corrupt.

A bad spot is where no valid record begins. In a segment that was closed, or that has a successor,
every bad spot is corruption. In the last one it is the normal end (zeros), a torn tail (a group
that was being written when power was lost, so it was never acknowledged), or corruption. It is
certainly corruption if a valid record behind it says that the bad spot had been synced.

Danger: damage to the very last group of a log cannot be told from a torn tail, because nothing
behind it says that it had been synced. So rot in the newest group, found at a restart, silently
removes acknowledged records. A user that cannot accept this keeps more than one copy. The next
group, which any write brings, ends that state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import attrs
from crc32c import crc32c

from virtuallog.contract.errors import CorruptionError
from virtuallog_loglets.wal.core import segment_format as fmt
from virtuallog_loglets.wal.core.record import Address, WalRecord, address_of

_BLOCK: Final = 1 << 20
_ZEROS: Final = bytes(_BLOCK)


RecordVisitor: TypeAlias = Callable[[Address, WalRecord], None]


@attrs.frozen(kw_only=True)
class ScanResult:
    """Content of a segment."""

    records: int
    end: int
    """One past the last valid record."""
    last_group: int
    """Offset where the last group begins: everything below has surely been synced."""
    closed: bool = False
    """True if it has a footer."""


def has_begun_untrusted(image: bytes, sequence: int, where: str) -> bool:
    """True if the first group of a segment was ever whole enough to build upon. Asked of the last
    segment, then the one before.

    A segment begins with one group: header, snapshot, first records. Without the whole snapshot
    nothing in it was acknowledged, and it must not be continued: the segments before, which do hold
    that state, would be dropped one day.

    Raises:
        CorruptionError: its beginning is damaged, and had been durable.
        MalformedError: another version.
    """
    if is_zero(image, fmt.HEADER_BYTES, len(image)):
        return False  # zeros, or what a failed write has left of a header: no group is as short
    if is_zero(image, 0, min(len(image), fmt.HEADER_BYTES)):
        _require_torn(image, sequence, 0, where)
        return False
    snapshot_end = fmt.parse_header_untrusted(image, sequence, where)
    end = _scan_records(image, sequence, snapshot_end, _ignore).end
    if end < snapshot_end:
        _require_torn(image, sequence, end, where)
    return end == snapshot_end


def scan_closed_untrusted(image: bytes, sequence: int, where: str, visit: RecordVisitor) -> ScanResult:
    """Visit the records of a segment that has a successor.

    Raises:
        CorruptionError: anything in it is not as it was written.
        MalformedError: another version.
    """
    fmt.parse_header_untrusted(image, sequence, where)
    footer = fmt.parse_footer_untrusted(image, sequence, where)
    if footer is None:
        raise CorruptionError(f"{where}: no valid footer at offset {len(image) - fmt.FOOTER_BYTES}")
    return _scan_footed(image, sequence, footer, where, visit)


def scan_last_untrusted(image: bytes, sequence: int, where: str, visit: RecordVisitor) -> ScanResult:
    """Visit the records of the last segment that has begun, up to its end or its torn tail.

    Raises:
        CorruptionError: a bad spot in what had been synced.
        MalformedError: another version.
    """
    fmt.parse_header_untrusted(image, sequence, where)
    footer = fmt.parse_footer_untrusted(image, sequence, where)
    if footer is not None:
        return _scan_footed(image, sequence, footer, where, visit)
    scanned = _scan_records(image, sequence, len(image) - fmt.FOOTER_BYTES, visit)
    _require_torn(image, sequence, scanned.end, where)
    return scanned


def is_zero(image: bytes, start: int, stop: int) -> bool:
    return nonzero_end(image, start, stop) == start


def nonzero_end(image: bytes, start: int, stop: int) -> int:
    """One past the last byte of [start, stop) that is not zero; `start` if all are."""
    at = stop
    while at > start:
        low = max(start, at - _BLOCK)
        block = image[low:at]
        if block != _ZEROS[: at - low]:
            return low + len(block.rstrip(b"\0"))
        at = low
    return start


def _scan_footed(image: bytes, sequence: int, footer: tuple[int, int], where: str, visit: RecordVisitor) -> ScanResult:
    scanned = _scan_records(image, sequence, len(image) - fmt.FOOTER_BYTES, visit)
    if (scanned.end, scanned.records) != footer:
        raise CorruptionError(
            f"{where}: damaged at offset {scanned.end}, under a footer: {footer[1]} records were written up to "
            f"{footer[0]}, {scanned.records} are whole"
        )
    return attrs.evolve(scanned, closed=True)


def scan_part_untrusted(part: bytes, sequence: int, at: int) -> tuple[int, int]:
    """Number of whole, valid records at the beginning of `part`, which lies at offset `at`, and the
    offset behind them."""
    unpack, checked, size = fmt.RECORD.unpack_from, fmt.RECORD_CHECKED_BYTES, fmt.RECORD_HEADER_BYTES
    salt, view, here, records = fmt.salt_of(sequence), memoryview(part), 0, 0
    while (start := here + size) <= len(part):
        marker, _kind, length, payload_checksum, _synced, checksum = unpack(part, here)
        if marker != fmt.MARKER or crc32c(view[here : here + checked], salt ^ (at + here)) != checksum:
            break
        if start + length > len(part) or crc32c(view[start : start + length]) != payload_checksum:
            break
        records += 1
        here = start + length
    return records, at + here


def _scan_records(image: bytes, sequence: int, stop: int, visit: RecordVisitor) -> ScanResult:
    """Visit all valid records below `stop`. Recovery time depends on this one loop: little Python
    per record."""
    unpack, checked, size = fmt.RECORD.unpack_from, fmt.RECORD_CHECKED_BYTES, fmt.RECORD_HEADER_BYTES
    salt, base, view = fmt.salt_of(sequence), address_of(sequence, 0), memoryview(image)
    at, last_group, records = fmt.HEADER_BYTES, 0, 0
    while (start := at + size) <= stop:
        marker, kind, length, payload_checksum, synced, checksum = unpack(image, at)
        if marker != fmt.MARKER or crc32c(view[at : at + checked], salt ^ at) != checksum:
            break
        end = start + length
        payload = image[start:end]
        if end > stop or crc32c(payload) != payload_checksum:
            break
        visit(Address(base | at), WalRecord(kind, payload))
        records += 1
        last_group, at = synced, end
    return ScanResult(records=records, end=at, last_group=last_group)


def _require_torn(image: bytes, sequence: int, bad: int, where: str) -> None:
    """Raise CorruptionError if something behind the bad spot proves that the spot had been synced."""
    if len(image) < fmt.SEGMENT_BYTES_MIN:
        return
    if fmt.parse_footer_untrusted(image, sequence, where) is not None:
        raise CorruptionError(f"{where}: damaged at offset {bad}, under a footer")
    salt, checked, at = fmt.salt_of(sequence), fmt.RECORD_CHECKED_BYTES, bad
    stop = nonzero_end(image, bad, len(image) - fmt.FOOTER_BYTES)
    while (at := image.find(fmt.MARKER, at, stop)) >= 0 and at + fmt.RECORD_HEADER_BYTES <= len(image):
        *_, synced, checksum = fmt.RECORD.unpack_from(image, at)
        if synced > bad and crc32c(image[at : at + checked], salt ^ at) == checksum:
            raise CorruptionError(f"{where}: damaged at offset {bad}; it had been synced before the record at {at}")
        at += 1


def _ignore(_address: Address, _record: WalRecord) -> None:
    pass
