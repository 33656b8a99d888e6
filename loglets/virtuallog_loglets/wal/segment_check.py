"""Check of a closed segment: every record against its checksum, a part at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.ports import File
from virtuallog_loglets.wal.core import segment_format as fmt
from virtuallog_loglets.wal.core.tail_scan import scan_part_untrusted

PART_BYTES: Final = 256 << 10
"""Bytes checked in one go: some milliseconds of the event loop if the records are tiny."""

ScrubThrottle: TypeAlias = Callable[[int], Awaitable[None]]
"""Called after so many bytes; its wait sets the pace."""


async def check_closed_untrusted(file: File, sequence: int, rest: ScrubThrottle) -> None:
    """Compare every record of a closed segment with its checksum.

    Raises:
        CorruptionError, MalformedError, StorageError: see `WriteAheadLog.check`.
    """
    ends = await file.read(0, fmt.HEADER_BYTES) + await file.read(file.size - fmt.FOOTER_BYTES, fmt.FOOTER_BYTES)
    footer = fmt.parse_footer_untrusted(ends, sequence, file.name)
    if footer is None or not fmt.is_header_untrusted(ends, sequence, file.name):
        raise CorruptionError(f"{file.name}: the header or the footer is damaged")
    at, records, length = fmt.HEADER_BYTES, 0, PART_BYTES
    while at < footer[0]:
        part = await file.read(at, min(length, footer[0] - at))
        found, stop = scan_part_untrusted(part, sequence, at)
        if found:
            at, records, length = stop, records + found, PART_BYTES
        else:
            length = _longer_untrusted(part, sequence, at, footer[0], file.name)
        await rest(len(part))
    if (at, records) != footer:
        raise CorruptionError(f"{file.name}: {records} records up to {at}, where the footer says {footer[1]}")


def _longer_untrusted(part: bytes, sequence: int, at: int, end: int, where: str) -> int:
    """Bytes to read to see a record that did not fit into `part`.

    Raises:
        CorruptionError: no such record begins here.
    """
    header = fmt.parse_record_header_untrusted(part[: fmt.RECORD_HEADER_BYTES], sequence, at)
    needed = 0 if header is None else fmt.RECORD_HEADER_BYTES + header[1]
    if not len(part) < needed <= end - at:
        raise CorruptionError(f"{where}: damaged at offset {at}, under a footer")
    return needed
