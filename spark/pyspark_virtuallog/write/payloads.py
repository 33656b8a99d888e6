"""Chunks of payloads from the rows of an Arrow batch, checked before any of them is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_virtuallog.markers.marker import MAGIC
from virtuallog.contract.batch import ENTRY_BYTES_MAX
from virtuallog.contract.errors import InvalidSettingError, MalformedError, TooLargeError
from virtuallog_database.engines.core import entry as database_entry

CHUNK_BYTES: Final = 1 << 20
"""Bytes of payloads in one chunk, about; a larger payload is a chunk of its own."""
CHUNK_ENTRIES: Final = 4096
"""Entries of an appender's batch, too: smaller chunks would be gathered again, larger ones would
not fit into one."""


COLUMNS: Final = ("payload", "value")
"""Names of the payload's column: this source's, and that of Spark's Kafka sink."""
_TYPES: Final = ("binary", "string")


def find_column(columns: Sequence[tuple[str, str]]) -> str:
    """Name of the column whose values become entries, of (name, type) as Spark spells types.

    Raises:
        InvalidSettingError: there is none, it is of another type, or there are others, which would
            be lost.
    """
    found = ", ".join(f"{name} {kind.upper()}" for name, kind in columns) or "nothing"
    if len(columns) != 1 or columns[0][0].lower() not in COLUMNS or columns[0][1] not in _TYPES:
        raise InvalidSettingError(
            "schema", f"one column is written, payload or value, BINARY or STRING; this has {found}"
        )
    return columns[0][0]


def payloads_of(batch: pa.RecordBatch, name: str) -> pa.Array:
    """The column as binary values; text is UTF-8 already."""
    column = batch.column(name)
    is_large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    return column.cast(pa.large_binary() if is_large else pa.binary())


def check_payloads(column: pa.Array, *, on_database: bool) -> None:
    """Check that all payloads may be entries of the log. `on_database`: replicas play it, and stop
    at entries that look like theirs and are not.

    Raises:
        MalformedError: one is null, or begins like a marker or an entry of a database.
        TooLargeError: one is too large for an entry.
    """
    if column.null_count:
        raise MalformedError(f"row {_first(column.is_null())} of a batch has no payload: it is null")
    largest = pc.max(pc.binary_length(column)).as_py() or 0
    if largest > ENTRY_BYTES_MAX:
        raise TooLargeError(what="bytes in a payload", size=largest, limit=ENTRY_BYTES_MAX)
    _refuse(column, MAGIC, "a marker of committed rows")
    if on_database:
        _refuse(column, database_entry.MAGIC, "an entry of the database that stands on this log")


def _refuse(column: pa.Array, prefix: bytes, what: str) -> None:
    found = pc.starts_with(column, pattern=prefix)
    if pc.any(found).as_py():
        raise MalformedError(f"the payload of row {_first(found)} of a batch begins with {prefix!r}, like {what}")


def _first(found: pa.BooleanArray) -> int:
    row: int = pc.index(found, True).as_py()
    return row


def chunks_of(column: pa.Array) -> Iterator[list[bytes]]:
    """All payloads, in order, in lists of about `CHUNK_BYTES` and at most `CHUNK_ENTRIES`; a larger
    payload is alone."""
    ends = np.cumsum(pc.binary_length(column).to_numpy(zero_copy_only=False), dtype=np.int64)
    start, passed = 0, 0
    while start < len(ends):
        fitting = int(np.searchsorted(ends, passed + CHUNK_BYTES, side="right"))
        stop = min(max(fitting, start + 1), start + CHUNK_ENTRIES)
        yield column.slice(start, stop - start).to_pylist()
        start, passed = stop, int(ends[stop - 1])
