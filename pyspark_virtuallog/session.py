"""Opens Spark for our commands, benches and tests: on loopback, with the source registered, and ended with its JVM.

A user's job has a session of its own and needs nothing of this.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from pyspark_virtuallog.java import require_java
from pyspark_virtuallog.source import DefaultSource

LOCAL: Final = "local[*]"
"""Spark in this process and its children, on all cores."""
_ALWAYS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
}
_ON_LOOPBACK: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""A Spark on one machine listens to nobody else."""


@contextmanager
def open_session(
    name: str, *, master: str = LOCAL, configuration: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session of Spark that reads and writes `virtuallog`, stopped when the block ends.

    Args:
        name: what Spark's own pages call the job.
        master: as `spark-submit --master`: `local[2]`, `spark://host:7077`, `yarn`.
        configuration: settings of Spark, over ours.

    Raises:
        UnsupportedError: no Java here that Spark can use.
    """
    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else it takes whatever `python3` is, without our packages
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # else it warns of the address that it does not take
    settings = {**_ALWAYS, **(_ON_LOOPBACK if master.startswith("local") else {}), **(configuration or {})}
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        spark.dataSource.register(DefaultSource)  # found by itself too, unless it was installed as an editable checkout
        yield spark
    finally:
        spark.stop()
