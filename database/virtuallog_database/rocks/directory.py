"""Directory of one replica's store.

    DIR/LOCK                            held while in use
    DIR/generation-000001/store         RocksDB
    DIR/generation-000001/checkpoints   see `checkpoints.py`
    DIR/staging/store                   see `staging_area.py`

The store is that of the highest generation. A received store becomes the next generation in one
rename. Older generations are removed then, or at the next start if a crash came in between.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import attrs
import trio

from virtuallog.contract.errors import StorageError
from virtuallog.runtime.worker import Worker
from virtuallog_database.rocks import files
from virtuallog_database.rocks.checkpoints import RocksCheckpoints
from virtuallog_database.rocks.directory_lock import lock_directory
from virtuallog_database.rocks.error_translation import guarded
from virtuallog_database.rocks.staging_area import RocksStagingArea
from virtuallog_database.rocks.store import DEFAULT, RocksStore, StoreSettings, open_database

_GENERATION: Final = re.compile(r"generation-(\d{6,})")


async def open_store_directory(path: Path, settings: StoreSettings = DEFAULT) -> RocksDirectory:
    """Open and lock `path`, which is created if missing.

    Raises:
        InvalidSettingError: another process uses it.
        StorageError: it cannot be created or opened.
    """
    worker = Worker(f"store of {path.name}")
    try:
        lock = await worker.do(lambda: guarded(lambda: lock_directory(path)))
        directory = RocksDirectory(path, settings, lock, worker)
        await worker.do(lambda: guarded(directory.clean))
    except BaseException:
        worker.stop()
        raise
    return directory


@attrs.define(eq=False)
class RocksDirectory:
    """Implements `ports.StoreDirectory`. Use `open_store_directory`."""

    _path: Path
    _settings: StoreSettings
    _lock: int
    _worker: Worker
    _generation: int = attrs.field(default=0, init=False)
    _reader: Worker = attrs.field(init=False)
    """Reads checkpoints beside the store's own jobs: a peer must not wait for a flush."""
    checkpoints: RocksCheckpoints = attrs.field(init=False)
    staging: RocksStagingArea = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._reader = Worker(f"snapshots of {self._path.name}")
        self.staging = RocksStagingArea(self._path / "staging", self._settings, self._worker, self._install)
        self.checkpoints = RocksCheckpoints(self._path, None, self._settings, self._reader)

    async def open(self) -> RocksStore:
        assert self.checkpoints.store is None or self.checkpoints.store.closed
        database = await self._worker.do(lambda: guarded(self._open))
        self.checkpoints.store = RocksStore(database, self._worker, full_buffers_max=self._settings.buffers - 2)
        return self.checkpoints.store

    async def close(self) -> None:
        with trio.CancelScope(shield=True):  # see `RocksStore.close`
            try:
                if self.checkpoints.store is not None:
                    await self.checkpoints.store.close()
            finally:
                self._reader.stop()
                self._worker.stop()
                if self._lock >= 0:
                    os.close(self._lock)
                    self._lock = -1

    def clean(self) -> None:
        """Find the current generation, and remove remains of others. Blocks; part of opening."""
        numbers = [int(match[1]) for name in files.names_in(self._path) if (match := _GENERATION.fullmatch(name))]
        self._generation = max(numbers, default=0) or 1
        for number in numbers:
            if number < self._generation:
                files.remove(self._of(number))
        self.checkpoints.directory = self._of(self._generation) / "checkpoints"
        self.checkpoints.directory.mkdir(parents=True, exist_ok=True)
        self.checkpoints.clean()
        files.sync(self._of(self._generation))
        files.sync(self._path)

    def _open(self) -> object:
        return open_database(self._of(self._generation) / "store", self._settings)

    def _install(self) -> None:
        if self.checkpoints.store is not None and not self.checkpoints.store.closed:
            raise StorageError("another store cannot take the place of one that is open")
        self.staging.directory.rename(self._of(self._generation + 1))
        files.sync(self._path)
        self.clean()

    def _of(self, generation: int) -> Path:
        return self._path / f"generation-{generation:06d}"
