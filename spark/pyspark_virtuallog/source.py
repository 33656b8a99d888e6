"""The data source of Spark: its short name, its schema, and its readers and writers.

Spark makes a `DefaultSource` in many processes and pickles it between them, so it holds only
options. Spark also asks every installed source for its name, so readers and writers are imported
only when used.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from pyspark_virtuallog.read.schema import SCHEMA

NAME: Final = "virtuallog"
"""Short name for `format(...)`."""


class DefaultSource(DataSource):
    """A log as a table. docs/howto/spark.md is its page for users."""

    @classmethod
    def name(cls) -> str:
        """The short name."""
        return NAME

    def schema(self) -> StructType:
        """All columns; fewer by `.schema("position LONG")`."""
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reader of `spark.read`."""
        from pyspark_virtuallog.read.batch import LogReader, PushdownReader
        from pyspark_virtuallog.read.options import batch_options

        options = batch_options(self.options)
        return (PushdownReader if options.pushdown else LogReader)(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 -- named by Spark
        """Reader of `spark.readStream`."""
        from pyspark_virtuallog.read.stream import stream_reader

        reader: DataSourceStreamReader = stream_reader(self.options, schema)
        return reader

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Writer of `DataFrame.write`."""
        from pyspark_virtuallog.write.sink import batch_writer

        writer: DataSourceWriter = batch_writer(self.options, schema, overwrite=overwrite)
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 -- named by Spark
        """Writer of `DataFrame.writeStream`."""
        from pyspark_virtuallog.write.sink import stream_writer

        writer: DataSourceStreamWriter = stream_writer(self.options, schema, overwrite=overwrite)
        return writer
