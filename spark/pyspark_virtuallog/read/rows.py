"""Conversion of rows of an archive or a log into rows for Spark: whole columns, no loop per entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_virtuallog.read.task_plan import Part
from virtuallog.contract.errors import CorruptionError, TrimmedError
from virtuallog.contract.types import GapKind
from virtuallog_loglets.archive.core import rows

_NEEDS: Final = {"size": "payload", "segment": "position", "loglet": "position"}
"""Columns that are derived from another one, or only have its length."""
_ALWAYS: Final = ("position", "gap", "gap_stop")
"""Columns that are always needed: for missing positions, and for progress."""


def source_columns(names: Sequence[str], *, with_sessions: bool = True) -> list[str]:
    """Columns of `virtuallog_loglets.archive.core.rows.SCHEMA` that these columns of ours need,
    with those of the session if it is checked. Others are not decoded."""
    needed = {_NEEDS.get(name.lower(), name.lower()) for name in names} | set(_ALWAYS)
    needed |= {"session"} if with_sessions else set()
    return [name for name in rows.SCHEMA.names if name in needed]


def batch_of(table: pa.Table, part: Part, schema: pa.Schema) -> pa.RecordBatch:
    """The rows as a batch of this schema, whose columns are some of ours, in any order."""
    segment = part.segment
    labels = {"segment": str(segment.id) if segment else None, "loglet": segment.kind if segment else None}
    columns = [_column(table, field, labels) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def stop_of(table: pa.Table) -> int:
    """One past the last position that the rows cover."""
    last = table.num_rows - 1
    gap_stop = table.column("gap_stop")[last].as_py()
    return int(gap_stop) if gap_stop is not None else int(table.column("position")[last].as_py()) + 1


def check_whole(table: pa.Table) -> None:
    """Check that no position is missing.

    Raises:
        TrimmedError: a position has been trimmed.
        CorruptionError: every copy is gone.
    """
    gaps = table.column("gap")
    if gaps.null_count == len(gaps):
        return
    for kind in (GapKind.TRIMMED, GapKind.LOST):
        found = table.filter(pc.equal(gaps, kind.value))
        if not found.num_rows:
            continue
        if kind is GapKind.TRIMMED:
            raise TrimmedError(stop_of(found))
        raise CorruptionError(f"position {found.column('position')[0].as_py()} is lost: no copy of it is left")


def _column(table: pa.Table, field: pa.Field, labels: dict[str, str | None]) -> pa.Array:
    name = field.name.lower()
    if name in labels:
        return pa.repeat(pa.scalar(labels[name], field.type), table.num_rows)
    if name == "size":
        return pc.binary_length(_whole(table.column("payload"))).cast(field.type)
    column = _whole(table.column(name))
    return column if column.type == field.type else column.cast(field.type)


def _whole(column: pa.ChunkedArray) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
