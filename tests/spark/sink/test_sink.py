"""The sink over a real log: readers of committed rows see every row once, for any failure or kill."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from pyspark_virtuallog.write.sink import LogStreamWriter, LogWriter, Written, batch_writer, stream_writer
from tests.source_tree import ROOT
from tests.spark.java import require_java
from tests.spark.one_node import in_thread, log_of_one_node
from tests.spark.sink.crashing_stream import JOB_ROWS, ROWS
from tests.spark.sink.sink_log import seen, tail_of
from tests.spark.tables import Table
from virtuallog.contract.errors import (
    InvalidSettingError,
    MalformedError,
    UnsupportedError,
    VirtualLogError,
    WrongRecipientError,
)

pytestmark = [pytest.mark.processes, pytest.mark.slow]
LIMIT_SECONDS = 1800
"""Timeout of a driver: a machine of CI stalls, and this one starts a JVM."""
TEXT = StructType([StructField("value", StringType())])


@pytest.mark.long
async def test_a_stream_is_written_once_though_tasks_fail_and_its_driver_is_killed(tmp_path: Path) -> None:
    """Killed between the marker of batch 1 and Spark's checkpoint: that batch is run again, and finds itself committed. Rows of a
    partition are in their order. A named job beside it that is run twice counts once as well."""
    require_java()
    async with log_of_one_node(tmp_path) as (cluster, log):
        (tmp_path / "crash").write_text("1 behind")
        code, said = await in_thread(_run_stream, cluster, tmp_path)
        assert code, said
        assert not (tmp_path / "crash").exists(), said
        first = await seen(log)

        code, said = await in_thread(_run_stream, cluster, tmp_path)
        assert code == 0, said

        everything = await seen(log)
        rows = [int(row) for row in everything if not row.startswith(b"job")]
        assert everything[: len(first)] == first
        assert sorted(rows) == [*range(len(rows))]
        assert len(first) == 2 * ROWS
        assert len(rows) >= 3 * ROWS
        for batch in range(len(rows) // ROWS):
            for half in (0, 1):
                part = [row for row in rows if row // ROWS == batch and row % 2 == half]
                assert part == sorted(part)
        assert sorted(everything)[-JOB_ROWS:] == sorted(b"job %d" % number for number in range(JOB_ROWS))
        assert (tmp_path / "read").read_text() == str(len(everything))
        # What attempts left that failed, and those of a batch and a job that were run again.
        assert await tail_of(log) > len(everything) + ROWS + ROWS // 2 + JOB_ROWS


def _run_stream(cluster: str, folder: Path) -> tuple[int, str]:
    command = [sys.executable, "-m", "tests.spark.sink.crashing_stream", cluster, str(folder), "3"]
    with (folder / "said").open("w+") as said:
        done = subprocess.run(command, cwd=ROOT, stdout=said, stderr=said, check=False, timeout=LIMIT_SECONDS)
    return done.returncode, (folder / "said").read_text()[-4000:]


async def test_writers_do_what_spark_asks_of_them(tmp_path: Path) -> None:
    """Without Spark: made on the driver, pickled to each task, committed with what tasks have told."""
    async with log_of_one_node(tmp_path) as (cluster, log):
        await what_cannot_be_written_is_refused(cluster)
        assert await tail_of(log) == 0
        await jobs_are_committed(cluster)
        assert await seen(log) == [b"a", b"b", b"c", b"a", b"b", b"c", b"d"]
        committed = await in_thread(Table(cluster, isolationLevel="read_committed").rows)
        assert [row["payload"] for row in committed] == await seen(log)
        everything = await in_thread(Table(cluster, isolationLevel="read_uncommitted").rows)
        assert len(everything) == await tail_of(log)  # also what attempts left that failed, and markers
        start = await tail_of(log)
        await batches_of_a_stream_are_committed(cluster)
        assert await seen(log, start) == [b"e"]


async def what_cannot_be_written_is_refused(cluster: str) -> None:
    """By an error that says why."""
    job = {"cluster": cluster}
    other = StructType([StructField("value", StringType()), StructField("id", LongType())])
    refused: list[tuple[type[VirtualLogError], str, Callable[[], object]]] = [
        (UnsupportedError, "a log only grows", lambda: batch_writer(job, TEXT, overwrite=True)),
        (UnsupportedError, "a log only grows", lambda: stream_writer(job, TEXT, overwrite=True)),
        (InvalidSettingError, "one column is written", lambda: batch_writer(job, other, overwrite=False)),
        (InvalidSettingError, "no option", lambda: batch_writer({**job, "topic": "x"}, TEXT, overwrite=False)),
        (WrongRecipientError, "wrong cluster", lambda: _job({**job, "clusterId": "00" * 16})),
        (MalformedError, "row 1 of a batch has no payload", lambda: _task(_job(job), ["fine", None])),
    ]
    for kind, words, call in refused:
        with pytest.raises(kind, match=words):
            await in_thread(call)


async def jobs_are_committed(cluster: str) -> None:
    """Version 7 of one with a name twice, which counts once, and 8; one without a name; an abort; one of no rows."""
    for version in ("7", "7", "8"):
        writer = await in_thread(_job, {"cluster": cluster, "txnAppId": "nightly", "txnVersion": version})
        told = [await in_thread(_task, writer, rows) for rows in (["a", "b"], [], ["c"])]
        await in_thread(writer.commit, told)
    unnamed = await in_thread(_job, {"path": cluster})
    await in_thread(unnamed.commit, [await in_thread(_task, unnamed, ["d"])])
    await in_thread(unnamed.abort, [await in_thread(_task, unnamed, ["never seen"])])
    await in_thread(unnamed.commit, [await in_thread(_task, unnamed, [])])


async def batches_of_a_stream_are_committed(cluster: str) -> None:
    """Once, however often that is asked for; never without the query's name: another Spark may not tell it to tasks, and then
    nothing is exactly once."""
    writer = await in_thread(lambda: stream_writer({"cluster": cluster}, TEXT, overwrite=False))
    assert isinstance(writer, LogStreamWriter)
    told = await in_thread(_task, writer, ["e"])
    with pytest.raises(UnsupportedError, match="were not told which query"):
        await in_thread(writer.commit, [told], 3)
    named = Written(told.cluster, "d85255ad-b322-413a-be2c-facb29d524cb", "3", told.winner)
    for _ in range(2):
        await in_thread(writer.commit, [named], 3)


def _job(given: dict[str, str]) -> LogWriter:
    writer = batch_writer(given, StructType([StructField("payload", BinaryType())]), overwrite=False)
    assert isinstance(writer, LogWriter)
    return writer


def _task(writer: LogWriter | LogStreamWriter, rows: Sequence[str | None]) -> Written:
    """In Arrow batches of two rows."""
    carried: LogWriter | LogStreamWriter = pickle.loads(pickle.dumps(writer))
    values = [None if row is None else row.encode() for row in rows]
    batches = [
        pa.record_batch({writer.column: pa.array(values[start : start + 2], pa.binary())})
        for start in range(0, len(values), 2)
    ]
    told: Written = pickle.loads(pickle.dumps(carried.write(iter(batches))))
    return told
