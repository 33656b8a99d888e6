"""A data directory on a real disk: one process at a time, a folder per role.

DIR/lock            held (flock) for as long as a process uses the directory
DIR/identity        which node, which store: server/identity.py
DIR/storage/ROLE/   files of a role, such as write-ahead logs
DIR/values/ROLE/    small durable maps, such as votes
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import attrs

from server.identity import FILE_NAME
from virtuallog.disk import DiskStorage
from virtuallog.errors import CorruptionError, StorageError
from virtuallog.key_values import RocksKeyValues, open_key_values
from virtuallog.ports import KeyValues, Storage


@attrs.define(eq=False)
class DataDirectory:
    """Opened by `open_data_directory`; closes what it has handed out when that ends."""

    path: Path
    _stack: AsyncExitStack

    async def root(self) -> Storage:
        """Where the identity file lies."""
        return await self._open_storage(self.path)

    async def storage(self, role: str) -> Storage:
        """Files of the role `role`."""
        return await self._open_storage(self.path / "storage" / role)

    async def key_values(self, role: str) -> KeyValues:
        """The small durable map of the role `role`.

        Raises:
            CorruptionError, StorageError: it cannot be opened.
        """
        store: RocksKeyValues = await self._stack.enter_async_context(open_key_values(self.path / "values" / role))
        return store

    async def _open_storage(self, path: Path) -> Storage:
        raise NotImplementedError


@asynccontextmanager
async def open_data_directory(path: Path) -> AsyncIterator[DataDirectory]:
    """Make sure that the directory exists, and that no other process uses it.

    Raises:
        StorageError: it cannot be used, or another process does.
        CorruptionError: it holds data of a node, but no identity: parts of it were lost.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(f"data directory {path}: {error}") from error
    try:
        _lock(lock, path)
        _check_complete(path)
        async with AsyncExitStack() as stack:
            yield DataDirectory(path, stack)
    finally:
        os.close(lock)


def _lock(lock: int, path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise StorageError(f"data directory {path} is in use by another process") from error


def _check_complete(path: Path) -> None:
    """An identity that went missing alone must not be taken for a new disk: the node would vote without its votes."""
    if not (path / FILE_NAME).exists() and any((path / folder).exists() for folder in ("storage", "values")):
        raise CorruptionError(f"data directory {path} holds data of a node, but no identity file")
