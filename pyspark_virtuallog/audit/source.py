"""A source of observations: each task reads its rows as the source of the log does, and gives what it has seen in them.

So entries stay in the processes that have read them. As a query over the table the same would send each payload to the JVM and
back, ten times what reading costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pyspark_virtuallog.audit.database_entries import DatabaseLook
from pyspark_virtuallog.audit.observations import SCHEMA
from pyspark_virtuallog.audit.observing import UNREADABLE, Look, Observer, observe
from pyspark_virtuallog.audit.sink_markers import MarkerLook
from pyspark_virtuallog.batch import LogReader
from pyspark_virtuallog.options import batch_options
from pyspark_virtuallog.schema import SCHEMA as ROWS
from virtuallog.errors import CorruptionError, MalformedError

NAME: Final = "virtuallog_audit"
DEPTH: Final = "keydepth"
"""Option: how many components of a path make a prefix; without it entries are not those of a database. Spark gives names of options in
small letters."""


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
    """Observes what another one reads."""

    def __init__(self, log: LogReader, depth: int | None) -> None:
        self._log = log
        self._depth = depth

    def partitions(self) -> Sequence[InputPartition]:
        return self._log.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        looks: list[Look] = [MarkerLook()]
        if self._depth is not None:
            looks.append(DatabaseLook(self._depth))
        observer = Observer()
        yield from observe(_readable(self._log.read(partition), observer), looks, observer)


def _readable(rows: Iterable[pa.RecordBatch], observer: Observer) -> Iterator[pa.RecordBatch]:
    """The rows up to what is damaged wherever it is kept: an audit tells of that, and goes on elsewhere."""
    try:
        yield from rows
    except (CorruptionError, MalformedError) as error:
        observer.remarks.add(UNREADABLE, observer.reached, str(error))
