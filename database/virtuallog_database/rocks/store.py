"""The LocalStore on RocksDB, without RocksDB's write-ahead log: what a crash takes is still in the
virtual log.

There is one column family, and each `write` is one WriteBatch, which goes into one memtable.
Memtables are flushed in their order, so a crash leaves the store as it was after some write, never
between two.

Reads and writes run on the event loop (about 1 us each, from memory). RocksDB blocks a writer when
its background work is far behind, and rocksdict keeps the interpreter's lock meanwhile: the whole
process would stand. So there are more and smaller memtables than usual, and the slowdown limits are
far from the usual state. Heavy writers check first if a limit is near (`is_behind`: 1 us). Flushes
run in a thread.

Raw mode throughout: rocksdict's default unpickles what it reads, so a file's writer could run code.
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
"""Files kept open; by default RocksDB keeps all. With files of 16 MiB that is 4 GiB without
reopening one."""
_INFO_LOGS: Final = 2
"""Info logs to keep. RocksDB starts one at each open, and would keep a thousand."""
_INFO_LOG_BYTES: Final = 1 << 20
_MANIFEST_BYTES: Final = 4 << 20
"""Size at which the manifest is rewritten. By default it may grow to 1 GiB, and each checkpoint
copies it."""
_SYNC_BYTES: Final = 1 << 20
"""Bytes of an unfinished file after which they are synced. Otherwise a flush ends with one long
sync, and the log's own syncs wait for it."""
_LEVEL_0_BRAKE: Final = 40
_LEVEL_0_STOP: Final = 80
"""Unmerged files at which RocksDB slows down and stops writers. It merges from 4 on, and usually
has 2 to 6."""


@attrs.frozen(kw_only=True)
class StoreSettings:
    """Memory and files of a store. Sizes in bytes."""

    buffer_bytes: int = 16 << 20
    """Size of one memtable. About as much can be lost in a crash, and is played again then."""
    buffers: int = 4
    """Most memtables, at least 4. RocksDB slows a writer down when all but one are full and not
    flushed, and stops it when all are."""
    cache_bytes: int = 64 << 20
    """Cache for blocks read from files, including indexes and filters."""
    file_bytes: int = 16 << 20
    """Size of a file. A file is rewritten as a whole when any of it is merged, and snapshots share
    unchanged files."""
    headroom_bytes: int = 64 << 20
    """Free disk space needed for a checkpoint: the memtables must fit as files, or RocksDB accepts
    no more writes."""


DEFAULT: Final = StoreSettings()


def open_database(path: Path, settings: StoreSettings, *, read_only: bool = False) -> Any:
    """Open RocksDB. Blocks. May raise any exception."""
    if read_only:
        # The checks below must see the files, not a cached earlier look.
        return rocksdict.Rdict(str(path), database_options(settings), access_type=rocksdict.AccessType.read_only())
    database = rocksdict.Rdict(str(path), database_options(settings))
    database.set_write_options(unlogged_writes())
    return database


def unlogged_writes() -> Any:
    options: Any = rocksdict.WriteOptions()
    options.disable_wal = True  # an attribute, despite the library's stubs
    return options


@attrs.define(eq=False)
class RocksStore:
    """Implements `ports.LocalStore` in one directory. After its first failure everything raises:
    its content is not known any more."""

    _database: Any
    """The open database. Once the store has failed or is closed, an object that refuses everything,
    so the usual case needs no check."""
    _worker: Worker
    """Worker thread of the directory."""
    _full_buffers_max: int
    """Memtables waiting for a flush, from which on the store is reported as behind."""
    _opened: Any = attrs.field(init=False)
    """The database to close in the end."""
    _unlogged: Any = attrs.field(factory=unlogged_writes, init=False)
    _snapshots: weakref.WeakSet[_Snapshot] = attrs.field(factory=weakref.WeakSet, init=False)
    """Snapshots in use: each keeps RocksDB open, and its lock with it, unless it is closed first."""
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
        """Close the store. Flushes what is in memory, so that the next start has nothing to replay;
        a failed store closes, too."""
        if self.closed:
            return
        self.closed = True
        with trio.CancelScope(shield=True):  # ends soon; a lock that is left behind would block the next open
            await self._worker.do(lambda: guarded(self._close))

    async def perform(self, job: Callable[[Any], None]) -> None:
        """Run `job(database)` in the thread of the directory, one at a time."""
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
            with suppress(Exception) if failed else nullcontext():  # it would repeat the error that was reported
                self._opened.close()

    def _failure(self, error: Exception) -> VirtualLogError:
        """The error to raise for `error`. From now on the store refuses everything."""
        failure = translated(error)
        # Also for a full disk: a caller that waits for room would wait for a store that accepts no
        # writes any more.
        kind = CorruptionError if isinstance(failure, CorruptionError) else StorageError
        if self._database is self._opened:
            self._database = _Refusing(kind(f"the store can no longer be used: {failure}"))
        return kind(str(failure))


@attrs.frozen(eq=False)
class _Refusing:
    """Stand-in for a database that must not be used any more."""

    _error: VirtualLogError

    def __getattr__(self, name: str) -> Any:
        raise self._error


@attrs.define(eq=False)
class _Snapshot:
    """Implements `ports.StoreReader` by an iterator, which keeps showing the database as it was
    when it was made. (A snapshot of the library does not: version 0.3.29 iterates over the newest
    state.)"""

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
    """Read options with an upper bound. Without it a scan at the end of a span would walk over all
    deleted keys behind it."""
    options = rocksdict.ReadOptions()
    options.set_iterate_upper_bound(stop)
    return options


def database_options(settings: StoreSettings) -> Any:
    """Options of a database, and of the tables that it can ingest."""
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
