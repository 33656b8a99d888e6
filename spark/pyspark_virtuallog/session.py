"""Opens Spark for our commands, benches and tests: on loopback, quiet, with the source registered, and stopped with its block.

A user's job has a session of its own and needs nothing of this.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from pyspark_virtuallog.java import require_java
from pyspark_virtuallog.source import DefaultSource
from pyspark_virtuallog.spark_errors import JobError, explain, reason_in

LOCAL: Final = "local[*]"
"""Spark in this process and its children, on all cores."""
LOG_LEVEL: Final = "spark.log.level"
"""Whoever sets it hears what Java says, on stderr. Else nobody does: of a failure the one line that tells most comes back anyway."""
_ALWAYS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    LOG_LEVEL: "OFF",
}
_ON_LOOPBACK: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""A Spark on one machine listens to nobody else."""
_STDERR: Final = 2
_SAID_MAX: Final = 64 << 10
"""Of what a Java has said that did not start."""


@contextmanager
def open_session(
    name: str, *, master: str = LOCAL, configuration: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session of Spark that reads and writes `virtuallog`, stopped when the block ends: then no task runs any more. Its Java ends with
    this process, also if that is killed. Ctrl-C is left to whoever handled it before.

    Args:
        name: what Spark's own pages call the job.
        master: as `spark-submit --master`: `local[2]`, `spark://host:7077`, `yarn`.
        configuration: settings of Spark, over ours.

    Raises:
        UnsupportedError: no Java here that Spark can use.
        JobError: Spark does not start like this.
    """
    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else it takes whatever `python3` is, without our packages
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # else it warns of the address that it does not take
    wanted = dict(configuration or {})
    settings = {**_ALWAYS, **(_ON_LOOPBACK if master.startswith("local") else {}), **wanted}
    spark_configuration = SparkConf().setAppName(name).setMaster(master).setAll(list(settings.items()))
    with _ctrl_c_left_alone():
        spark = _start(spark_configuration, is_loud=LOG_LEVEL in wanted)
    with _unlogged():
        try:
            spark.dataSource.register(
                DefaultSource
            )  # found by itself too, unless it was installed as an editable checkout
            yield spark
        finally:
            _stop(spark)


@contextmanager
def _unlogged() -> Iterator[None]:
    """Py4J writes to the root of Python's log that it was interrupted, and configures that if nobody has."""
    silent, root = logging.NullHandler(), logging.getLogger()
    root.addHandler(silent)
    try:
        yield
    finally:
        root.removeHandler(silent)


def _stop(spark: SparkSession) -> None:
    """Interrupted in the middle of a call, Spark does not hear this, and warns; its Java ends with this process all the same."""
    try:
        with warnings.catch_warnings(action="ignore"):
            spark.stop()
    except Exception as error:
        if explain(error) is None and not isinstance(error, OSError):
            raise  # all else says that Java has ended before


def _start(configuration: SparkConf, *, is_loud: bool) -> SparkSession:
    if SparkContext._gateway is None:  # noqa: SLF001 -- nothing else says whether this process has a Java already
        SparkContext(conf=configuration, gateway=_start_java(configuration, is_loud))
    return SparkSession.builder.config(conf=configuration).getOrCreate()


def _start_java(configuration: SparkConf, is_loud: bool) -> Any:
    """What Java prints never goes to our stdout, which may be JSON."""
    with TemporaryFile() as said:
        streams = {"stdout": _STDERR} if is_loud else {"stdout": said, "stderr": said}
        try:
            with _ctrl_c_later():
                return launch_gateway(configuration, streams)  # type: ignore[no-untyped-call]
        except PySparkRuntimeError as error:
            said.seek(0)
            text = said.read(_SAID_MAX).decode(errors="replace")
            raise JobError(f"Spark does not start: {reason_in(text) or error}") from error


@contextmanager
def _ctrl_c_later() -> Iterator[None]:
    """When the block has ended, some seconds later: a Java whose starter is interrupted has nobody to answer to, and would stay for ever."""
    came = list[int]()
    before = signal.getsignal(signal.SIGINT)
    with suppress(ValueError):  # not in the main thread, which alone is interrupted
        signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        with suppress(ValueError):
            signal.signal(signal.SIGINT, before)
    if came:
        signal.raise_signal(signal.SIGINT)


@contextmanager
def _ctrl_c_left_alone() -> Iterator[None]:
    """Spark's own handler raises wherever the main thread is, and trio leaves a handler alone that is not Python's: its loop would be torn
    apart. Whoever is interrupted ends the session, and that ends its jobs."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        with suppress(ValueError):  # of a thread that is not the main one: Spark has set none there
            signal.signal(signal.SIGINT, before)
