"""Recovery: checks the sequence of a log's files, replays them and cuts the torn tail, so that the
log can go on. `core/tail_scan.py` tells a torn tail from damage.

The order of steps is chosen so that a crash at any point of a recovery leaves a log that recovers
the same way.

A closed segment that has an index is not read. Its footer says that all of it had been synced, and
its user takes the index for its records. Damage in it is found by readers of its records, and by
`WriteAheadLog.check`. The last segment is always read.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, TypeAlias

import attrs

from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.ports import File, Storage
from virtuallog_loglets.wal.core import index_format
from virtuallog_loglets.wal.core import segment_format as fmt
from virtuallog_loglets.wal.core.segment import Segment
from virtuallog_loglets.wal.core.tail_scan import (
    RecordVisitor,
    ScanResult,
    has_begun_untrusted,
    is_zero,
    nonzero_end,
    scan_closed_untrusted,
    scan_last_untrusted,
)
from virtuallog_loglets.wal.index_writer import IndexedState, restored_untrusted

Footer: TypeAlias = tuple[int, int]
"""(end, number of records) of a closed segment."""

_ZEROS: Final = bytes(1 << 20)

_FOUND = CrashPoint("wal: a recovery has read everything, the tail is not cut")
_CUT = CrashPoint("wal: a recovery has cut the tail, nothing is served")


@attrs.frozen(kw_only=True)
class RecoveredLog:
    """Result of `recover_log`."""

    sizes: dict[int, int]
    """Size of each segment file that has begun, by sequence, ascending."""
    active: tuple[File, Segment] | None
    """The last segment and its file; None if it cannot be continued."""
    spare: File | None
    """The zero-filled segment after the last; None if there is none."""
    next_sequence: int
    """Sequence of the first segment that has not begun."""
    without_index: list[tuple[int, Footer]]
    """Closed segments that have been read because they have no index."""
    unread: list[int]
    """Closed segments for which an index stood."""


async def recover_log(
    storage: Storage, segment_bytes: int, visit: RecordVisitor, indexes: IndexedState | None = None
) -> RecoveredLog:
    """Visit every record in order, or have the index of its segment restored.

    On return all of them are durable, and zeros follow the last one.

    Raises:
        CorruptionError, MalformedError, StorageError: see `WriteAheadLog.open`.
    """
    names = await storage.names()
    sequences = _consecutive([fmt.sequence_in(name) for name in names])
    spare, last = await _set_aside_unbegun(storage, sequences, segment_bytes)
    await _remove_orphans(storage, names, sequences)
    next_sequence = sequences[-1] + 1 if sequences else 1
    found = RecoveredLog(sizes={}, active=None, spare=spare, next_sequence=next_sequence, without_index=[], unread=[])
    for sequence in sequences[:-1]:
        await _recover_closed(storage, names, sequence, visit, indexes, found)
    if last is None:
        return found
    file, image = last
    found.sizes[sequences[-1]] = len(image)
    scanned = scan_last_untrusted(image, sequences[-1], file.name, visit)
    active = await _continue_last(file, image, sequences[-1], scanned)
    if scanned.closed:
        found.without_index.append((sequences[-1], (scanned.end, scanned.records)))
    return attrs.evolve(found, active=active)


async def _recover_closed(
    storage: Storage,
    names: list[str],
    sequence: int,
    visit: RecordVisitor,
    indexes: IndexedState | None,
    found: RecoveredLog,
) -> None:
    """Recover one segment that has a successor."""
    file = await storage.open(fmt.name_of(sequence))
    found.sizes[sequence] = file.size
    try:
        footer = await _footer_untrusted(file, sequence) if indexes is not None else None
        if footer and indexes and await restored_untrusted(storage, names, sequence, footer, indexes):
            found.unread.append(sequence)
            return
        scanned = scan_closed_untrusted(await file.read(0, file.size), sequence, file.name, visit)
        found.without_index.append((sequence, (scanned.end, scanned.records)))
    finally:
        await file.close()


async def _footer_untrusted(file: File, sequence: int) -> Footer | None:
    """The footer of a segment whose header is sound as well. None if anything is wrong: reading all
    of it will say what."""
    if file.size < fmt.SEGMENT_BYTES_MIN:
        return None
    ends = await file.read(0, fmt.HEADER_BYTES) + await file.read(file.size - fmt.FOOTER_BYTES, fmt.FOOTER_BYTES)
    footer = fmt.parse_footer_untrusted(ends, sequence, file.name)
    if not fmt.is_header_untrusted(ends, sequence, file.name):
        return None
    return footer


async def _remove_orphans(storage: Storage, names: list[str], sequences: list[int]) -> None:
    """Remove indexes whose segment is gone: a crash came between the two, or they were written
    while it was dropped."""
    for name in names:
        sequence = index_format.sequence_in(name)
        if sequence is not None and sequence not in sequences[:-1]:
            await storage.remove(name)


def _consecutive(found: list[int | None]) -> list[int]:
    sequences = sorted(sequence for sequence in found if sequence is not None)
    for before, after in pairwise(sequences):
        if after != before + 1:
            raise CorruptionError(f"segments are missing between {fmt.name_of(before)} and {fmt.name_of(after)}")
    return sequences


async def _set_aside_unbegun(
    storage: Storage, sequences: list[int], segment_bytes: int
) -> tuple[File | None, tuple[File, bytes] | None]:
    """Take the segments that never began off the end of `sequences`. The lowest is the spare if it
    is as good as new.

    The others are removed, the last one first, so that what is left is consecutive. The remains of
    a torn first group in them must not be read as records later.

    Returns the spare, and the last segment that has begun with its bytes.
    """
    spare = None
    while sequences:
        file, image = await _load(storage, sequences[-1])
        if has_begun_untrusted(image, sequences[-1], file.name):
            return spare, (file, image)
        if spare is not None:
            await _remove(storage, spare)
        sequence, spare = sequences.pop(), file
        if not sequences and sequence != 1:
            raise CorruptionError(f"{file.name} has never been used, but the segments before it are missing")
        if len(image) != segment_bytes or not is_zero(image, 0, len(image)):
            await _remove(storage, file)
            spare = None
    return spare, None


async def _remove(storage: Storage, file: File) -> None:
    await file.close()
    await storage.remove(file.name)


async def _load(storage: Storage, sequence: int) -> tuple[File, bytes]:
    file = await storage.open(fmt.name_of(sequence))
    return file, await file.read(0, file.size)


async def _continue_last(file: File, image: bytes, sequence: int, scanned: ScanResult) -> tuple[File, Segment] | None:
    """Make everything read durable and, in a segment that goes on, cut the torn tail.

    What a killed process wrote may be readable but not durable, and a new sync does not make up for
    one that failed. So the bytes that no later write vouches for are written again. A crash in the
    middle changes nothing: the same bytes are written over themselves, and a tail that is partly
    zeros is still torn.
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
