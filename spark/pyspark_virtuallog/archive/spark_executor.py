"""Executor of archives whose work is done by tasks of Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import attrs
from pyspark.sql import SparkSession

from pyspark_virtuallog.archive.task_ranges import cut, samples
from pyspark_virtuallog.archive.tasks import ArchiveTask, Job, Make, Result, SegmentJob, Verify, Work, run_task
from pyspark_virtuallog.task_runner import run_all
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import NodeId
from virtuallog_loglets.archive.core.manifest import ArchiveManifest
from virtuallog_loglets.archive.creation.archiver import Archiver
from virtuallog_loglets.archive.creation.data_files import WrittenFile, uncompressed_bytes
from virtuallog_loglets.archive.creation.executor import ArchiveExecutor, FileProgress, SerialExecutor
from virtuallog_loglets.archive.creation.file_verification import VerifiedFile
from virtuallog_loglets.archive.creation.segment_source import ReadableSegment, SegmentSource
from virtuallog_loglets.archive.creation.spans import ArchiveSpan
from virtuallog_loglets.archive.drivers.files import Files

_SAMPLES: Final = 8
"""Reads of at most 1 MiB that estimate the size of entries."""


@attrs.frozen(eq=False, kw_only=True)
class SparkExecutor:
    """Implements `virtuallog_loglets.archive.creation.executor.ArchiveExecutor`."""

    spark: SparkSession
    job: Job
    source: ReadableSegment
    files: Files
    clock: Clock

    @property
    def compares(self) -> bool:
        return True

    async def make(self, spans: Sequence[ArchiveSpan], tell: FileProgress) -> Sequence[WrittenFile]:
        position_bytes = await self._position_bytes(spans)
        pieces = cut(spans, position_bytes, self.job.sizes.file_bytes, self.spark.sparkContext.defaultParallelism)
        found = await self._run("write", [Make(piece) for piece in pieces], tell)
        return cast("list[WrittenFile]", found)

    async def verify(self, manifest: ArchiveManifest, trimmed: int, tell: FileProgress) -> Sequence[VerifiedFile]:
        if not manifest.is_by_file:  # made by an older program: only reading all of it in order can verify it
            return await SerialExecutor(self.source, self.files).verify(manifest, trimmed, tell)
        bare = attrs.evolve(manifest, files=())
        found = await self._run("verify", [Verify(file, bare, trimmed) for file in manifest.files], tell)
        return cast("list[VerifiedFile]", found)

    async def _run(self, what: str, works: Sequence[Work], tell: FileProgress) -> list[Any]:
        """Results of all tasks, in order. Raises the error of the first one that failed."""
        nodes: Sequence[NodeId | None] = self.job.nodes or [None]
        tasks = [ArchiveTask(self.job, work, nodes[index % len(nodes)]) for index, work in enumerate(works)]
        name = f"{what} {self.job.location}"
        results = await run_all(self.spark, name, run_task, tasks, self.clock, self._teller(works, tell))
        return [one for result in results for one in _checked(result)]

    def _teller(self, works: Sequence[Work], tell: FileProgress) -> Callable[[int], None]:
        """Progress callback. Tasks end in any order: their number is reported as if they were the
        first ones."""
        start = self.job.start
        return lambda done: tell(start + sum(work.positions for work in works[:done]))

    async def _position_bytes(self, spans: Sequence[ArchiveSpan]) -> float:
        """Average bytes per position of the spans that are to be made, by samples."""
        weights, places = 0, 0
        for span in [span for span in spans if span.found is None][:_SAMPLES]:
            for at in samples(span.start, span.stop, _SAMPLES):
                items = await self.source.read(at, span.stop)
                weights += uncompressed_bytes(items)
                places += items[-1].stop - at
        return weights / places if places else 0.0


def executor_on(
    spark: SparkSession,
    cluster: ClusterFile,
    archiving: Archiver,
    segment: Segment,
    source: SegmentSource,
    files: Files,
) -> ArchiveExecutor:
    """Executor on this session, whose tasks find the cluster by the file. See
    `virtuallog_loglets.archive.creation.archiver.ExecutorFactory`."""
    job = SegmentJob(
        cluster=cluster, cluster_id=archiving.cluster, segment=segment, location=archiving.location(segment),
        sizes=archiving.sizes,
    )  # fmt: skip
    return SparkExecutor(spark=spark, job=job, source=source, files=files, clock=source.clock)


def _checked(result: Result) -> Sequence[WrittenFile] | Sequence[VerifiedFile]:
    if isinstance(result, VirtualLogError):
        raise result
    return result
