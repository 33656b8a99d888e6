"""The LocalStore on RocksDB, without its write-ahead log: what a crash takes is in the virtual log still.

One column family, and each `write` is one WriteBatch, which goes into one memtable. Memtables are flushed in their order, so what a crash
leaves is the store after some write, never between two.

Reads and writes are made on the event loop (about 1 us each, from memory). RocksDB holds up a writer when it is far behind with its
own background work, and rocksdict keeps the interpreter's lock meanwhile: the whole process would stand. So there are more and
smaller memtables than usual, and the limits at which it begins to brake are far from where it usually is; who writes much asks before
whether it is near one (`is_behind`: 1 us). Flushes run in a thread.

Raw mode throughout: rocksdict's default unpickles what it reads, so whoever can write a file could run code.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, Final

import attrs
import rocksdict
import trio

from virtuallog.contract.errors import CorruptionError, StorageError, VirtualLogError
from virtuallog.contract.ports import Span
from virtuallog.runtime.worker import Worker
from virtuallog_database.ports import StoreReader
from virtuallog_database.rocks.error_translation import guarded, translated

_FILES_MAX: Final = 256
"""Kept open; by default RocksDB keeps all. With files of 16 MiB that is 4 GiB without opening one anew."""
_INFO_LOGS: Final = 2
"""RocksDB starts a new one at each open and would keep a thousand."""
_INFO_LOG_BYTES: Final = 1 << 20
_MANIFEST_BYTES: Final = 4 << 20
"""Written anew when it is so large; by default it may grow to 1 GiB, and each checkpoint copies it."""
_SYNC_BYTES: Final = 1 << 20
"""Of a file under construction go to the disk at a time: else a flush ends with one long sync, and the log's own syncs wait for it."""
_LEVEL_0_BRAKE: Final = 40
_LEVEL_0_STOP: Final = 80
"""Files that are not merged yet at which RocksDB slows down and stops writers. It merges from 4 on, and is at 2 to 6 when all is well."""


@attrs.frozen(kw_only=True)
class StoreSettings:
    """Memory and files of a store. Sizes in bytes."""

    buffer_bytes: int = 16 << 20
    """Of one memtable. Also about what a crash can take, and what is played again then."""
    buffers: int = 4
    """Memtables at most, at least 4. RocksDB slows a writer down when all but one are full and not flushed, and stops it when all
    are."""
    cache_bytes: int = 64 << 20
    """Of what is read from files, indexes and filters included."""
    file_bytes: int = 16 << 20
    """A file is rewritten as a whole when any of it is merged, and a snapshot shares unchanged ones."""
    headroom_bytes: int = 64 << 20
    """No checkpoint is taken with less on the disk: what memory holds must have room as files, or RocksDB takes no writes any more."""


DEFAULT: Final = StoreSettings()


def open_database(path: Path, settings: StoreSettings, *, read_only: bool = False) -> Any:
    """Blocks. Raises anything."""
    if read_only:
        # Checks below are to see the files, not what another look has left in a cache.
        return rocksdict.Rdict(str(path), database_options(settings), access_type=rocksdict.AccessType.read_only())
    database = rocksdict.Rdict(str(path), database_options(settings))
    database.set_write_options(unlogged_writes())
    return database


def unlogged_writes() -> Any:
    options: Any = rocksdict.WriteOptions()
    options.disable_wal = True  # an attribute, whatever the library's stubs say
    return options


@attrs.define(eq=False)
class RocksStore:
    """`ports.LocalStore` in one directory. After its first failure everything raises: what is in it is not known any more."""

    _database: Any
    """What is read and written; once the store has failed, or is closed, something that refuses everything. So the usual case
    is spared a look."""
    _worker: Worker
    """Of the directory."""
    _full_buffers_max: int
    """That wait to be flushed, before it is said to be behind."""
    _opened: Any = attrs.field(init=False)
    """What is closed in the end."""
    _unlogged: Any = attrs.field(factory=unlogged_writes, init=False)
    _snapshots: weakref.WeakSet[_Snapshot] = attrs.field(factory=weakref.WeakSet, init=False)
    """In use: each keeps RocksDB open, and its lock with it, unless it is closed first."""
    closed: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._opened = self._database

    def get(self, key: bytes) -> bytes | None:
        try:
            found: bytes | None = self._database.get(key)
        except Exception as error:
            raise self._failure(error) from error
        return found

    def scan(self, span: Span, count: int) -> list[tuple[bytes, bytes]]:
        try:
            return _collect(self._database.iter(_until(span[1])), span, count)
        except Exception as error:
            raise self._failure(error) from error

    def write(self, changes: Mapping[bytes, bytes | None], dropped: Sequence[Span] = ()) -> None:
        try:
            batch = rocksdict.WriteBatch(raw_mode=True)
            for start, stop in dropped:
                batch.delete_range(start, stop)
            put, delete = batch.put, batch.delete
            for key, value in changes.items():
                if value is None:
                    delete(key)
                else:
                    put(key, value)
            self._database.write(batch, self._unlogged)
        except Exception as error:
            raise self._failure(error) from error

    @property
    def is_behind(self) -> bool:
        if self._database is not self._opened:
            return False
        full: int = self._opened.property_int_value("rocksdb.num-immutable-mem-table")
        return full >= self._full_buffers_max

    async def flush(self) -> None:
        await self.perform(lambda database: database.flush(wait=True))

    def snapshot(self) -> StoreReader:
        try:
            made = _Snapshot(self._database.iter())
        except Exception as error:
            raise self._failure(error) from error
        self._snapshots.add(made)
        return made

    async def close(self) -> None:
        """What is in memory is flushed, so that the next start has nothing to play again; but a store that has failed closes, too."""
        if self.closed:
            return
        self.closed = True
        with trio.CancelScope(shield=True):  # ends soon, and the lock that is left behind would block the next open
            await self._worker.do(lambda: guarded(self._close))

    async def perform(self, job: Callable[[Any], None]) -> None:
        """`job(database)` in the thread of the directory, one at a time."""
        await self._worker.do(lambda: self._attempt(job))

    def _attempt(self, job: Callable[[Any], None]) -> None:
        try:
            job(self._database)
        except Exception as error:
            raise self._failure(error) from error

    def _close(self) -> None:
        failed = self._database is not self._opened
        self._database = _Refusing(StorageError("the store is closed"))
        for snapshot in self._snapshots:
            snapshot.cursor = self._database
        try:
            if not failed:
                self._opened.flush(wait=True)
        finally:
            with suppress(Exception) if failed else nullcontext():  # it would say once more what has been reported
                self._opened.close()

    def _failure(self, error: Exception) -> VirtualLogError:
        """What to raise for `error`; from now on nothing else is believed."""
        failure = translated(error)
        # Nothing else, not even for a full disk: whoever would wait for room would wait for a store that takes no writes any more.
        kind = CorruptionError if isinstance(failure, CorruptionError) else StorageError
        if self._database is self._opened:
            self._database = _Refusing(kind(f"the store can no longer be used: {failure}"))
        return kind(str(failure))


@attrs.frozen(eq=False)
class _Refusing:
    """In the place of a database that must not be used any more."""

    _error: VirtualLogError

    def __getattr__(self, name: str) -> Any:
        raise self._error


@attrs.define(eq=False)
class _Snapshot:
    """`ports.StoreReader`. An iterator sees the database as it was when it was made, wherever it is moved. (A snapshot of the library's
    does not: version 0.3.29 iterates over the newest state.)"""

    cursor: Any

    def get(self, key: bytes) -> bytes | None:
        found = self.scan((key, key + b"\0"), 1)
        return found[0][1] if found else None

    def scan(self, span: Span, count: int) -> list[tuple[bytes, bytes]]:
        return guarded(lambda: _collect(self.cursor, span, count))


def _collect(cursor: Any, span: Span, count: int) -> list[tuple[bytes, bytes]]:
    start, stop = span
    found: list[tuple[bytes, bytes]] = []
    cursor.seek(start)
    while len(found) < count and cursor.valid():
        key = cursor.key()
        if key >= stop:
            return found
        found.append((key, cursor.value()))
        cursor.next()
    if len(found) < count:
        cursor.status()  # an iterator also becomes invalid when it cannot read on; then this raises
    return found


def _until(stop: bytes) -> Any:
    """Without it a scan at the end of a span would walk on over all that was deleted behind it."""
    options = rocksdict.ReadOptions()
    options.set_iterate_upper_bound(stop)
    return options


def database_options(settings: StoreSettings) -> Any:
    """Of a database, and of the tables that it is to take in."""
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_max_open_files(_FILES_MAX)
    options.set_keep_log_file_num(_INFO_LOGS)
    options.set_max_log_file_size(_INFO_LOG_BYTES)
    options.set_max_manifest_file_size(_MANIFEST_BYTES)
    options.set_stats_dump_period_sec(0)
    options.set_write_buffer_size(settings.buffer_bytes)
    options.set_max_write_buffer_number(settings.buffers)
    options.set_target_file_size_base(settings.file_bytes)
    options.set_max_bytes_for_level_base(4 * settings.file_bytes)
    options.set_level_zero_slowdown_writes_trigger(_LEVEL_0_BRAKE)
    options.set_level_zero_stop_writes_trigger(_LEVEL_0_STOP)
    options.set_bytes_per_sync(_SYNC_BYTES)
    options.set_compression_type(rocksdict.DBCompressionType.lz4())
    options.set_block_based_table_factory(_table_options(settings))
    return options


def _table_options(settings: StoreSettings) -> Any:
    table = rocksdict.BlockBasedOptions()
    table.set_block_cache(rocksdict.Cache(settings.cache_bytes))
    # In the cache, and so within its limit; those of the newest files stay.
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    table.set_bloom_filter(10, False)
    return table
