"""`virtuallog spark archive` with real processes: its driver killed when there are files, given again, and given twice at once.

A kill at every other moment costs no JVM: it is the same code with another crew (`tests/loglets/archive/test_archive_writer.py`, at every write;
`tests/loglets/archive/test_processes.py`, with real processes).
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trio
from pyspark.sql import SparkSession

from pyspark_virtuallog.archive.spark_executor import executor_on
from tests.loglets.archive.test_processes import (
    CLOSED,
    COMMAND,
    PART,
    archive,
    cluster_with_segments,
    contents,
    kinds_become,
)
from virtuallog.client.cluster_file import read_cluster_file
from virtuallog_loglets.archive import config
from virtuallog_loglets.archive.config import GRACE_SECONDS
from virtuallog_loglets.archive.core import manifest
from virtuallog_loglets.archive.creation.data_files import DataFileSizes
from virtuallog_loglets.archive.drivers.tables import open_archive
from virtuallog_server.cli.archive.segment_archiver import ArchivedSegment, archive_segments

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.long]

LIMIT_SECONDS = 600
"""A JVM starts in seconds, on a machine that has nothing else to do."""
FILE_BYTES = 64 << 10
"""File size with which a segment makes several files."""


async def killed_when(cluster: Path, url: str, moment: Callable[[], bool]) -> None:
    """Give the command, and kill it and all that it has started as soon as the moment is there, or let it end."""
    environment = {**os.environ, "VIRTUALLOG_CLUSTER": str(cluster), "SPARK_SUBMIT_OPTS": "-Xmx512m"}
    command = [
        *COMMAND,
        "spark",
        "archive",
        "all",
        "--to",
        url,
        "--master",
        "local[2]",
        "--file-bytes",
        str(FILE_BYTES),
    ]
    process = subprocess.Popen(  # noqa: ASYNC220 -- killed from here
        command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        with trio.fail_after(LIMIT_SECONDS):
            while not moment() and process.poll() is None:
                await trio.sleep(0.01)
        assert moment(), await trio.to_thread.run_sync(lambda: process.communicate()[1].decode()[-2000:])
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await trio.to_thread.run_sync(process.communicate)


def parts(place: Path) -> list[Path]:
    return sorted(place.glob("*/[0-9]*.parquet"))


async def at_once(spark: SparkSession, cluster: Path, url: str) -> list[ArchivedSegment]:
    """Two operators give the command at the same time."""
    file, done = read_cluster_file(cluster), list[ArchivedSegment]()
    work = partial(
        archive_segments, file, "all", url, GRACE_SECONDS, done, executor_factory=partial(executor_on, spark, file),
        sizes=DataFileSizes(file_bytes=FILE_BYTES),
    )  # fmt: skip
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        nursery.start_soon(work)
    return done


async def test_a_log_is_archived_by_tasks_that_may_be_killed(tmp_path: Path, spark: SparkSession) -> None:
    """Killed, the log is as it was. Then two at once go on: a file that is whole is not written again, and in the end there is one
    archive of each segment, whole, from which the log is read."""
    place = tmp_path / "archives"
    async with cluster_with_segments(tmp_path) as (cluster, log, payloads):
        await killed_when(cluster, f"file://{place}", lambda: bool(parts(place)))
        left = {path: path.stat().st_mtime_ns for path in parts(place)}
        assert await contents(log) == payloads

        done = await at_once(spark, cluster, f"file://{place}")
        assert {(one.compared, one.entries) for one in done} == {(True, PART)}
        await kinds_become(log, [*["archive"] * len(CLOSED), "native"], "hot")
        assert {path: path.stat().st_mtime_ns for path in left} == left
        named = [manifest.decode_untrusted(path.read_bytes()) for path in place.glob("*/manifest.json")]
        assert len(parts(place)) > len(named)
        assert {path.name for path in parts(place)} == {file.name for one in named for file in one.files}
        assert await contents(log) == payloads

        verified = await archive(cluster, "all", "--verify-only")
        assert [one["entries"] for one in verified] == [PART] * len(CLOSED)
        found = list[bytes]()
        for segment in (await log.view.refresh()).chain.segments[:-1]:
            assert segment.stop is not None
            tables = open_archive(config.decode_untrusted(segment.config)).read(
                segment.start, segment.stop, ["payload"]
            )
            found += [value for table in tables for value in table.column("payload").to_pylist() if value is not None]
        assert found == payloads[: len(CLOSED) * PART]
