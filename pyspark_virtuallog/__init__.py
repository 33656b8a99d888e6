"""The log as a table of Spark: `spark.read.format("virtuallog")`, documented in docs/spark.md.

Spark imports every package whose name begins with `pyspark_`, whatever a query reads, and asks it for `DefaultSource`: so
this module imports nothing, and gives that class when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark_virtuallog.source import DefaultSource

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> object:
    if name == "DefaultSource":
        from pyspark_virtuallog.source import DefaultSource

        return DefaultSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
