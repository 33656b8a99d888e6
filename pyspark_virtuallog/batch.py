"""Batch reads: what Spark calls for `spark.read.format("virtuallog")`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_virtuallog.filters import EVERYTHING, Wanted, take
from pyspark_virtuallog.options import ReadOptions
from pyspark_virtuallog.reading import read_task
from pyspark_virtuallog.resolving import Resolver, check_order
from pyspark_virtuallog.schema import check_schema


class LogReader(DataSourceReader):
    """Reads a range. It is planned once for each `load()`: `latest` is the tail as of the first action."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_schema(schema)
        self.options = options
        self.schema = schema
        self.wanted = EVERYTHING

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks; one of nothing if there is nothing to read, as Spark would make one up."""
        resolver = Resolver(self.options)
        start, stop = resolver.start(), resolver.stop()
        check_order(start, stop)
        tasks = resolver.tasks(start.position, stop.position, self.wanted)
        return [InputPartition(task) for task in tasks] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        return read_partition(partition, self.schema, self.wanted)


class PushdownReader(LogReader):
    """The same, which also takes filters. A class of its own: Spark refuses a reader that can do this while
    `spark.sql.python.filterPushdown.enabled` is false, as it is by default.

    PySpark up to 4.3.0 gives this reader, narrowed as it is, to every other scan of the same table, which then lacks rows: one query for
    each `load()` (docs/spark.md)."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 -- named by Spark
        """Take those that `filters.take` takes; gives back the others."""
        self.wanted, others = take(filters)
        return others


def read_partition(partition: InputPartition, schema: StructType, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The rows of what `partitions` has made, batch or stream."""
    if partition.value is None:
        return iter(())
    return read_task(partition.value, to_arrow_schema(schema, timezone="UTC"), wanted)
