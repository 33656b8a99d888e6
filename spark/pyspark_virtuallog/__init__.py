"""The log as a table of Spark: `spark.read.format("virtuallog")`, documented in docs/howto/spark.md.

Spark imports every package whose name begins with `pyspark_`, no matter what a query reads, and
asks it for `DefaultSource`. So this module imports nothing, and provides its names lazily.

`source.py` is the entry point. Partitions of a read are planned in `read/task_plan.py`; a write
commits in `write/batch_commit.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark_virtuallog.read.archive_table import read_archives
    from pyspark_virtuallog.source import DefaultSource

__all__ = ["DefaultSource", "read_archives"]


def __getattr__(name: str) -> object:
    if name == "DefaultSource":
        from pyspark_virtuallog.source import DefaultSource

        return DefaultSource
    if name == "read_archives":
        from pyspark_virtuallog.read.archive_table import read_archives

        return read_archives
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
