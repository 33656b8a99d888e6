"""A stream into a log, whose tasks fail and whose driver is killed where that hurts most, then a job. Run by `test_sink.py`, as a
process:

    python -m tests.spark.sink.crashing_stream CLUSTER FOLDER BATCHES

The sink is the real one. Of every second batch the first attempt of one task fails behind its last row. FOLDER/crash names the batch
in whose commit the driver is killed, once, and where: `3 before` or `3 behind` its marker.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_virtuallog.session import open_session
from pyspark_virtuallog.source import DefaultSource
from pyspark_virtuallog.write.sink import LogStreamWriter, Written, stream_writer
from tests.spark.conftest import settings

FOLDER = "CRASHING_FOLDER"
"""Environment variable with the folder, for Spark's workers."""
ROWS = 3000
"""Rows of a batch of the stream."""
JOB_ROWS = 20_000


class CrashingSource(DefaultSource):
    @classmethod
    def name(cls) -> str:
        return "crashing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        writer = stream_writer(self.options, schema, overwrite=overwrite)
        assert isinstance(writer, LogStreamWriter)
        return CrashingWriter(writer.target, writer.column)


class CrashingWriter(LogStreamWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return super().write(failing_once(iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        crash(f"{batchId} before")
        super().commit(messages, batchId)
        crash(f"{batchId} behind")


def failing_once(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from rows
    context = TaskContext.get()
    assert context is not None
    batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
    if batch % 2 and context.partitionId() == 1 and context.attemptNumber() == 0:
        raise RuntimeError("this attempt fails behind its last row")


def crash(here: str) -> None:
    """Kill the driver, if it is to be killed here."""
    folder = Path(os.environ[FOLDER])
    order = folder / "crash"
    if order.exists() and order.read_text() == here:
        order.unlink()
        os.kill(int((folder / "driver").read_text()), signal.SIGKILL)
        time.sleep(10)  # until what runs this process has noticed


def main(cluster: str, folder: Path, batches: int) -> None:
    os.environ[FOLDER] = str(folder)
    with open_session("crashing", master="local[2,3]", configuration=settings(folder)) as spark:
        assert spark._jvm is not None
        (folder / "driver").write_text(str(spark._jvm.java.lang.ProcessHandle.current().pid()))
        spark.dataSource.register(CrashingSource)
        rows = (
            spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 2).load()
        )
        query = (
            rows.selectExpr("cast(value as string) as value")
            .writeStream.format("crashing")
            .option("cluster", cluster)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )
        while (query.lastProgress or {"batchId": -1})["batchId"] < batches - 1:
            assert query.isActive, query.exception()
            time.sleep(0.1)
        query.stop()
        (folder / "read").write_text(str(write_and_read(spark, cluster)))


def write_and_read(spark: SparkSession, cluster: str) -> int:
    """A named job, which is run twice, counts once. Returns the number of all rows that are committed."""
    rows = spark.range(0, JOB_ROWS, numPartitions=3).selectExpr("concat('job ', id) as value")
    for _ in range(2):
        named = rows.write.format("virtuallog").options(cluster=cluster, txnAppId="nightly", txnVersion="7")
        named.mode("append").save()
    table = spark.read.format("virtuallog").options(cluster=cluster, isolationLevel="read_committed").load()
    return int(table.count())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
