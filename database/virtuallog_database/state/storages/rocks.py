"""Storage in a durable map, such as RocksDB: values of one process, as in Mesos' LevelDBStorage.

Durable format: key `v` and the name in UTF-8; value: 16 bytes of version, then the value. The key `format` marks the store;
its value is "state 1".

A directory serves one process at a time, so a lock in memory makes compare and put one step. Beside it, `DIR.reserve` keeps
4 MiB of the disk, which let a store be opened again on a full disk; on a disk with room it grows to 40 MiB once it is written.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs
import trio

from virtuallog.contract.errors import CorruptionError, InvalidSettingError
from virtuallog.contract.ports import DurableMap
from virtuallog.runtime.rocks_map import BULK, has_store, open_rocks_map
from virtuallog_database.errors import BinaryTooOldError
from virtuallog_database.state.storage import check_size, may_set
from virtuallog_database.state.variable import VERSION_BYTES, StateEntry, encode_name

VALUE_BYTES_MAX: Final = 64 << 20
_PREFIX: Final = b"v"
_MARKER: Final = b"format"
_KIND: Final = b"state "
_FORMAT: Final = _KIND + b"1"
_ALL: Final = (b"", b"\xff" * 8)


@asynccontextmanager
async def open_rocks_storage(path: Path | str, *, create: bool = True) -> AsyncIterator[MapStorage]:
    """Open the storage in a directory.

    Args:
        path: a directory that holds nothing else.
        create: make the storage if the directory is missing or empty. False: refuse that.

    Raises:
        InvalidSettingError: the directory holds something else, or nothing where `create` is False.
        BinaryTooOldError: a later program has made it.
        CorruptionError, StorageError: the directory cannot be used, or another process uses it.
    """
    directory = Path(path)
    if not has_store(directory):
        if not create:
            raise InvalidSettingError(f"rocks:{directory}", "there is no state in this directory")
        if _holds_files(directory):
            raise InvalidSettingError(f"rocks:{directory}", "the directory holds something else: name an empty one")
    async with open_rocks_map(directory, BULK) as values:
        await _check_marker(directory, values)
        yield MapStorage(values)


def _holds_files(directory: Path) -> bool:
    return directory.exists() and any(directory.iterdir())


async def _check_marker(directory: Path, values: DurableMap) -> None:
    """Refuse the store of another program, and mark a new one."""
    marker = await values.get(_MARKER)
    if marker is None and not await values.scan_span(_ALL, 1):
        await values.write({_MARKER: _FORMAT})  # new, or left by a program that ended before this write
    elif marker is None or not marker.startswith(_KIND):
        raise InvalidSettingError(f"rocks:{directory}", "the directory holds a store of something else, not a state")
    elif marker != _FORMAT:
        found = marker.removeprefix(_KIND).decode(errors="replace")
        raise BinaryTooOldError(
            f"rocks:{directory} has format {found}, and this program knows 1: start a newer version of it"
        )


@attrs.define(eq=False)
class MapStorage:
    """Implements `StateStorage` in a `DurableMap` that nothing else writes."""

    _values: DurableMap
    value_bytes_max: int = VALUE_BYTES_MAX
    _writing: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    """Held from the comparison to the end of the write."""

    async def get(self, name: str) -> StateEntry | None:
        stored = await self._values.get(_key(name))
        return None if stored is None else _decode(name, stored)

    async def set(self, name: str, entry: StateEntry, expected: bytes, *, may_create: bool) -> bool:
        check_size(name, entry.value, self.value_bytes_max)
        async with self._writing:
            present = await self._version(name)
            if present == entry.version:
                return True
            if not may_set(present, expected, may_create=may_create):
                return False
            await self._write(name, entry.version + entry.value)
            return True

    async def expunge(self, name: str, expected: bytes) -> bool:
        async with self._writing:
            if await self._version(name) != expected:
                return False
            await self._write(name, None)
            return True

    async def names(self) -> frozenset[str]:
        found = list[str]()
        start, stop = _PREFIX, b"w"
        while page := await self._values.scan_span((start, stop), _PAGE_BYTES):
            found.extend(key.removeprefix(_PREFIX).decode() for key, _ in page)
            start = page[-1][0] + b"\0"
        return frozenset(found)

    async def _version(self, name: str) -> bytes | None:
        entry = await self.get(name)
        return None if entry is None else entry.version

    async def _write(self, name: str, value: bytes | None) -> None:
        # Shielded: the lock must not be free while a write is under way, and a write takes as long as the disk does.
        with trio.CancelScope(shield=True):
            await self._values.write({_key(name): value})


_PAGE_BYTES: Final = 1 << 20


def _key(name: str) -> bytes:
    return _PREFIX + encode_name(name)


def _decode(name: str, stored: bytes) -> StateEntry:
    if len(stored) < VERSION_BYTES:
        raise CorruptionError(f"the value of '{name}' has {len(stored)} bytes")
    return StateEntry(stored[VERSION_BYTES:], stored[:VERSION_BYTES])
