"""Data source of observations: each task reads its rows as the log's source does, and returns
observations of them.

So entries stay in the processes that have read them. As a query over the table, the same would send
each payload to the JVM and back, ten times the cost of reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import attrs
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_virtuallog.audit.core.damaged_ranges import read_around
from pyspark_virtuallog.audit.core.observations import SCHEMA
from pyspark_virtuallog.audit.core.row_observer import UNREADABLE, PayloadObserver, RowObserver, observe
from pyspark_virtuallog.audit.core.sink_markers import MarkerObserver
from pyspark_virtuallog.audit.database_entries import DatabaseObserver
from pyspark_virtuallog.read.batch import LogReader
from pyspark_virtuallog.read.options import batch_options
from pyspark_virtuallog.read.schema import SCHEMA as ROWS
from pyspark_virtuallog.read.task_plan import Part, ReadTask

NAME: Final = "virtuallog_audit"
DEPTH: Final = "keydepth"
"""Option: number of a path's components that make a prefix; without it entries are not treated as a
database's. Spark passes names of options in lower case."""


class AuditSource(DataSource):
    """Takes the options of a batch read, and `DEPTH`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        found: StructType = from_arrow_schema(SCHEMA)
        return found

    def reader(self, schema: StructType) -> DataSourceReader:
        options = {key: value for key, value in self.options.items() if key.lower() != DEPTH}
        depth = self.options.get(DEPTH)
        return AuditReader(LogReader(batch_options(options), ROWS), None if depth is None else int(depth))


class AuditReader(DataSourceReader):
    """Reader that observes the rows of a log's reader."""

    def __init__(self, log: LogReader, depth: int | None) -> None:
        self._log = log
        self._depth = depth

    def partitions(self) -> Sequence[InputPartition]:
        return self._log.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        looks: list[PayloadObserver] = [MarkerObserver()]
        if self._depth is not None:
            looks.append(DatabaseObserver(self._depth))
        observer = RowObserver()
        yield from observe(self._rows(partition.value, observer), looks, observer)

    def _rows(self, task: ReadTask | None, observer: RowObserver) -> Iterator[pa.RecordBatch]:
        """Rows of all parts of the task, as far as they can be read."""
        if task is None:
            return
        for part in task.parts:
            yield from read_around(
                partial(self._read, task, part), part.start, part.stop, partial(_damage, part, observer)
            )

    def _read(self, task: ReadTask, part: Part, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        return self._log.read(InputPartition(attrs.evolve(task, parts=(attrs.evolve(part, start=start, stop=stop),))))


def _damage(part: Part, observer: RowObserver, start: int, stop: int, reason: str) -> pa.RecordBatch:
    """A gap of a sort of its own: these positions are damaged, so they are not missing."""
    observer.remarks.add(UNREADABLE, start, f"[{start}, {stop}): {reason}")
    where = {"segment": str(part.segment.id), "loglet": part.segment.kind} if part.segment is not None else {}
    row = {"position": start, "gap": UNREADABLE, **where}
    return pa.RecordBatch.from_pylist([row], schema=to_arrow_schema(ROWS, timezone="UTC"))
