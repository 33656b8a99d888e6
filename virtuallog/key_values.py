"""The KeyValues port on RocksDB, for state that changes rarely: votes, identities, watermarks.

Every write is one WriteBatch with a synced write-ahead log: all or nothing, durable on return. Calls run on a thread,
one at a time and in order; that costs some 150 us a call, which is why nothing on the append path uses this.

A full disk must not end what decides the register, as that may be what is needed to move on to other disks. So a few
MiB are kept beside the store. When it finds no room they are given back, the store is opened anew (RocksDB takes no
write after one that failed) and the write is done once more: it puts and deletes, so twice is as good as once.

Raw mode throughout: rocksdict's default unpickles what it reads, so whoever can write a file could run code.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
import rocksdict
import trio

from virtuallog.errors import CorruptionError, StorageError, VirtualLogError

ResultT = TypeVar("ResultT")

_FILES_MAX: Final = 64
"""Kept open; by default RocksDB keeps all. These stores are a few files of a few KB each."""
_RESERVE_BYTES: Final = 4 << 20
"""To open the store anew, and for some dozen changes of a register of 64 KiB."""
_NO_ROOM: Final = "No space left on device"
_LOG_FILES: Final = 4
"""RocksDB starts a new info log at each open and would keep a thousand."""
_BUFFER_BYTES: Final = 1 << 20
"""Writes are kept in memory, and in RocksDB's own log, until they are so much; 64 MiB by default. Our maps have a few keys
that are written over and over: what counts then is how much of the past is kept, and read again at the next start."""


@attrs.define(eq=False)
class RocksKeyValues:
    """`ports.KeyValues` in one directory, owned by one process.

    Cancelling a wait does not abandon the thread: the call returns once the operation is over, then the cancellation
    is delivered. So an operation never runs on after its caller, and `close` never meets one under way.
    """

    _directory: Path
    _database: Any
    _limiter: trio.CapacityLimiter
    _failed: VirtualLogError | None = attrs.field(default=None, init=False)

    @classmethod
    async def open(cls, directory: Path) -> RocksKeyValues:
        """Open the store in `directory`, or create it.

        Raises:
            CorruptionError: RocksDB does not trust what it found.
            StorageError: it cannot be opened; also when another process has it open.
        """
        # One: RocksDB would allow more, but then calls would overtake each other.
        limiter = trio.CapacityLimiter(1)
        try:
            database = await trio.to_thread.run_sync(_open_first, directory, limiter=limiter)
        except Exception as error:
            raise _translated(error) from error
        return cls(directory, database, limiter)

    async def get(self, key: bytes) -> bytes | None:
        return await self._run(lambda: self._database.get(key))

    async def scan(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        return await self._run(lambda: _scan(self._database, prefix))

    async def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        await self._run(lambda: self._write(changes))

    async def close(self) -> None:
        """Release the directory. Every write is durable already. Safe to call twice; nothing else may be called after.

        Raises:
            StorageError: RocksDB could not end in order; the directory is released all the same.
        """
        with trio.CancelScope(shield=True):  # ends soon, and a lock left behind would block the next open
            await trio.to_thread.run_sync(self._close, limiter=self._limiter)

    def _close(self) -> None:
        database, self._database = self._database, None
        if database is None:
            return
        poisoned, self._failed = self._failed is not None, self._failed or StorageError("the store is closed")
        try:
            database.close()
        except Exception as error:
            if not poisoned:  # else it has been reported, and what was acknowledged before is durable
                raise _translated(error) from error

    def _write(self, changes: Mapping[bytes, bytes | None]) -> None:
        try:
            self._database.write(_batch(changes), _synced())
        except Exception as error:
            if _NO_ROOM not in str(error) or not _give_reserve(self._directory):
                raise
            self._reopen()
            self._database.write(_batch(changes), _synced())
        _take_reserve(self._directory)

    def _reopen(self) -> None:
        database, self._database = self._database, None
        with suppress(Exception):  # it reports once more what has brought us here
            database.close()
        self._database = _open(self._directory)

    async def _run(self, operation: Callable[[], ResultT]) -> ResultT:
        """One operation on the thread. After the first failure no other is tried: what is in the store is unknown."""

        def guarded() -> ResultT:
            if self._failed is not None:
                raise StorageError(f"the store can no longer be used: {self._failed}")
            try:
                return operation()
            except Exception as error:
                self._failed = _translated(error)
                raise self._failed from error

        return await trio.to_thread.run_sync(guarded, limiter=self._limiter)


@asynccontextmanager
async def open_key_values(directory: Path) -> AsyncIterator[RocksKeyValues]:
    """`RocksKeyValues.open` for the length of a block."""
    store = await RocksKeyValues.open(directory)
    try:
        yield store
    finally:
        await store.close()


def _open_first(directory: Path) -> Any:
    """Open the store; on a full disk at the expense of the reserve."""
    directory.mkdir(parents=True, exist_ok=True)
    try:
        database = _open(directory)
    except Exception as error:
        if _NO_ROOM not in str(error) or not _give_reserve(directory):
            raise
        database = _open(directory)
    _take_reserve(directory)
    return database


def _open(directory: Path) -> Any:
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_max_open_files(_FILES_MAX)
    options.set_keep_log_file_num(_LOG_FILES)
    options.set_write_buffer_size(_BUFFER_BYTES)
    # The default mode stops at the first bad record of the write-ahead log and drops what follows, acknowledged writes
    # included, without a word. This one forgives only a torn tail, which nobody was told of.
    options.set_wal_recovery_mode(rocksdict.DBRecoveryMode.tolerate_corrupted_tail_records())
    return rocksdict.Rdict(str(directory), options)


def _reserve_of(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.reserve")


def _take_reserve(directory: Path) -> None:
    """Allocate the reserve, unless it is there; where there is no room for it now, the next write tries again."""
    reserve = _reserve_of(directory)
    if reserve.exists():
        return
    with suppress(OSError), reserve.open("xb") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, _RESERVE_BYTES)
        except OSError:
            reserve.unlink()
            raise


def _give_reserve(directory: Path) -> bool:
    """Make the room that was reserved; False: there is no reserve any more."""
    try:
        _reserve_of(directory).unlink()
    except FileNotFoundError:
        return False
    return True


def _batch(changes: Mapping[bytes, bytes | None]) -> Any:
    """Good for one write."""
    batch = rocksdict.WriteBatch(raw_mode=True)
    for key, value in changes.items():
        if value is None:
            batch.delete(key)
        else:
            batch.put(key, value)
    return batch


def _scan(database: Any, prefix: bytes) -> list[tuple[bytes, bytes]]:
    found: list[tuple[bytes, bytes]] = []
    cursor = database.iter()
    cursor.seek(prefix)
    while cursor.valid():
        key = bytes(cursor.key())
        if not key.startswith(prefix):
            return found
        found.append((key, bytes(cursor.value())))
        cursor.next()
    cursor.status()  # an iterator also becomes invalid when it cannot read on; then this raises
    return found


def _synced() -> Any:
    options = rocksdict.WriteOptions()
    options.sync = True
    return options


def _translated(error: Exception) -> VirtualLogError:
    """The library raises plain exceptions with RocksDB's status as text."""
    reason = f"RocksDB: {error}"
    return CorruptionError(reason) if "Corruption" in reason else StorageError(reason)
