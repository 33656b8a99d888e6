"""Reads the table as Spark does, without Spark: a plan, sent in pickles, and one task after the other."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.types import StructType

from pyspark_virtuallog.read.schema import SCHEMA
from pyspark_virtuallog.source import DefaultSource
from virtuallog.client.scan import scan
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.types import Gap, LogPosition, PlacedBatch

Row: TypeAlias = dict[str, Any]
Reader: TypeAlias = DataSourceReader | DataSourceStreamReader


class Table:
    """A batch read with these options."""

    def __init__(self, cluster: str, schema: StructType = SCHEMA, **options: str) -> None:
        self.reader = DefaultSource({"cluster": cluster, **options}).reader(schema)

    def push(self, *filters: Filter) -> list[Filter]:
        """Filters that Spark has to apply itself."""
        return list(self.reader.pushFilters(list(filters)))

    def plan(self) -> list[bytes]:
        """Plan that the driver sends to executors."""
        return sent(self.reader.partitions())

    def rows(self) -> list[Row]:
        return read(self.reader, self.plan())


def sent(partitions: Sequence[InputPartition]) -> list[bytes]:
    return [pickle.dumps(partition) for partition in partitions]


def read(reader: Reader, plan: Iterable[bytes]) -> list[Row]:
    """The rows of all tasks."""
    return [*each_row(reader, plan)]


def each_row(reader: Reader, plan: Iterable[bytes]) -> Iterator[Row]:
    """The same; no more is read than the rows that are taken, and what comes with them."""
    reader = pickle.loads(pickle.dumps(reader))
    return (row for task in plan for batch in reader.read(pickle.loads(task)) for row in batch.to_pylist())  # type: ignore[union-attr]


async def contents(log: VirtualLog, start: int, stop: int) -> list[Row]:
    """Expected rows, by single entries: gaps that lie side by side are one."""
    chain = (await log.view.refresh()).chain
    rows: list[Row] = []
    async for piece in scan(log, LogPosition(start), LogPosition(stop)):
        for placed in piece:
            segment = chain.segment_at(placed.start)
            where = {
                "segment": str(segment.id) if segment else None,
                "loglet": segment.kind if segment else None,
            }
            if isinstance(placed, Gap):
                rows.append(_row(position=placed.start, gap=placed.kind.value, **where))
            else:
                rows += _rows_of(placed, where)
    return whole_gaps(rows)


def _rows_of(placed: PlacedBatch, where: Row) -> list[Row]:
    return [
        _row(
            position=data.position,
            payload=data.payload,
            time=data.time_ms,
            session=bytes(data.session),
            sequence=data.sequence,
            size=len(data.payload),
            gap=None,
            **where,
        )
        for data in placed.records()
    ]


def _row(**values: Any) -> Row:
    return {name: values.get(name) for name in SCHEMA.names}


def whole_gaps(rows: Iterable[Row]) -> list[Row]:
    """Rows of a gap that was cut, between tasks or pieces, as the first of them."""
    joined: list[Row] = []
    for row in rows:
        before = joined[-1] if joined else {}
        if not row["gap"] or (row["gap"], row["segment"]) != (before.get("gap"), before.get("segment")):
            joined.append(row)
    return joined


def plain(rows: Iterable[Row]) -> list[Row]:
    """Times as milliseconds, as `contents` has them."""
    return [{**row, "time": row["time"] and round(row["time"].timestamp() * 1000)} for row in rows]
