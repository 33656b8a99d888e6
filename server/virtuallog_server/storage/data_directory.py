"""A data directory on a real disk: one process at a time, a folder per role.

DIR/LOCK            held for as long as a process uses the directory (DiskStorage)
DIR/pid             of that process: server/virtuallog_server/storage/pid_file.py
DIR/identity        which node, which store: server/virtuallog_server/storage/identity.py
DIR/founded.*       which stores there are: server/virtuallog_server/storage/stores.py
DIR/storage/ROLE/   files of a role, such as write-ahead logs
DIR/values/ROLE/    a durable map of a role, such as votes
DIR/stores/ROLE/    the state of a replica of a database, and its snapshots (virtuallog_database.rocks)
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import attrs

from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.ports import DurableMap, Storage
from virtuallog.runtime.disk import DiskStorage
from virtuallog.runtime.rocks_map import BULK, SMALL, open_rocks_map
from virtuallog_database.ports import StoreDirectory
from virtuallog_server.storage import pid_file
from virtuallog_server.storage.identity import FILE_NAME
from virtuallog_server.storage.stores import FILES, REPLICAS, VALUES

_BULK: Final = frozenset({"paxos"})
"""Roles with large maps: they hold the entries of logs."""
_OF_NO_STORE: Final = frozenset({"LOCK", "lost+found"})
"""Names that a folder has before anything is stored in it."""


@attrs.define(eq=False)
class DataDirectory:
    """An open data directory. `open_data_directory` makes it, and closes the stores that it has opened."""

    path: Path
    root: Storage
    """The directory of the identity file."""
    present: Collection[tuple[str, str]]
    """Stores with any content when this was opened, by folder and role."""
    _stack: AsyncExitStack
    _storages: dict[str, DiskStorage] = attrs.field(factory=dict, init=False)
    _key_values: dict[str, DurableMap] = attrs.field(factory=dict, init=False)

    def space(self) -> tuple[int, int]:
        """Free bytes and size of its disk, by one system call; (0, 0) if the disk does not say."""
        try:
            usage = shutil.disk_usage(self.path)
        except OSError:
            return 0, 0
        return usage.free, usage.total

    async def storage(self, role: str) -> Storage:
        """Open the directory of files of a role. It may be opened again once nothing uses the former result: files that were left
        open are closed then.

        Raises:
            StorageError: the directory cannot be used.
        """
        if role in self._storages:
            await self._storages[role].close_files()
        else:
            self._storages[role] = self._stack.enter_context(DiskStorage(self.path / "storage" / role))
        return self._storages[role]

    async def key_values(self, role: str) -> DurableMap:
        """Open the small durable map of a role. Opened again, it is the same map.

        Raises:
            CorruptionError, StorageError: it cannot be opened.
        """
        if role not in self._key_values:
            settings = BULK if role in _BULK else SMALL
            opened = open_rocks_map(self.path / "values" / role, settings)
            self._key_values[role] = await self._stack.enter_async_context(opened)
        return self._key_values[role]

    async def local_store(self, role: str) -> StoreDirectory:
        """Open the directory of a role's database replica. It may be opened again once the former result was closed.

        Raises:
            StorageError: the directory cannot be used.
        """
        from virtuallog_database.rocks import open_store_directory  # few nodes are servers of a database

        directory = await open_store_directory(self.path / "stores" / role)
        self._stack.push_async_callback(directory.close)
        return directory


@asynccontextmanager
async def open_data_directory(path: Path) -> AsyncIterator[DataDirectory]:
    """Create the directory if it is missing, lock it, and write the pid of this process into it, for the length of the block.

    Raises:
        InvalidSettingError: another process uses it.
        StorageError: it cannot be used.
        CorruptionError: it holds data of a node, but no identity.
    """
    with DiskStorage(path) as root:
        _check_complete(path, await root.names())
        with pid_file.written(path):
            async with AsyncExitStack() as stack:
                yield DataDirectory(path, root, _present(path), stack)


def _present(path: Path) -> Collection[tuple[str, str]]:
    """The stores with any content.

    An empty folder, such as the place of a mount that did not come up, is no store. Lock files, and the files of a new file
    system, do not count as content.
    """
    folders = [path / kind for kind in (FILES, VALUES, REPLICAS) if (path / kind).is_dir()]
    stores = [store for folder in folders for store in folder.iterdir() if store.is_dir()]
    return {
        (store.parent.name, store.name)
        for store in stores
        if any(found.name not in _OF_NO_STORE for found in store.iterdir())
    }


def _check_complete(path: Path, names: list[str]) -> None:
    """Refuse a directory whose identity alone is missing. Taken for a new disk, the node would vote without its votes."""
    if FILE_NAME not in names and {FILES, VALUES, REPLICAS}.intersection(names):
        raise CorruptionError(f"data directory {path} holds data of a node, but no identity file")
