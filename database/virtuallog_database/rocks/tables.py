"""Stores made from sorted tables instead of writes: SST files are written anywhere, and assembled
here.

    write_table     pairs in order of their keys -> one SST file, on any machine
    assemble        such files, which do not overlap -> a RocksDB store, without rewriting one of them

Keys are in unsigned bytewise order, as in the store; RocksDB refuses others. Everything blocks:
call it in a thread, or where no other task waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import rocksdict

from virtuallog_database.ports import CheckpointFile
from virtuallog_database.rocks import files
from virtuallog_database.rocks.error_translation import guarded
from virtuallog_database.rocks.store import DEFAULT, StoreSettings, database_options, open_database


@attrs.frozen
class WrittenTable:
    """Summary of a table."""

    pairs: int
    first: bytes
    last: bytes


def write_table(
    path: Path, pairs: Iterable[tuple[bytes, bytes]], settings: StoreSettings = DEFAULT
) -> WrittenTable | None:
    """Write an SST file at `path`, durably; returns its summary. None, and no file, if there are no
    pairs.

    Raises:
        StorageError: the keys do not ascend, or the disk failed.
        DiskFullError: no room.
    """
    return guarded(lambda: _write(path, pairs, settings))


def assemble(directory: Path, tables: Sequence[Path], settings: StoreSettings = DEFAULT) -> list[CheckpointFile]:
    """Make the new directory `directory` a store of these tables, durably; returns its files,
    sorted by name. Moves the tables into it, under other names. The caller must ensure that no two
    tables overlap: RocksDB would take one for newer.

    Raises:
        CorruptionError: one of the files is no table. Damage within one shows when it is read:
            `pairs_of`.
        StorageError: the disk failed.
    """
    return guarded(lambda: _assemble(directory, tables, settings))


def pairs_of(directory: Path, settings: StoreSettings = DEFAULT) -> Iterator[tuple[bytes, bytes]]:
    """All pairs of a closed store, in order of their keys. Reads every block, with its checksum.

    Raises:
        CorruptionError: it cannot be read.
    """
    database = guarded(lambda: open_database(directory, settings, read_only=True))
    try:
        cursor = database.iter()
        cursor.seek_to_first()
        while cursor.valid():
            yield cursor.key(), cursor.value()
            cursor.next()
        guarded(cursor.status)
        del cursor
    finally:
        database.close()


def split_pairs(pairs: Iterable[tuple[bytes, bytes]], table_bytes: int) -> Iterator[Sequence[tuple[bytes, bytes]]]:
    """The pairs in lists of about so many bytes of keys and values, in order; none is empty."""
    table, size = list[tuple[bytes, bytes]](), 0
    for pair in pairs:
        table.append(pair)
        size += len(pair[0]) + len(pair[1])
        if size >= table_bytes:
            yield table
            table, size = [], 0
    if table:
        yield table


def _write(path: Path, pairs: Iterable[tuple[bytes, bytes]], settings: StoreSettings) -> WrittenTable | None:
    writer = rocksdict.SstFileWriter(database_options(settings))
    count, first, last = 0, b"", b""
    for key, value in pairs:
        if not count:
            writer.open(str(path))
            first = key
        writer[key] = value
        count, last = count + 1, key
    if not count:
        return None
    writer.finish()
    files.sync(path)
    return WrittenTable(count, first, last)


def _assemble(directory: Path, tables: Sequence[Path], settings: StoreSettings) -> list[CheckpointFile]:
    """Assemble by way of a checkpoint, which has exactly the files needed to open it."""
    beside = directory.with_name(f"{directory.name}.assembling")
    files.remove(beside)
    database = open_database(beside, settings)
    try:
        if tables:
            database.ingest_external_file([str(path) for path in tables], _moving())
        rocksdict.Checkpoint(database).create_checkpoint(str(directory))
    finally:
        database.close()
        files.remove(beside)
    files.sync_below(directory)
    return [files.described(directory / name) for name in files.names_in(directory)]


def _moving() -> Any:
    options = rocksdict.IngestExternalFileOptions()
    options.set_move_files(True)  # links them, where the filesystem can
    return options
