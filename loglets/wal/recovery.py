"""From the files of a log to a log that can be continued: check the sequence, replay, cut the torn tail.

The order of work is chosen so that a crash at any point of a recovery leaves a log that recovers the same way.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import attrs

from loglets.wal import format as fmt
from loglets.wal.scan import (
    Scanned,
    Visit,
    has_begun_untrusted,
    is_zero,
    nonzero_end,
    scan_closed_untrusted,
    scan_last_untrusted,
)
from loglets.wal.segment import Segment
from virtuallog.crash_points import CrashPoint
from virtuallog.errors import CorruptionError
from virtuallog.ports import File, Storage

_ZEROS: Final = bytes(1 << 20)

_FOUND = CrashPoint("wal: a recovery has read everything, the tail is not cut")
_CUT = CrashPoint("wal: a recovery has cut the tail, nothing is served")


@attrs.frozen(kw_only=True)
class Recovered:
    """What `recover` found."""

    sizes: dict[int, int]
    """Size of each segment file that has begun, by sequence, ascending."""
    active: tuple[File, Segment] | None
    """The last segment, if it can be continued."""
    spare: File | None
    """The zero-filled segment after the last, if there is one."""
    next_sequence: int
    """Sequence of the first segment that has not begun."""


async def recover(storage: Storage, segment_bytes: int, visit: Visit) -> Recovered:
    """Visit every record in order. On return all of them are durable, and zeros follow the last one.

    Raises:
        CorruptionError, MalformedError, StorageError: see `WriteAheadLog.open`.
    """
    sequences = _consecutive([fmt.sequence_in(name) for name in await storage.names()])
    spare = await _set_aside_unbegun(storage, sequences, segment_bytes)
    sizes: dict[int, int] = {}
    active = None
    for sequence in sequences:
        file, image = await _load(storage, sequence)
        sizes[sequence] = len(image)
        if sequence != sequences[-1]:
            scan_closed_untrusted(image, sequence, file.name, visit)
            await file.close()
            continue
        scanned = scan_last_untrusted(image, sequence, file.name, visit)
        active = await _continue_last(file, image, sequence, scanned)
    next_sequence = sequences[-1] + 1 if sequences else 1
    return Recovered(sizes=sizes, active=active, spare=spare, next_sequence=next_sequence)


def _consecutive(found: list[int | None]) -> list[int]:
    sequences = sorted(sequence for sequence in found if sequence is not None)
    for before, after in pairwise(sequences):
        if after != before + 1:
            raise CorruptionError(f"segments are missing between {fmt.name_of(before)} and {fmt.name_of(after)}")
    return sequences


async def _set_aside_unbegun(storage: Storage, sequences: list[int], segment_bytes: int) -> File | None:
    """Take the segments that never began off the end of `sequences`; the lowest is the spare if it is as good as new.

    Others are removed, the last one first, so that what is left is consecutive: what a torn first group left in them
    must not be read as records later.
    """
    spare = None
    while sequences:
        file, image = await _load(storage, sequences[-1])
        if has_begun_untrusted(image, sequences[-1], file.name):
            await file.close()
            break
        if spare is not None:
            await _remove(storage, spare)
        sequence, spare = sequences.pop(), file
        if not sequences and sequence != 1:
            raise CorruptionError(f"{file.name} has never been used, but the segments before it are missing")
        if len(image) != segment_bytes or not is_zero(image, 0, len(image)):
            await _remove(storage, file)
            spare = None
    return spare


async def _remove(storage: Storage, file: File) -> None:
    await file.close()
    await storage.remove(file.name)


async def _load(storage: Storage, sequence: int) -> tuple[File, bytes]:
    file = await storage.open(fmt.name_of(sequence))
    return file, await file.read(0, file.size)


async def _continue_last(file: File, image: bytes, sequence: int, scanned: Scanned) -> tuple[File, Segment] | None:
    """Make what has been read durable and, in a segment that goes on, cut the torn tail.

    What a killed process wrote may be readable and not durable, and a sync that failed before is not made good by a
    new one: so the bytes that no later write vouches for are written again. A crash in the middle changes nothing: the
    same bytes are written over themselves, and a tail that is partly zeros is still torn.
    """
    size = len(image)
    if scanned.closed:
        await file.write_synced(size - fmt.FOOTER_BYTES, [image[size - fmt.FOOTER_BYTES :]])
        await file.close()
        return None
    torn = nonzero_end(image, scanned.end, size) - scanned.end
    zeros = [_ZEROS[: min(len(_ZEROS), torn - at)] for at in range(0, torn, len(_ZEROS))]
    _FOUND.reached()
    await file.write_synced(scanned.last_group, [image[scanned.last_group : scanned.end], *zeros])
    _CUT.reached()
    return file, Segment(sequence=sequence, size=size, end=scanned.end, synced=scanned.end, records=scanned.records)
