"""Start of a compaction: a store to play into, and the state it is based on.

In this order:

* The store of a former run, if chunks lead to it: it is continued.
* The newest compaction, if the log still has what follows.
* An empty store, if the log begins at its beginning.
* A snapshot of a server, which is written as one chunk: the first compaction of a log that was
  trimmed before.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from pyspark_virtuallog.compact.chunks import Chunk, chain, chunks
from pyspark_virtuallog.compact.cleanup import remove_chunks
from pyspark_virtuallog.compact.replay import ChunkReplay
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.metrics import Counter
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core.keys import read_cursor
from virtuallog_database.engines.stack import KNOWN
from virtuallog_database.ports import LocalStore
from virtuallog_database.rocks import RocksDirectory, open_store_directory
from virtuallog_database.snapshots.compaction_manifest import Manifest
from virtuallog_database.snapshots.compaction_source import CompactionSource
from virtuallog_database.snapshots.compaction_store import CompactionStore
from virtuallog_database.snapshots.played_store import install, install_newest_snapshot
from virtuallog_loglets.archive.drivers.files import Files

NAME: Final = "compaction"
"""Name of the hold that keeps the log for compactions, and of the replica name used to restore a
snapshot for them."""


@attrs.define(eq=False)
class StartState:
    """Start of a compaction."""

    directory: RocksDirectory
    """Directory of the store; to be closed when all is played."""
    store: LocalStore
    base: Manifest | None
    """The compaction to merge over. None if the chunks begin at 0."""

    @property
    def needed(self) -> LogPosition:
        """Position from which on the log must stay: even if the store is lost, the base is there."""
        return self.base.position if self.base is not None else read_cursor(self.store)

    async def close(self) -> None:
        """Close the store, and with it the directory."""
        await self.directory.close()


async def begin(log: VirtualLog, place: CompactionStore, files: Files, path: Path) -> StartState:
    """Find or make the start state.

    Args:
        log: log of the cluster; its services must know `SNAPSHOTS`.
        place: location of compactions.
        files: files of chunks.
        path: private directory of the store. Its content is removed if it cannot be used.

    Raises:
        UnavailableError: the log was trimmed, and no server gave a snapshot in time.
        BinaryTooOldError: the last compaction was made by a later program.
        VirtualLogError: as `Files`, and of the disk.
    """
    cluster = (await log.view.current()).cluster
    trim_point = await log.find_trim_point()
    base = await place.newest(cluster)
    if base is not None:
        base.check(cluster, KNOWN)
        # Effects are merged over tables; a backup, or a state that was restored without Spark, has none.
        base = base if base.position >= trim_point and base.tables else None
    directory = await open_store_directory(path)
    try:
        store = await directory.open()
        cursor = read_cursor(store)
        continued = is_continued(chunks(await files.list()), base, cursor, trim_point)
        if continued:
            # The chunks behind the store are written again, perhaps in other pieces.
            await remove_chunks(files, lambda chunk: chunk.stop > cursor)
    except BaseException:  # also if cancelled: otherwise the directory stays locked while the process lives
        with trio.CancelScope(shield=True):
            await directory.close()
        raise
    if continued:
        return StartState(directory, store, base)
    await directory.close()
    return await _begin_anew(log, place, files, path, base, trim_point)


def is_continued(found: Sequence[Chunk], base: Manifest | None, cursor: int, trim_point: int) -> bool:
    """True if a store at `cursor` can continue: everything between the base and the store is in
    chunks, and what follows is in the log."""
    start = base.position if base is not None else 0
    return cursor >= max(start, trim_point) and chain(found, start, cursor) is not None


async def _begin_anew(
    log: VirtualLog, place: CompactionStore, files: Files, path: Path, base: Manifest | None, trim_point: LogPosition
) -> StartState:
    await remove_chunks(files, lambda chunk: True)
    shutil.rmtree(path)
    directory = await open_store_directory(path)
    try:
        if base is not None:
            fetched, clock = Counter("compaction_fetched", "Bytes of the base."), log.view.environment.clock
            await install(directory, CompactionSource(place=place, manifest=base, clock=clock, fetched=fetched))
        elif trim_point > 0:
            await install_newest_snapshot(directory, log, NAME)
        store = await directory.open()
        if base is None and trim_point > 0:
            await ChunkReplay(log, store, files).dump()
    except BaseException:  # also if cancelled: otherwise the directory stays locked while the process lives
        with trio.CancelScope(shield=True):
            await directory.close()
        raise
    return StartState(directory, store, base)
