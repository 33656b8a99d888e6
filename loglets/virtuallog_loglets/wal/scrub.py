"""Reads what nobody reads: closed segments are checked slowly, in the background, so that rot is found while other copies
still exist.

Right after a recovery it checks those that the recovery did not read, later all of them now and then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from virtuallog.contract.errors import CorruptionError, TrimmedError
from virtuallog.contract.ports import Clock, File
from virtuallog_loglets.wal.core import segment_format as fmt
from virtuallog_loglets.wal.core.scan import scan_part_untrusted

if TYPE_CHECKING:
    from virtuallog_loglets.wal.log import WriteAheadLog

PART_BYTES: Final = 256 << 10
"""Checked in one go: some milliseconds of the event loop, if the records are tiny."""
BYTES_PER_SECOND: Final = 8 << 20
"""A gigabyte in two minutes. Costs a few percent of one core, and less than that of any disk."""
PAUSE_SECONDS: Final = 6 * 3600.0
"""Between two looks at everything. Disks rot within months, and every read checks what it reads."""

ScrubThrottle: TypeAlias = Callable[[int], Awaitable[None]]
"""Called after so many bytes: sets the pace."""


async def scrub(wal: WriteAheadLog, clock: Clock) -> None:
    """Check for ever.

    Raises:
        CorruptionError: a closed segment is not as it was written.
        MalformedError: likewise, or somebody else has written there.
        StorageError: the disk cannot be read.
    """

    async def rest(size: int) -> None:
        await clock.sleep(size / BYTES_PER_SECOND)

    for sequence in wal.unread:
        await _check(wal, sequence, rest)
    while True:
        await clock.sleep(PAUSE_SECONDS)
        for sequence in wal.closed:
            await _check(wal, sequence, rest)


async def _check(wal: WriteAheadLog, sequence: int, rest: ScrubThrottle) -> None:
    try:
        await wal.check(sequence, rest)
    except TrimmedError:  # its turn came too late
        return


async def check_closed_untrusted(file: File, sequence: int, rest: ScrubThrottle) -> None:
    """Compare every record of a closed segment with its checksum.

    Raises:
        CorruptionError, MalformedError, StorageError: see `scrub`.
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
    """How much must be read to see a record that did not fit into `part`.

    Raises:
        CorruptionError: no such record begins here.
    """
    header = fmt.parse_record_header_untrusted(part[: fmt.RECORD_HEADER_BYTES], sequence, at)
    needed = 0 if header is None else fmt.RECORD_HEADER_BYTES + header[1]
    if not len(part) < needed <= end - at:
        raise CorruptionError(f"{where}: damaged at offset {at}, under a footer")
    return needed
