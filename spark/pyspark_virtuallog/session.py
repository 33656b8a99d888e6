"""Opens Spark for our commands, benches and tests: on loopback, quiet, with the source registered,
and stopped with its block.

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
"""Setting that shows Java's messages on stderr. By default they are dropped: the most informative
line of a failure is reported anyway."""
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
"""Settings of a Spark on one machine: it listens on loopback only."""
_STDERR: Final = 2
_SAID_MAX: Final = 64 << 10
"""Bytes of the messages that are kept of a Java that did not start."""


@contextmanager
def open_session(
    name: str, *, master: str = LOCAL, configuration: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session of Spark that reads and writes `virtuallog`. When the block ends it is stopped, and
    no task runs any more. Its Java ends with this process, also if that is killed. The handler of
    Ctrl-C stays the former one.

    Args:
        name: name of the job on Spark's own pages.
        master: as `spark-submit --master`: `local[2]`, `spark://host:7077`, `yarn`.
        configuration: settings of Spark, over ours.

    Raises:
        UnsupportedError: no Java here that Spark can use.
        JobError: Spark does not start with this configuration.
    """
    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise it takes any `python3`, without our packages
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # otherwise it warns of the address that it does not take
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
    """Silence Py4J, which logs an interruption to Python's root logger, and configures that if it
    is not configured yet."""
    silent, root = logging.NullHandler(), logging.getLogger()
    root.addHandler(silent)
    try:
        yield
    finally:
        root.removeHandler(silent)


def _stop(spark: SparkSession) -> None:
    """Stop Spark. If interrupted in the middle of a call, Spark does not hear this, and warns; its
    Java ends with this process all the same."""
    try:
        with warnings.catch_warnings(action="ignore"):
            spark.stop()
    except Exception as error:
        if explain(error) is None and not isinstance(error, OSError):
            raise  # all other errors say that Java has ended before


def _start(configuration: SparkConf, *, is_loud: bool) -> SparkSession:
    if SparkContext._gateway is None:  # noqa: SLF001 -- nothing else says whether this process has a Java already
        SparkContext(conf=configuration, gateway=_start_java(configuration, is_loud))
    return SparkSession.builder.config(conf=configuration).getOrCreate()


def _start_java(configuration: SparkConf, is_loud: bool) -> Any:
    """Start Java. Its output never goes to our stdout, which may be JSON."""
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
    """Defer Ctrl-C to the end of the block, some seconds later: an interrupted start would leave a
    Java that waits for its starter for ever."""
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
    """Keep the former handler of Ctrl-C. Spark's own handler raises anywhere in the main thread,
    and trio respects a foreign handler: its loop would be torn apart. An interrupted caller ends
    the session, and that ends its jobs."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        with suppress(ValueError):  # not in the main thread: Spark has set no handler there
            signal.signal(signal.SIGINT, before)
