"""Driver of Spark that the stream experiment runs, and kills:

    python -m virtuallog_lab.experiments.spark_stream.driver follow|finish|collect CLUSTER FOLDER

`follow` runs the query until its stdin ends, as it does when the parent is gone. `finish` reads
what is there, and ends; then it does what `collect` does alone: it puts position and digest of each
row of the table into FOLDER/table.npy.
"""

from __future__ import annotations

import select
import sys
from pathlib import Path
from typing import Final

import numpy as np
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_virtuallog.session import open_session
from pyspark_virtuallog.spark_errors import explain
from virtuallog_lab.experiments.spark_stream.check import DIGEST_SQL, Entries

CORES: Final = 2
HOLD: Final = "spark-stream"
TABLE: Final = "table"
CHECKPOINT: Final = "checkpoint"
TRIGGER: Final = "3 seconds"
WAIT_SECONDS: Final = 1
"""Between two looks at stdin."""
STARTS_MAX: Final = 10
"""Tries to start a query: on a machine that is busy Spark does not wait for its own process of Python."""
_POSITIONS: Final = str(1 << 50)
"""A loglet of the kind paxos leaves most positions empty, so their number says nothing: two tasks share a batch."""


def settings(folder: Path) -> dict[str, str]:
    """Settings of Spark: small, and no files elsewhere, even if it is killed."""
    return {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC -XX:-UsePerfData -Djava.io.tmpdir={folder / 'temporary'}",
        "spark.local.dir": str(folder / "temporary"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": str(CORES),
    }


def run_query(spark: SparkSession, cluster: str, folder: Path, *, to_the_end: bool) -> None:
    """Run the query until its stdin ends, or until it has read what there is. Any failure of it
    ends this program, except Spark's own haste."""
    options = {
        "hold": HOLD,
        "startingOffsets": "earliest",
        "minPartitions": str(CORES),
        "positionsPerPartition": _POSITIONS,
    }
    log = spark.readStream.format("virtuallog").schema("position LONG, payload BINARY, gap STRING").options(**options)
    rows = log.load(cluster).where("gap IS NULL").select("position", "payload")
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(folder / CHECKPOINT))
    writer = writer.trigger(availableNow=True) if to_the_end else writer.trigger(processingTime=TRIGGER)
    for attempt in range(STARTS_MAX):
        query = writer.start(str(folder / TABLE))
        try:
            while not query.awaitTermination(WAIT_SECONDS):
                if not to_the_end and _has_ended():
                    query.stop()
        except PySparkException as error:
            if "failed to connect back" not in str(error) or attempt == STARTS_MAX - 1:
                raise
        else:
            return


def collect(spark: SparkSession, folder: Path) -> None:
    """Through the list of files that Spark's sink keeps: those of attempts that have failed lie there, too, and do not count."""
    rows = spark.read.parquet(str(folder / TABLE)).selectExpr("position", f"{DIGEST_SQL} AS digest").toArrow()
    keys, values = (np.asarray(rows.column(name).to_numpy(), np.int64) for name in ("position", "digest"))
    Entries(keys, values).save(folder / "table.npy")


def _has_ended() -> bool:
    ready, _, _ = select.select([sys.stdin], [], [], 0)
    return bool(ready) and not sys.stdin.read(1)


def main(what: str, cluster: str, folder: Path) -> None:
    (folder / "temporary").mkdir(exist_ok=True)
    with open_session("spark-stream", master=f"local[{CORES}]", configuration=settings(folder)) as spark:
        try:
            if what != "collect":
                run_query(spark, cluster, folder, to_the_end=what == "finish")
            if what != "follow":
                collect(spark, folder)
        except PySparkException as error:
            raise SystemExit(str(explain(error))) from error


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
