"""A log of any length of which nothing has to be kept, and archives of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import PlacedBatch
from virtuallog_loglets.archive.creation.copied_history import copy_history
from virtuallog_loglets.archive.creation.data_files import DataFileSizes
from virtuallog_loglets.archive.creation.executor import SerialExecutor
from virtuallog_loglets.archive.creation.segment_source import ReadableSegment

FORMER = b"f" * 16
BATCH = 50
SIZES = DataFileSizes(group_bytes=8 << 10, file_bytes=64 << 10)


class MadeUp:
    """Batches of 50 entries, `entry N` at position N, from the beginning to any position that is
    read."""

    async def read(self, start: int, stop: int) -> Sequence[Placed]:
        first = start - start % BATCH
        whole = [self._batch(at) for at in range(first, min(stop, first + 20 * BATCH), BATCH)]
        return [part for batch in whole if (part := batch.clip(start, stop)) is not None]

    def _batch(self, at: int) -> PlacedBatch:
        batch = Batch.build(SessionId(b"s" * 16), at, [b"entry %d" % (at + index) for index in range(BATCH)])
        return PlacedBatch(range(at, at + BATCH), batch, 1_000 + at, 0)


async def archived(log: ReadableSegment, place: Path, start: int, stop: int) -> None:
    """An archive of the former cluster, at a place."""
    await copy_history(
        lambda _, files: SerialExecutor(log, files, SIZES),
        f"file://{place}",
        FORMER,
        start,
        stop,
        lambda what, at: None,
    )
