"""Spark reads a real log: by its short name, with SQL, and as a stream that is stopped and started again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_virtuallog.spark_errors import explain
from tests.spark.one_node import in_thread, log_of_one_node
from virtuallog.contract.types import LogPosition

pytestmark = [pytest.mark.processes, pytest.mark.slow]
ENTRIES = 2_000
LIMIT_SECONDS = 300


def reads(spark: SparkSession, cluster: str, schema: str | None = None, **options: str) -> DataFrame:
    reader = spark.read.format("virtuallog").options(**options)
    return (reader.schema(schema) if schema else reader).load(cluster)


def said(call: Callable[[], object]) -> str:
    """The one line that is left of what Spark raises."""
    with pytest.raises(Exception) as caught:  # which it is depends on where Spark was
        call()
    return str(explain(caught.value))


def query(spark: SparkSession, cluster: str) -> None:
    """Rows and sums, few columns, SQL, filters, and what is refused."""
    table = reads(spark, cluster, minPartitions="3")
    total = table.selectExpr(
        "count(payload)", "sum(position)", "sum(size)", "count(distinct segment)", "max(loglet)"
    ).first()
    assert total == (ENTRIES, ENTRIES * (ENTRIES - 1) // 2, 4 * ENTRIES, 2, "native")

    narrow = reads(spark, cluster, "payload BINARY, POSITION LONG")
    assert narrow.where("position = 7").collect() == [(bytearray(b"0007"), 7)]

    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW log USING virtuallog OPTIONS (cluster '{cluster}', startingOffsets '1990')"
    )
    assert spark.sql("SELECT count(*) FROM log WHERE gap IS NULL AND time > timestamp'2020-01-01'").first() == (10,)

    assert said(reads(spark, cluster, "position INT").count) == "schema: column position is of type BIGINT, not INT"
    assert said(reads(spark, cluster, endingOffsets="9999").count) == f"position 9999 is past the tail {ENTRIES}"


def query_with_filters(spark: SparkSession, cluster: str) -> None:
    """The same rows with filters as without, and Spark has nothing left to do for those that were taken. It is refused to
    readers that do not promise to scan once. Wrong rows after a broken promise are Spark's fault, and as documented: if this fails
    because Spark is mended, `singleScan` can go."""
    pushing = {"pushdown": "true", "singleScan": "true"}
    where = "position >= 100 AND position < 200 AND time > timestamp'2020-01-01' AND gap IS NULL"
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        pushed = reads(spark, cluster, **pushing).where(where)
        assert "Filter (" not in pushed._jdf.queryExecution().executedPlan().toString()
        assert pushed.count() == 100
        assert said(reads(spark, cluster, pushdown="true").count).startswith("pushdown: PySpark up to 4.3.0")
        twice = reads(spark, cluster, **pushing)
        last = twice.where(f"position >= {ENTRIES - 10}")
        assert last.count() == 10
        assert last.union(twice).count() == 2 * 10, (
            "PySpark is mended: it was 20, and should be 10 more than there are entries"
        )
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    assert "[DATA_SOURCE_PUSHDOWN_DISABLED]" in said(reads(spark, cluster, **pushing).count)


async def test_spark_reads_a_log_by_its_short_name(spark: SparkSession, tmp_path: Path) -> None:
    """Spark finds the source by its short name, as any other format."""
    async with log_of_one_node(tmp_path) as (cluster, log):
        for begin in (0, ENTRIES // 2):
            await log.append_many([b"%04d" % (begin + index) for index in range(ENTRIES // 2)])
            if not begin:
                await log.reconfig_extend("native")
        await in_thread(query, spark, cluster)
        await in_thread(query_with_filters, spark, cluster)
        await log.prefix_trim(LogPosition(5))

        assert await in_thread(said, reads(spark, cluster, startingOffsets="0").count) == "trimmed: the log starts at 5"


def stream(spark: SparkSession, cluster: str, folder: Path, *, available_now: bool = True, **options: str) -> list[str]:
    """Run the query to its end, or to its first rows; returns the end of each of its micro-batches. It is started again if
    Spark has not waited for its own process of Python to start: on a busy machine 10 s are not enough."""
    log = spark.readStream.format("virtuallog").options(cluster=cluster, **options).load()
    writer = log.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    writer = writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime="100 milliseconds")
    while True:
        query = writer.start(str(folder / "table"))
        try:
            if available_now:
                assert query.awaitTermination(LIMIT_SECONDS)
            else:
                query.processAllAvailable()
            return [progress.sources[0].endOffset for progress in query.recentProgress if progress.numInputRows]
        except PySparkException as error:
            if "failed to connect back" not in str(error):
                raise
        finally:
            query.stop()


@pytest.mark.long
async def test_a_stream_delivers_each_entry_once(spark: SparkSession, tmp_path: Path) -> None:
    """It is stopped and started again, the chain changes meanwhile, and what has been appended when it begins is all that
    `availableNow` reads. A checkpoint is of one log: not of another one, and not of what has been trimmed."""
    async with log_of_one_node(tmp_path) as (cluster, log):
        await log.append_many([b"%04d" % index for index in range(1_000)])
        run = partial(stream, spark, cluster, tmp_path, startingOffsets="earliest")
        ends = await in_thread(partial(run, maxOffsetsPerTrigger="400"))
        assert [f'"position": {stop}' in end for end, stop in zip(ends, (400, 800, 1_000), strict=True)] == [True] * 3

        await log.reconfig_extend("native")
        await log.append_many([b"%04d" % index for index in range(1_000, 1_500)])
        assert await in_thread(partial(run, available_now=False)) != []
        await log.append_many([b"%04d" % index for index in range(1_500, ENTRIES)])
        await in_thread(run)
        table = await in_thread(
            lambda: spark.read.parquet(str(tmp_path / "table")).select("position", "payload").collect()
        )
        assert sorted((row[0], bytes(row[1])) for row in table) == [(at, b"%04d" % at) for at in range(ENTRIES)]

        with pytest.raises(PySparkException) as caught:
            await in_thread(partial(run, startingOffset="7"))
        assert explain(caught.value) is not None
        assert "did you mean startingOffsets?" in str(caught.value)
        assert "UnboundLocalError" not in str(caught.value), "Spark's own error hides ours"

        await log.append(b"trimmed before it is read")
        await log.append(b"last")
        await log.prefix_trim(LogPosition(ENTRIES + 1))
        assert await in_thread(said, run) == f"trimmed: the log starts at {ENTRIES + 1}"
        assert len(await in_thread(partial(run, failOnDataLoss="false"))) == 1
        async with log_of_one_node(tmp_path / "other") as (other, _):
            refused = await in_thread(said, partial(stream, spark, other, tmp_path))
            assert refused.startswith("wrong cluster: expected ")
