"""The query of the scan, and the Spark session for it.

*The query* is that of a user who checks what is in a log: how many entries there are, of how many bytes, and a checksum of their
payloads. Spark has no way of leaving out a payload there: it goes through the socket to the JVM, into a row, and through CRC32.
Only the columns that are needed are asked for, as docs/howto/spark.md advises.

    SELECT count(payload), sum(size), sum(crc32(payload)) FROM log
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import trio
from pyspark.sql import DataFrame, SparkSession

from pyspark_virtuallog import read_archives
from pyspark_virtuallog.session import open_session
from virtuallog_lab.experiments.spark_scan.contents import Contents

COLUMNS: Final = "payload BINARY, size INT"
HEAP: Final = "1g"
"""Spark's default."""
QUERY: Final = ("count(payload)", "sum(size)", "sum(crc32(payload))")


@asynccontextmanager
async def opened_spark(cores: int, folder: Path) -> AsyncIterator[SparkSession]:
    """Open Spark on so many cores of this machine. It has its defaults but for its output folders,
    and Java has all of its heap from the start: otherwise Java takes more of its heap for a long
    while under any load, which would look like growth.

    Raises:
        UnsupportedError: no Java here that Spark can use.
    """
    settings = {
        "spark.driver.memory": HEAP,
        "spark.driver.extraJavaOptions": f"-Xms{HEAP}",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    with ExitStack() as stack:
        session = open_session("bench", master=f"local[{cores}]", configuration=settings)
        yield await trio.to_thread.run_sync(stack.enter_context, session)  # it blocks for seconds


async def ask(spark: SparkSession, cluster: Path, stop: int) -> Contents:
    """Run the query over everything below `stop`. Cancellation does not wait for Spark."""
    return await _contents(partial(_log, spark, cluster, stop))


async def ask_files(spark: SparkSession, cluster: Path, stop: int) -> Contents:
    """Run the query over the archived part, by `read_archives`."""

    def table() -> DataFrame:
        archived = read_archives(spark, cluster)
        return archived.frame if stop == archived.stop else archived.frame.where(f"position < {stop}")

    return await _contents(table)


async def _contents(table: Callable[[], DataFrame]) -> Contents:
    def collect() -> Contents:
        return Contents(*(value or 0 for value in table().selectExpr(*QUERY).collect()[0]))

    return await trio.to_thread.run_sync(collect, abandon_on_cancel=True)


def _log(spark: SparkSession, cluster: Path, stop: int) -> DataFrame:
    cores = str(spark.sparkContext.defaultParallelism)  # else a read of a million positions is one task
    options = {"endingOffsets": str(stop), "minPartitions": cores}
    return spark.read.format("virtuallog").schema(COLUMNS).options(**options).load(str(cluster))
