"""Batch reader: implements `spark.read.format("virtuallog")`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_virtuallog.clients import with_retries
from pyspark_virtuallog.read.filters import EVERYTHING, RowFilter, take
from pyspark_virtuallog.read.options import ReadOptions
from pyspark_virtuallog.read.range_resolver import Resolver, check_order
from pyspark_virtuallog.read.schema import check_schema
from pyspark_virtuallog.read.task_plan import ReadTask
from pyspark_virtuallog.read.task_reader import read_task


class LogReader(DataSourceReader):
    """Reads a range. It is planned once for each `load()`: `latest` is the tail as of the first
    action."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_schema(schema)
        self.options = options
        self.schema = schema
        self.wanted = EVERYTHING

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks; an empty one if there is nothing to read, as Spark would make one up."""
        resolver = Resolver.of(self.options)
        resolver.log()  # an absent cluster is reported at once; later failures are retried
        tasks = with_retries(self.options.patience_seconds, partial(self._plan, resolver))
        return [InputPartition(task) for task in tasks] or [InputPartition(None)]

    def _plan(self, resolver: Resolver) -> list[ReadTask]:
        start, stop = resolver.start(), resolver.stop()
        check_order(start, stop)
        return resolver.tasks(start.position, stop.position, self.wanted)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        return read_partition(partition, self.schema, self.wanted)


class PushdownReader(LogReader):
    """A reader that also takes filters. A class of its own: Spark refuses such a reader while
    `spark.sql.python.filterPushdown.enabled` is false, the default.

    PySpark up to 4.3.0 keeps this reader, narrowed by its filters, with the table
    (`PythonDataSourceV2.readInfo`) and gives it to every other scan of the table, which then lacks
    rows. A reader cannot tell a second scan from the first, so users must promise that there is
    none (`ReadOptions.single_scan`).
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 -- named by Spark
        """Take the filters that `filters.take` takes; returns the others."""
        self.wanted, others = take(filters)
        return others


def read_partition(partition: InputPartition, schema: StructType, wanted: RowFilter) -> Iterator[pa.RecordBatch]:
    """The rows of a partition that `partitions` has made, batch or stream."""
    if partition.value is None:
        return iter(())
    return read_task(partition.value, to_arrow_schema(schema, timezone="UTC"), wanted)
