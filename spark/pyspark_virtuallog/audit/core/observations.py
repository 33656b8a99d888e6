"""Observations of tasks about their rows: one struct column for each sort, all but one of which are
null in a row.

    piece   where a run of adjacent rows begins and ends: pieces lie side by side
    gap     one gap that is no filler; of fillers there may be as many as batches, so they are only counted
    tally   content of a segment in one time bucket
    run     adjacent sequence numbers of one session, as they stand in the log
    remark  an anomaly by itself, or something only worth counting
    report  a database replica's report about its state
    growth  commands of the database to the keys with one prefix, within one time bucket
    marker  a session that a marker of the sink names
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

_KINDS: Final[Mapping[str, Sequence[tuple[str, pa.DataType]]]] = {
    "piece": (
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("ends_in_gap", pa.bool_()),  # then it ends where the next one begins
        ("first_segment", pa.string()),
        ("last_segment", pa.string()),
        ("first_time_ms", pa.int64()),  # null: no entries
        ("last_time_ms", pa.int64()),
        ("kept_from", pa.int64()),  # behind the last gap of what is trimmed; null if nothing is trimmed
    ),
    "gap": (
        ("kind", pa.string()),
        ("count", pa.int64()),
        ("start", pa.int64()),
        ("stop", pa.int64()),  # null: the last row of its piece
    ),
    "tally": (
        ("segment", pa.string()),
        ("loglet", pa.string()),
        ("span", pa.int64()),  # in buckets of time; so each task can choose a length that makes few rows
        ("bucket", pa.int64()),  # the first one of the span; null: gaps only, which have no time
        ("entries", pa.int64()),
        ("bytes", pa.int64()),
        ("fillers", pa.int64()),
        ("first", pa.int64()),
        ("last", pa.int64()),
    ),
    "run": (
        ("session", pa.binary()),
        ("first", pa.int64()),
        ("count", pa.int64()),
        ("start", pa.int64()),
        ("last", pa.int64()),
        ("bytes", pa.int64()),
    ),
    "remark": (
        ("check", pa.string()),
        ("count", pa.int64()),
        ("position", pa.int64()),
        ("text", pa.string()),
    ),
    "report": (
        ("compared", pa.int64()),
        ("replica", pa.string()),
        ("digests", pa.string()),  # JSON with sorted keys: equal digests are equal texts
    ),
    "growth": (
        ("bucket", pa.int64()),
        ("prefix", pa.string()),
        ("writes", pa.int64()),
        ("deletes", pa.int64()),
        ("bytes", pa.int64()),
    ),
    "marker": (
        ("query", pa.string()),
        ("batch", pa.int64()),
        ("position", pa.int64()),
        ("session", pa.binary()),  # null: a marker that names none
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("entries", pa.int64()),
    ),
}  # fmt: skip
STRUCTS: Final = {kind: pa.struct(list(fields)) for kind, fields in _KINDS.items()}
SMALL: Final = ("piece", "gap", "tally", "remark")
SCHEMA: Final = pa.schema([(kind, struct) for kind, struct in STRUCTS.items()])


def rows_of(kind: str, rows: Iterable[Mapping[str, Any]]) -> pa.RecordBatch:
    """Observations of one sort, each a mapping of all its fields."""
    return of_struct(kind, pa.array(list(rows), type=STRUCTS[kind]))


def of_columns(kind: str, columns: Mapping[str, Any]) -> pa.RecordBatch:
    """Observations of one sort by columns: arrays of numpy, Arrow or Python values."""
    struct = STRUCTS[kind]
    arrays = [_array(columns[field.name]).cast(field.type) for field in struct]
    return of_struct(kind, pa.StructArray.from_arrays(arrays, fields=list(struct)))


def of_struct(kind: str, values: pa.StructArray) -> pa.RecordBatch:
    """Rows in which all other sorts are null."""
    columns = [values if field.name == kind else pa.nulls(len(values), field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _array(values: Any) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values)
