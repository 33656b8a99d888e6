"""Staging area: files of a received checkpoint that will become the store.

They are in `staging/store`. Once they are complete, durable and read through, `staging` is renamed
to the next generation. After that one step the former store is garbage.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import attrs

from virtuallog.contract.errors import CorruptionError, DiskFullError
from virtuallog.runtime.worker import Worker
from virtuallog_database.ports import CheckpointFile
from virtuallog_database.rocks import files
from virtuallog_database.rocks.checkpoint_listing import check_name_untrusted
from virtuallog_database.rocks.error_translation import guarded, translated
from virtuallog_database.rocks.store import StoreSettings, open_database


@attrs.define(eq=False)
class RocksStagingArea:
    """Implements `ports.StagingArea`."""

    directory: Path
    _settings: StoreSettings
    _worker: Worker
    _installed: Callable[[], None]
    """Puts `directory` in the place of the store. Blocks."""

    @property
    def _store(self) -> Path:
        return self.directory / "store"

    async def files(self) -> list[CheckpointFile]:
        def describe() -> list[CheckpointFile]:
            return [files.described(self._store / name) for name in files.names_in(self._store)]

        return await self._worker.do(lambda: guarded(describe))

    async def write(self, file: str, offset: int, content: bytes) -> None:
        path = self._store / check_name_untrusted(file)

        def write() -> None:
            self._store.mkdir(parents=True, exist_ok=True)
            # The rest is for the log, which may be on this disk: without the log nothing goes on
            # anywhere.
            if shutil.disk_usage(self._store).free < self._settings.headroom_bytes + len(content):
                raise DiskFullError("too little is free on the disk for a snapshot")
            files.write_at(path, offset, content)

        await self._worker.do(lambda: guarded(write))

    async def remove(self, file: str) -> None:
        path = self._store / check_name_untrusted(file)
        await self._worker.do(lambda: guarded(lambda: files.remove(path)))

    async def clear(self) -> None:
        await self._worker.do(lambda: guarded(lambda: files.remove(self.directory)))

    async def install(self) -> None:
        await self._worker.do(lambda: guarded(self._install))

    def _install(self) -> None:
        if "CURRENT" not in files.names_in(
            self._store
        ):  # otherwise RocksDB would report that it cannot be opened for reading
            raise CorruptionError("what was received is no store")
        try:
            read_through(self._store, self._settings)
        except DiskFullError:
            raise
        except Exception as error:
            raise CorruptionError(f"what was received is no store that can be read: {translated(error)}") from error
        files.sync_below(self._store)
        files.sync(self.directory)
        self._installed()


def read_through(path: Path, settings: StoreSettings) -> None:
    """Read every block of a store; RocksDB compares their checksums. Blocks. May raise any
    exception."""
    database = open_database(path, settings, read_only=True)
    try:
        cursor = database.iter()
        cursor.seek_to_first()
        while cursor.valid():
            cursor.next()
        cursor.status()
    finally:
        del cursor
        database.close()
