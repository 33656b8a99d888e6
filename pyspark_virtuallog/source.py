"""The data source of Spark: its short name, its schema, and who reads and writes.

Spark makes a `DefaultSource` in many processes and pickles it between them, so it holds options and nothing else.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from pyspark_virtuallog.schema import SCHEMA

NAME: Final = "virtuallog"
"""What `format(...)` is given."""


class DefaultSource(DataSource):
    """A log as a table."""

    @classmethod
    def name(cls) -> str:
        """The short name."""
        return NAME

    def schema(self) -> StructType:
        """All columns; fewer by `.schema("position LONG")`."""
        return SCHEMA
