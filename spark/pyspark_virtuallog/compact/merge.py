"""Merge of effects over the last compaction: Spark's part, in which nothing is sequential any more.

    read the tables of the base, and the chunks -> for each key the row at the highest position -> without deleted ones
    -> ranges of keys, each sorted -> each task writes its range as Parquet and as SST files

Keys are compared as unsigned bytes, by Spark and by RocksDB alike.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs
import pyarrow as pa
from crc32c import crc32c
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from pyspark_virtuallog.compact.chunks import from_parquet, to_parquet
from virtuallog.contract.errors import CorruptionError, UnavailableError
from virtuallog_database.rocks.tables import write_table
from virtuallog_database.snapshots.compaction_store import stored_name
from virtuallog_loglets.archive.drivers.fsspec_files import FsspecDirectory

BEFORE: Final = -1
"""Position of pairs in the base: every effect is newer."""
AFTER: Final = (1 << 63) - 1
"""Position of the cursor, which is in no effects, but in the base: that of the new state is newer
than all."""
ROWS: Final = "position LONG NOT NULL, key BINARY NOT NULL, value BINARY"
WRITTEN: Final = (
    "first BINARY, last BINARY, pairs LONG, table STRING, table_bytes LONG, table_checksum LONG, "
    "sst STRING, sst_bytes LONG, sst_checksum LONG"
)
TABLE_BYTES: Final = 16 << 20
"""Bytes of keys and values in one file: as in files of a store (`StoreSettings.file_bytes`), and
what a task has in memory."""
_COLUMNS: Final = ["key", "value"]
_ARROW_ROWS: Final = pa.schema([("position", pa.int64()), ("key", pa.binary()), ("value", pa.binary())])


@attrs.frozen
class Source:
    """One Parquet file with effects, or with pairs."""

    url: str
    """URL of its directory."""
    name: str
    checksum: int | None = None
    """CRC32C. None if unknown; its pages have checksums then."""
    is_base: bool = False


@attrs.frozen
class WrittenTable:
    """One range of keys as written by a task: the same pairs as Parquet and as an SST file."""

    first: bytes
    last: bytes
    pairs: int
    table: str
    table_bytes: int
    table_checksum: int
    sst: str
    sst_bytes: int
    sst_checksum: int


def fold(
    spark: SparkSession,
    sources: Sequence[Source],
    cursor: tuple[bytes, bytes],
    url: str,
    ranges: int,
    table_bytes: int = TABLE_BYTES,
) -> list[WrittenTable]:
    """Merge the sources, and write the state.

    Args:
        spark: the session.
        sources: the base, and all chunks that follow it.
        cursor: one more pair of the state, newer than any other one of its key.
        url: directory for the files.
        ranges: most ranges of keys.
        table_bytes: approximate bytes of one file.

    Returns:
        The written tables, in order of the keys. Other files there are of attempts that do not
        count.

    Raises:
        CorruptionError: a source does not have its checksum (wrapped by Spark, as every error of a
            task).
    """
    rows = _rows(spark, sources).unionByName(_one(spark, *cursor))
    newest = rows.groupBy("key").agg(f.max(f.struct("position", "value")).alias("newest"))
    pairs = newest.select("key", f.col("newest.value").alias("value")).where("value IS NOT NULL")
    ranged = pairs.repartitionByRange(ranges, "key").sortWithinPartitions("key")
    written = ranged.mapInArrow(partial(write_ranges, url, table_bytes), WRITTEN).collect()
    return sorted((_written(row.asDict()) for row in written), key=lambda each: each.first)


def _rows(spark: SparkSession, sources: Sequence[Source]) -> DataFrame:
    """Rows of the sources, one task for each file."""
    numbers = spark.range(0, len(sources), 1, max(1, len(sources)))
    return numbers.mapInArrow(partial(read_sources, tuple(sources)), ROWS)


def _one(spark: SparkSession, key: bytes, value: bytes) -> DataFrame:
    return spark.createDataFrame([(AFTER, bytearray(key), bytearray(value))], ROWS)


def _written(row: dict[str, Any]) -> WrittenTable:
    """A row as a table: Spark's binary columns come as bytearrays."""
    return WrittenTable(**{**row, "first": bytes(row["first"]), "last": bytes(row["last"])})


# -- in tasks -------------------------------------------------------------------------------------------------------------


def read_sources(sources: Sequence[Source], numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of the sources with these numbers."""
    for batch in numbers:
        for number in batch.column("id").to_pylist():
            yield from _read(sources[number]).to_batches()


def _read(source: Source) -> pa.Table:
    content, what = FsspecDirectory(source.url).read(source.name), f"{source.name} at {source.url}"
    if content is None:
        raise UnavailableError(f"{what} is not there any more")
    if source.checksum is not None and crc32c(content) != source.checksum:
        raise CorruptionError(f"{what} is not what its checksum says")
    table = from_parquet(content, what)
    if source.is_base:
        table = table.add_column(0, "position", pa.array([BEFORE] * len(table), pa.int64()))
    return table.select(_ARROW_ROWS.names).cast(_ARROW_ROWS)


def write_ranges(url: str, size: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write a sorted range, one file after the other; yields a row for each of them."""
    rows = [attrs.asdict(write_part(url, pa.Table.from_batches(part))) for part in parts(batches, size)]
    yield from pa.Table.from_pylist(rows, _WRITTEN_ROWS).to_batches()


def parts(batches: Iterator[pa.RecordBatch], size: int) -> Iterator[list[pa.RecordBatch]]:
    """Sorted pairs in lists of about so many bytes."""
    part, held = list[pa.RecordBatch](), 0
    for batch in batches:
        if batch.num_rows:
            part.append(batch)
            held += batch.nbytes
        if held >= size:
            yield part
            part, held = [], 0
    if part:
        yield part


def write_part(url: str, table: pa.Table) -> WrittenTable:
    """Write sorted pairs, columns `key` and `value`, into the directory with this URL. Blocks."""
    keys, values = (table.column(name).to_pylist() for name in _COLUMNS)
    content, sst = to_parquet(table.select(_COLUMNS)), _sst(list(zip(keys, values, strict=True)))
    directory, stem = FsspecDirectory(url), keys[0][:8].hex()
    names = stored_name(stem, content, ".parquet"), stored_name(stem, sst, ".sst")
    directory.write(names[0], content)
    directory.write(names[1], sst)
    return WrittenTable(
        keys[0], keys[-1], len(keys), names[0], len(content), crc32c(content), names[1], len(sst), crc32c(sst)
    )


def _sst(pairs: Sequence[tuple[bytes, bytes]]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "range.sst")
        write_table(path, pairs)
        return path.read_bytes()


_WRITTEN_ROWS: Final = pa.schema(
    [
        ("first", pa.binary()), ("last", pa.binary()), ("pairs", pa.int64()),
        ("table", pa.string()), ("table_bytes", pa.int64()), ("table_checksum", pa.int64()),
        ("sst", pa.string()), ("sst_bytes", pa.int64()), ("sst_checksum", pa.int64()),
    ]
)  # fmt: skip
