"""Stores with the state of a database at a position: found, fetched or made, and played up to
there.

In this order:

* The newest compaction that is not past the position, and behind which the log is left: it is
  fetched; a damaged one is skipped.
* A store in which a former attempt has played: it is continued.
* An empty one, if the log is there from its beginning.
* The newest snapshot of a server, if it is not past the position.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import trio

from pyspark_virtuallog.restore.range_reader import RangeReader
from pyspark_virtuallog.restore.sources import LogSources
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import CorruptionError, InvalidSettingError, UnavailableError, VirtualLogError
from virtuallog.contract.metrics import Counter
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import LogPosition
from virtuallog.runtime import log
from virtuallog_database.engines.core.keys import read_cursor
from virtuallog_database.engines.stack import KNOWN
from virtuallog_database.errors import BinaryTooOldError
from virtuallog_database.ports import LocalStore
from virtuallog_database.rocks.directory import RocksDirectory, open_store_directory
from virtuallog_database.snapshots.compaction_source import CompactionSource
from virtuallog_database.snapshots.compaction_store import CompactionStore
from virtuallog_database.snapshots.played_store import install, install_newest_snapshot, play_up_to
from virtuallog_loglets.archive.creation.copied_history import Tell

NAME: Final = "restore"
"""Replica name used to fetch a server's snapshot."""
MARK: Final = "restored-from"
"""A file beside a store with the cluster of its state. The store itself does not say, and played
with another cluster's log it would be neither's."""


@attrs.frozen(kw_only=True)
class Stores:
    """Makes stores.

    Args:
        found: the sources.
        log: the log itself. None if it is gone.
        clock: clock for timeouts.
        open_reading: opens a range of the log; refuses one that is not covered.
        tell: progress callback.
    """

    found: LogSources
    log: VirtualLog | None
    clock: Clock
    open_reading: Callable[[int, int], RangeReader]
    tell: Tell

    @asynccontextmanager
    async def open(self, path: Path, position: LogPosition) -> AsyncIterator[tuple[LocalStore, int]]:
        """A durable store at the position, in a new directory or in that of a former attempt; and
        the wall-clock time of its last entry in milliseconds, 0 if unknown.

        Raises:
            InvalidSettingError: a needed part of the log is missing; or the directory has something
                else, or is past the position.
            VirtualLogError: as the sources, and of the disk.
        """
        self._mark(path)
        directory = await open_store_directory(path)
        try:
            base, reading = await self._begin(directory, position)
            store = await directory.open()
            played = await play_up_to(store, reading, position, partial(self.tell, "playing"))
            yield store, played or (base.manifest.time_ms if base is not None else 0)
        finally:
            with trio.CancelScope(
                shield=True
            ):  # ends soon; otherwise the directory stays locked while the process lives
                await directory.close()

    def check(self, position: LogPosition) -> None:
        """Check that there is any way to the position, as far as that shows without a store.

        Raises:
            InvalidSettingError: a needed part of the log is missing.
        """
        if any(self._is_covered(at, position) for at, _ in self.found.compactions if at <= position):
            return
        try:
            self.open_reading(0, position)
        except InvalidSettingError:
            if self.log is None:  # otherwise a server may have a snapshot
                raise

    def _is_covered(self, start: LogPosition, stop: LogPosition) -> bool:
        with suppress(InvalidSettingError):
            self.open_reading(start, stop)
            return True
        return False

    def _mark(self, path: Path) -> None:
        mark, beside, cluster = path / MARK, path / f".{MARK}", self.found.cluster.hex()
        beside.unlink(missing_ok=True)  # from a process that was killed while writing it
        if not path.exists() or not any(path.iterdir()):
            path.mkdir(parents=True, exist_ok=True)
            beside.write_text(cluster)
            beside.replace(mark)
        elif not mark.exists() or mark.read_text() != cluster:
            raise InvalidSettingError("store", f"{path} has something else than a restored store of cluster {cluster}")

    async def _begin(
        self, directory: RocksDirectory, position: LogPosition
    ) -> tuple[CompactionSource | None, RangeReader]:
        """The compaction that the store begins with (None if there is none), and the range to play."""
        cursor = await _cursor(directory)
        failure: VirtualLogError | None = None
        for at, place in sorted(self.found.compactions, key=lambda pair: -pair[0]):
            # The log behind it may be gone; perhaps not behind an older one.
            if cursor < at <= position and self._is_covered(at, position):
                try:
                    return await self._fetch(directory, place, at), self.open_reading(at, position)
                except (CorruptionError, UnavailableError, BinaryTooOldError) as error:
                    log.warning("a compaction cannot be used", position=at, place=place.url, reason=str(error))
                    failure = failure or error
        try:
            return None, self.open_reading(cursor, position)
        except InvalidSettingError as error:
            if self.log is None or cursor > 0:
                raise failure or error from error
            await install_newest_snapshot(directory, self.log, NAME)
            cursor = await _cursor(directory)
            if cursor > position:
                raise
            return None, self.open_reading(cursor, position)

    async def _fetch(self, directory: RocksDirectory, place: CompactionStore, at: LogPosition) -> CompactionSource:
        self.tell("fetching", at)
        manifest = await place.read(self.found.cluster, at)
        manifest.check(self.found.cluster, KNOWN)
        fetched = Counter("restore_fetched_bytes", "Bytes of compactions.")
        base = CompactionSource(place=place, manifest=manifest, clock=self.clock, fetched=fetched)
        await install(directory, base)
        return base


async def _cursor(directory: RocksDirectory) -> LogPosition:
    store = await directory.open()
    try:
        return read_cursor(store)
    finally:
        await store.close()
