"""Spark for the tests of this folder: one session, so one JVM, for each process that tests run in.

Tests are dealt out one by one to two processes, so there are at most two JVMs; a session takes some five seconds to start.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_virtuallog.session import LOG_LEVEL, open_session
from tests.spark.java import require_java


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark with two threads; what it writes by itself goes below pytest's folder."""
    require_java()
    folder = tmp_path_factory.mktemp("spark")
    with open_session("tests", master="local[2]", configuration=settings(folder)) as session:
        yield session


def settings(folder: Path) -> dict[str, str]:
    """Settings of a small Spark: two JVMs share a machine with clusters of processes."""
    return {
        LOG_LEVEL: "ERROR",  # of a test that fails, all that Java has to say
        "spark.driver.memory": "512m",
        # Of code that runs once or twice only compiling counts: the quick compiler alone, and one thread that collects garbage.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.python.worker.faulthandler.enabled": "true",
    }
