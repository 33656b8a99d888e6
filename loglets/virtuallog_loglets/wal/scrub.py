"""Scrub: slow background check of closed segments, so that rot is found while other copies still
exist.

Right after a recovery it checks the segments that the recovery did not read; later all of them now
and then.
"""

from __future__ import annotations

from typing import Final

from virtuallog.contract.errors import TrimmedError
from virtuallog.contract.ports import Clock
from virtuallog_loglets.wal.log import WriteAheadLog
from virtuallog_loglets.wal.segment_check import ScrubThrottle

BYTES_PER_SECOND: Final = 8 << 20
"""Pace of the check: a gigabyte in two minutes. Costs a few percent of one core, and less of any disk."""
PAUSE_SECONDS: Final = 6 * 3600.0
"""Seconds between two checks of everything. Disks rot within months, and every read checks what it reads."""


async def scrub(wal: WriteAheadLog, clock: Clock) -> None:
    """Check for ever.

    Raises:
        CorruptionError: a closed segment is not as it was written.
        MalformedError: likewise, or another program has written there.
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
    except TrimmedError:  # dropped before its turn
        return
