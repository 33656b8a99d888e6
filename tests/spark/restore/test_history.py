"""The history of a restored log is copied by tasks of Spark: the same entries, at the same positions, in archives of the new cluster."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
from pyspark.sql import SparkSession

from pyspark_virtuallog.archive.spark_executor import SparkExecutor
from pyspark_virtuallog.archive.tasks import Job
from pyspark_virtuallog.restore.coverage import Span
from pyspark_virtuallog.restore.planner import RestoreRequest
from pyspark_virtuallog.restore.range_reader import open_reading
from pyspark_virtuallog.restore.ranges import RangeJob
from pyspark_virtuallog.restore.restoration import Restored, restore
from tests.spark.synthetic_log import BATCH, SIZES, MadeUp, archived
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import Data, LogPosition, PlacedBatch
from virtuallog.runtime.clock import SystemClock
from virtuallog_loglets.archive.config import ArchiveConfig
from virtuallog_loglets.archive.creation.executor import ArchiveExecutor
from virtuallog_loglets.archive.creation.segment_source import ReadableSegment
from virtuallog_loglets.archive.drivers.files import Files


async def entries_of(archives: Sequence[ArchiveConfig], start: int, stop: int) -> list[Data]:
    reading = open_reading([Span(each.start, each.stop, each) for each in archives], start, stop, None, SystemClock())
    found = list[Data]()
    while start < stop:
        for placed in await reading.read(start, stop):
            assert isinstance(placed, PlacedBatch)
            found += placed.records()
            start = placed.stop
    return found


@pytest.mark.long
async def test_tasks_copy_a_history_out_of_archives_that_overlap(tmp_path: Path, spark: SparkSession) -> None:
    """The log exists only in two archives, as of a segment and of a backup that began in its middle. The copy ends within a
    batch. A second attempt, after the first one was killed before its manifest, takes the files that are there."""
    place, into = tmp_path / "place", tmp_path / "restored"
    await archived(MadeUp(), place, 0, 6_000)
    await archived(MadeUp(), place, 4_000, 20_000)

    def executor_factory(job: Job, reading: ReadableSegment, files: Files, clock: Clock) -> ArchiveExecutor:
        assert isinstance(job, RangeJob)
        job = attrs.evolve(job, sizes=SIZES)
        return SparkExecutor(spark=spark, job=job, source=reading, files=files, clock=clock)

    async def attempt() -> Restored:
        wanted = RestoreRequest(places=[f"file://{place}"], into=f"file://{into}", position=LogPosition(17_777))
        return await restore(wanted, random.Random(7), executor_factory=executor_factory)

    made = await attempt()
    (copied,) = made.origin.history
    assert (copied.start, copied.stop, copied.cluster) == (0, 17_777, made.origin.cluster.hex())
    assert made.history is not None and made.history.verified.entries == 17_777
    found = await entries_of(made.origin.history, 0, 17_777)
    assert [(data.position, data.sequence, data.payload) for data in found] == [
        (number, number, b"entry %d" % number) for number in range(17_777)
    ]
    assert {data.time_ms - data.position + data.position % BATCH for data in found} == {1_000}

    (manifest,) = (into / "archives").glob("*/manifest.json")
    written = {path.name: path.stat().st_mtime_ns for path in manifest.parent.glob("*.parquet")}
    assert len(written) > 1
    (into / "origin.json").unlink()
    manifest.unlink()
    again = await attempt()
    assert {path.name: path.stat().st_mtime_ns for path in manifest.parent.glob("*.parquet")} == written
    assert again.origin.history[0].stop == 17_777
