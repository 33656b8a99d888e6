"""The DurableMap port on RocksDB.

It holds votes and identities, which change rarely, and the positions of replicas, which are bulk.

Every write is one WriteBatch with a synced write-ahead log: all or nothing, durable on return. One
thread writes, in order, or the event loop while the disk is fast. Another one reads, so that a group
commit never waits for a read of megabytes.

A full disk must not stop the members that decide the register: a new version may be needed to move
to other disks. So a few MiB are kept in reserve beside the store. When the store finds no room the
reserve is freed, the store is opened anew (RocksDB takes no write after one that failed) and the
write is repeated; it puts and deletes, so repeating it is safe. That is meant for small writes:
components that store bulk look at `has_room` and stop long before.

Raw mode throughout: rocksdict's default unpickles what it reads, so that any process that can write
a file could run code.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
import outcome
import rocksdict
import trio

from virtuallog.contract.errors import CorruptionError, StorageError, VirtualLogError
from virtuallog.contract.ports import Changes, CutChanges, Span
from virtuallog.runtime.sync_worker import SyncWorker
from virtuallog.runtime.worker import Worker

ResultT = TypeVar("ResultT")

_FILES_MAX: Final = 64
"""Files kept open; by default RocksDB keeps all. Small stores have a few files of a few KB, bulk
stores some hundred."""
_NO_ROOM: Final = "No space left on device"
_LOG_FILES: Final = 4
"""Info logs kept. RocksDB starts a new one at each open and would keep a thousand."""
_ROOM_WRITES: Final = 64
"""Writes between two checks of the free disk space, 3 us each. Much less than the reserve is
written meanwhile."""


@attrs.frozen(kw_only=True)
class RocksMapSettings:
    """Sizes of a store."""

    buffer_bytes: int = 1 << 20
    """Bytes of writes kept in memory and in RocksDB's log before they are flushed; 64 MiB by default.

    Our small maps overwrite a few keys over and over. There the cost is the past that is kept, and
    read again at the next start.
    """
    headroom_bytes: int = 0
    """Free bytes on the disk below which there is no room for bulk."""
    reserve_bytes: int = 4 << 20
    """Reserve for opening the store anew on a full disk, and for some dozen changes of a register
    of 64 KiB."""


SMALL: Final = RocksMapSettings()
BULK: Final = RocksMapSettings(buffer_bytes=16 << 20, headroom_bytes=256 << 20, reserve_bytes=40 << 20)
"""Settings for values of up to MiBs that are written once: fewer and larger files, and room for
compactions.

Two full buffers are read again at a start, and may have to be written then. The reserve is for
that; all of it is taken once such a store is in use.
"""


@attrs.define(eq=False)
class RocksMap:
    """`ports.DurableMap` in one directory, owned by one process.

    Cancelling a wait does not abandon the thread: the call returns once the operation is over, then
    the cancellation is delivered. So an operation never outlives its caller, and `close` never
    meets one in progress.
    """

    _directory: Path
    _database: Any
    _settings: RocksMapSettings
    _writer: SyncWorker
    _reader: Worker
    _helper: Worker
    _compacting: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    """Held during a compaction; a database is not closed under it."""
    _gate: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    """Held while the database is read, and while it is opened anew."""
    _failed: VirtualLogError | None = attrs.field(default=None, init=False)
    _until_look: int = attrs.field(default=_ROOM_WRITES, init=False)
    _closed: bool = attrs.field(default=False, init=False)
    has_room: bool = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.has_room = self._is_there_room()

    @classmethod
    async def open(cls, directory: Path, settings: RocksMapSettings = SMALL) -> RocksMap:
        """Open the store in `directory`, or create it.

        Raises:
            CorruptionError: RocksDB does not trust what it found.
            StorageError: it cannot be opened; also when another process has it open.
        """
        writer = SyncWorker(f"writer of {directory.name}")
        try:
            database = await writer.do(lambda: _open_first(directory, settings))
        except Exception as error:
            writer.stop()
            raise _translated(error) from error
        reader, helper = Worker(f"reader of {directory.name}"), Worker(f"helper of {directory.name}")
        return cls(directory, database, settings, writer, reader, helper)

    async def get(self, key: bytes) -> bytes | None:
        return await self._read(lambda: self._database.get(key))

    async def scan(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        return await self._read(lambda: _scan(self._database, prefix))

    async def scan_span(self, span: Span, max_bytes: int) -> list[tuple[bytes, bytes]]:
        return await self._read(lambda: _scan_span(self._database, span, max_bytes))

    async def write(self, changes: Changes, dropped: Sequence[Span] = ()) -> None:
        self._require_open()
        await self._writer.do(self._write_job(changes, dropped))

    def write_soon(self, cut: CutChanges, done: Callable[[VirtualLogError | None], None]) -> None:
        def cut_job() -> tuple[Callable[[], None], int]:
            changes, dropped = cut()
            return self._write_job(changes, dropped), sum(len(value) for value in changes.values() if value)

        def finished(result: outcome.Outcome[None]) -> None:
            failure: VirtualLogError | None = None
            try:
                result.unwrap()
            except VirtualLogError as error:
                failure = error
            done(failure)

        self._require_open()
        self._writer.write_soon(cut_job, finished)

    def _write_job(self, changes: Changes, dropped: Sequence[Span]) -> Callable[[], None]:
        """Job of the writer; it raises errors of ours."""
        return lambda: self._guarded(lambda: self._write(changes, dropped))

    async def reclaim(self, span: Span) -> None:
        """Compact the span. RocksDB does so by itself only while more is written, and on a full
        disk nothing is."""
        self._require_open()
        await self._helper.do(lambda: self._compact(span))

    def _compact(self, span: Span) -> None:
        with self._compacting, suppress(Exception):  # a write would meet the damage, and report it
            if self._failed is None and self._database is not None:
                self._database.compact_range(*span)

    async def close(self) -> None:
        """Release the directory. Every write is durable already. Safe to call twice; nothing else may be called after.

        Raises:
            StorageError: RocksDB could not end in order; the directory is released all the same.
        """
        if self._closed:
            return
        self._closed = True
        with trio.CancelScope(shield=True):  # ends soon, and a leftover lock would block the next open
            try:
                await self._reader.do(lambda: None)  # reads in progress
                await self._writer.do(self._close)
            finally:
                for worker in (self._reader, self._writer, self._helper):
                    worker.stop()

    def _close(self) -> None:
        with self._compacting, self._gate:
            database, self._database = self._database, None
        try:
            database.close()
        except Exception as error:
            if self._failed is None:  # else the failure has been reported, and acknowledged writes are durable
                raise _translated(error) from error

    def _write(self, changes: Changes, dropped: Sequence[Span]) -> None:
        try:
            self._put(changes, dropped)
        except Exception as error:
            if _NO_ROOM not in str(error) or not _give_reserve(self._directory):
                raise
            self._reopen()
            self._put(changes, dropped)
            self._until_look = 0
        self._look_for_room()

    def _put(self, changes: Changes, dropped: Sequence[Span]) -> None:
        """Write, durable on return.

        In two steps: rocksdict holds the interpreter's lock during a write, but not during
        `flush_wal`. A synced write would stop the whole process for as long as the disk takes.
        """
        self._database.write(_batch(changes, dropped))
        self._database.flush_wal(sync=True)

    def _look_for_room(self) -> None:
        """Check the free disk space. Takes a reserve that was given up once there is room for it
        again."""
        self._until_look -= 1
        if self._until_look > 0 and self.has_room:
            return
        self._until_look = _ROOM_WRITES
        self.has_room = self._is_there_room()
        # On a nearly full disk the rest of a large reserve would be taken from others, who may need
        # it more.
        _take_reserve(self._directory, (self._settings if self.has_room else SMALL).reserve_bytes)

    def _is_there_room(self) -> bool:
        return shutil.disk_usage(self._directory).free >= self._settings.headroom_bytes

    def _reopen(self) -> None:
        with self._compacting, self._gate:
            database, self._database = self._database, None
            with suppress(Exception):  # it reports the failure again that led here
                database.close()
            self._database = _open(self._directory, self._settings)

    async def _read(self, operation: Callable[[], ResultT]) -> ResultT:
        def gated() -> ResultT:
            with self._gate:
                return self._guarded(operation)

        self._require_open()
        return await self._reader.do(gated)

    def _require_open(self) -> None:
        if self._closed:
            raise StorageError("the store is closed")

    def _guarded(self, operation: Callable[[], ResultT]) -> ResultT:
        """Run an operation in a thread. After the first failure none is tried: the store's content
        is unknown."""
        if self._failed is not None:
            raise StorageError(f"the store can no longer be used: {self._failed}")
        try:
            return operation()
        except Exception as error:
            self._failed = _translated(error)
            raise self._failed from error


@asynccontextmanager
async def open_rocks_map(directory: Path, settings: RocksMapSettings = SMALL) -> AsyncIterator[RocksMap]:
    """Open a `RocksMap` for the length of a block."""
    store = await RocksMap.open(directory, settings)
    try:
        yield store
    finally:
        await store.close()


def has_store(directory: Path) -> bool:
    """True if there is a RocksDB in the directory, of any program."""
    return (directory / "CURRENT").exists()


def _open_first(directory: Path, settings: RocksMapSettings) -> Any:
    """Open the store, on a full disk with the space of the reserve."""
    directory.mkdir(parents=True, exist_ok=True)
    try:
        database = _open(directory, settings)
    except Exception as error:
        if _NO_ROOM not in str(error) or not _give_reserve(directory):
            raise
        database = _open(directory, settings)
    _take_reserve(directory, min(settings.reserve_bytes, SMALL.reserve_bytes))
    return database


def _open(directory: Path, settings: RocksMapSettings) -> Any:
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_max_open_files(_FILES_MAX)
    options.set_keep_log_file_num(_LOG_FILES)
    options.set_write_buffer_size(settings.buffer_bytes)
    # The default mode stops at the first bad record of the write-ahead log and silently drops all
    # that follows, acknowledged writes included. This mode forgives only a torn tail, which was
    # never acknowledged.
    options.set_wal_recovery_mode(rocksdict.DBRecoveryMode.tolerate_corrupted_tail_records())
    return rocksdict.Rdict(str(directory), options)


def _reserve_of(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.reserve")


def _take_reserve(directory: Path, size: int) -> None:
    """Allocate the reserve unless it exists. Without room for it now, a later write tries again."""
    reserve = _reserve_of(directory)
    held = reserve.stat().st_size if reserve.exists() else 0
    if held >= size:
        return
    with suppress(OSError), reserve.open("ab") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError:
            if not held:
                reserve.unlink()
            raise


def _give_reserve(directory: Path) -> bool:
    """Free the reserve; False if there is none any more."""
    try:
        _reserve_of(directory).unlink()
    except FileNotFoundError:
        return False
    return True


def _batch(changes: Changes, dropped: Sequence[Span]) -> Any:
    """Build a WriteBatch; good for one write."""
    batch = rocksdict.WriteBatch(raw_mode=True)
    for start, stop in dropped:
        batch.delete_range(start, stop)
    for key, value in changes.items():
        if value is None:
            batch.delete(key)
        else:
            batch.put(key, value)
    return batch


def _scan(database: Any, prefix: bytes) -> list[tuple[bytes, bytes]]:
    found: list[tuple[bytes, bytes]] = []
    cursor = database.iter()
    try:
        cursor.seek(prefix)
        while cursor.valid():
            key = bytes(cursor.key())
            if not key.startswith(prefix):
                return found
            found.append((key, bytes(cursor.value())))
            cursor.next()
        cursor.status()  # an iterator also becomes invalid when it cannot read on; then this raises
        return found
    finally:
        del cursor  # else the traceback of what was raised keeps it, and it keeps the directory locked


def _scan_span(database: Any, span: Span, max_bytes: int) -> list[tuple[bytes, bytes]]:
    start, stop = span
    options = rocksdict.ReadOptions()
    options.set_iterate_upper_bound(stop)
    found: list[tuple[bytes, bytes]] = []
    cursor = database.iter(options)
    try:
        cursor.seek(start)
        while cursor.valid():
            pair = bytes(cursor.key()), bytes(cursor.value())
            max_bytes -= len(pair[0]) + len(pair[1])
            if found and max_bytes < 0:
                return found
            found.append(pair)
            cursor.next()
        cursor.status()
        return found
    finally:
        del cursor  # as in `_scan`


def _translated(error: Exception) -> VirtualLogError:
    """Translate an error of the library, which raises plain exceptions with RocksDB's status as text."""
    reason = f"RocksDB: {error}"
    return CorruptionError(reason) if "Corruption" in reason else StorageError(reason)
