"""A store with the state of a database at a position: found, fetched or made, and played up to there.

newest compaction that is not past the position, and behind which the log is left    it is fetched
else a store in which a former attempt has played                                    it goes on
else an empty one, if the log is there from its beginning
else the newest snapshot of a server, if it is not past the position
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import attrs

from database.engines.cursor import read_cursor
from database.ports import LocalStore
from database.rocks.directory import RocksDirectory, open_store_directory
from database.snapshots.placed import PlacedSource
from pyspark_virtuallog.compact.beginning import restore_snapshot
from pyspark_virtuallog.restore.history import Tell
from pyspark_virtuallog.restore.reading import Reading
from pyspark_virtuallog.restore.sources import Found
from pyspark_virtuallog.restore.state import install, play_up_to
from virtuallog.errors import InvalidSettingError
from virtuallog.instruments import Counter
from virtuallog.ports import Clock
from virtuallog.types import LogPosition
from virtuallog.virtual_log import VirtualLog

NAME: Final = "restore"
"""Of who is given a snapshot of a server."""
MARK: Final = "restored-from"
"""A file beside a store: whose state is in it. A store does not say, and played with the log of another one it would be neither's."""


@attrs.frozen(kw_only=True)
class Stores:
    """Makes them.

    Args:
        found: what there is.
        log: the log itself, if it is there.
        clock: for how long to wait.
        open_reading: of a range of the log; refuses one that is not covered.
        tell: of progress.
    """

    found: Found
    log: VirtualLog | None
    clock: Clock
    open_reading: Callable[[int, int], Reading]
    tell: Tell

    @asynccontextmanager
    async def open(self, path: Path, position: LogPosition) -> AsyncIterator[tuple[LocalStore, int]]:
        """A store at the position, durable, in a directory that is new or that a former attempt has left; and the wall-clock time of
        its last entry in milliseconds, 0 if nobody knows.

        Raises:
            InvalidSettingError: the log is not there that it takes; or the directory has something else, or is past the position.
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
            await directory.close()

    def _mark(self, path: Path) -> None:
        mark, cluster = path / MARK, self.found.cluster.hex()
        if not path.exists() or not any(path.iterdir()):
            path.mkdir(parents=True, exist_ok=True)
            mark.write_text(cluster)
        elif not mark.exists() or mark.read_text() != cluster:
            raise InvalidSettingError("store", f"{path} has something else than a restored store of cluster {cluster}")

    async def _begin(self, directory: RocksDirectory, position: LogPosition) -> tuple[PlacedSource | None, Reading]:
        """What the store begins with, if that is a compaction, and what is to be played."""
        cursor = await _cursor(directory)
        for at, place in sorted(self.found.compactions, key=lambda pair: -pair[0]):
            if cursor < at <= position:
                with suppress(InvalidSettingError):  # the log behind it is gone; perhaps not behind an older one
                    reading = self.open_reading(at, position)
                    self.tell("fetching", at)
                    manifest = await place.read(self.found.cluster, at)
                    fetched = Counter("restore_fetched_bytes", "Bytes of compactions.")
                    base = PlacedSource(place=place, manifest=manifest, clock=self.clock, fetched=fetched)
                    await install(directory, base)
                    return base, reading
        try:
            return None, self.open_reading(cursor, position)
        except InvalidSettingError:
            if self.log is None or cursor > 0:
                raise
            await restore_snapshot(directory, self.log, NAME)
            cursor = await _cursor(directory)
            if cursor > position:
                raise
            return None, self.open_reading(cursor, position)


async def _cursor(directory: RocksDirectory) -> LogPosition:
    store = await directory.open()
    try:
        return read_cursor(store)
    finally:
        await store.close()
