"""Checkpoints of a RocksStore: directories of hard links, with a listing.

RocksDB flushes its memory and links its files. Those never change, so that takes milliseconds, and
room only for files that are merged away later. A checkpoint is made under another name, listed,
synced, and then renamed.

Checksums are computed when a checkpoint is taken. A file with the same inode as in the former
checkpoint is the same file, with the same checksum. Otherwise each checkpoint would read the whole
store.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final

import attrs
import rocksdict

from virtuallog.contract.errors import DiskFullError, StorageError, UnavailableError
from virtuallog.runtime.worker import Worker
from virtuallog_database.ports import CheckpointFile
from virtuallog_database.rocks import files
from virtuallog_database.rocks.checkpoint_listing import LISTING, check_name_untrusted, decode_untrusted, encode
from virtuallog_database.rocks.error_translation import guarded
from virtuallog_database.rocks.store import RocksStore, StoreSettings, open_database

_TAKING: Final = ".taking"


@attrs.define(eq=False)
class RocksCheckpoints:
    """Implements `ports.Checkpoints`. Names are those given to `take`; they must not begin with a
    dot."""

    directory: Path
    """Existing directory of the checkpoints."""
    store: RocksStore | None
    """The open store. None if it is closed."""
    _settings: StoreSettings
    _worker: Worker
    """Takes, reads and removes, one at a time, so that no file is removed while being read."""

    async def names(self) -> list[str]:
        return await self._worker.do(lambda: guarded(self._names))

    async def take(self, name: str) -> None:
        if self.store is None:
            raise StorageError("a checkpoint can be taken only of an open store")
        # Checked before RocksDB tries: once a flush of its own has met a full disk, it accepts no
        # more writes.
        if shutil.disk_usage(self.directory).free < self._settings.headroom_bytes:
            raise DiskFullError("too little is free on the disk for a checkpoint")
        # First without the interpreter's lock, which the next step keeps: it has little left to do
        # then.
        await self.store.flush()
        path = self.directory / _TAKING
        await self.store.perform(lambda database: self._link(database, path))
        await self._worker.do(lambda: guarded(lambda: self._complete(path, name)))

    async def files(self, name: str) -> list[CheckpointFile]:
        return await self._worker.do(lambda: guarded(lambda: self._files(name)))

    async def read(self, name: str, file: str, offset: int, length: int) -> bytes:
        return await self._worker.do(lambda: guarded(lambda: self._read(name, file, offset, length)))

    async def remove(self, name: str) -> None:
        await self._worker.do(lambda: guarded(lambda: files.remove(self.directory / name)))

    def clean(self) -> None:
        """Remove what a crash has left half done. Blocks."""
        files.remove(self.directory / _TAKING)
        files.remove(self.directory / f"{_TAKING}.tmp")  # RocksDB's temporary name for an unfinished checkpoint

    def _names(self) -> list[str]:
        return [name for name in files.names_in(self.directory) if not name.startswith(".")]

    def _link(self, database: Any, path: Path) -> None:
        """Take RocksDB's checkpoint. Errors here are failures of the store: its own flush is a part
        of it."""
        self.clean()
        rocksdict.Checkpoint(database).create_checkpoint(str(path))

    def _complete(self, path: Path, name: str) -> None:
        try:
            open_database(
                path, self._settings, read_only=True
            ).close()  # check that it can be opened: that is its purpose
            files.write_synced(path / LISTING, encode(self._list(path)))
            files.sync_below(path)
            path.rename(self.directory / name)
            files.sync(self.directory)
        except BaseException:
            self.clean()
            raise

    def _list(self, path: Path) -> list[CheckpointFile]:
        known = self._known_files()
        listed = []
        for name in files.names_in(path):
            state = (path / name).stat()
            listed.append(known.get((state.st_ino, state.st_size, name)) or files.described(path / name))
        return listed

    def _known_files(self) -> dict[tuple[int, int, str], CheckpointFile]:
        """Files of the newest checkpoint that are never written to, by inode, size and name."""
        names = self._names()
        if not names:
            return {}
        path = self.directory / names[-1]
        tables = [file for file in decode_untrusted((path / LISTING).read_bytes()) if file.name.endswith(".sst")]
        return {((path / file.name).stat().st_ino, file.size, file.name): file for file in tables}

    def _files(self, name: str) -> list[CheckpointFile]:
        try:
            return decode_untrusted((self.directory / name / LISTING).read_bytes())
        except FileNotFoundError:
            raise UnavailableError(f"checkpoint {name} is not here (any more)") from None

    def _read(self, name: str, file: str, offset: int, length: int) -> bytes:
        try:
            return files.read_at(self.directory / name / check_name_untrusted(file), offset, length)
        except FileNotFoundError:
            raise UnavailableError(f"checkpoint {name} is not here (any more), or has no file {file}") from None
