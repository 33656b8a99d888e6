"""Those who work on the files of an archive are tasks of Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import attrs
from pyspark.sql import SparkSession

from pyspark_virtuallog.archive.cutting import cut, samples
from pyspark_virtuallog.archive.tasks import Job, Make, Result, SegmentJob, Task, Verify, Work, run_task
from pyspark_virtuallog.running import run_all
from virtuallog.chain import Segment
from virtuallog.cluster_file import ClusterFile
from virtuallog.errors import VirtualLogError
from virtuallog.ports import Clock
from virtuallog.types import NodeId
from virtuallog_loglets.archive.archiving import Archiving
from virtuallog_loglets.archive.checking import Checked
from virtuallog_loglets.archive.crew import Crew, OneByOne, Tell
from virtuallog_loglets.archive.files import Files
from virtuallog_loglets.archive.making import Made, weight
from virtuallog_loglets.archive.manifest import Manifest
from virtuallog_loglets.archive.source import Readable, Source
from virtuallog_loglets.archive.spans import Span

_SAMPLES: Final = 8
"""Reads of 1 MiB at most, by which is guessed how large entries are."""


@attrs.frozen(eq=False, kw_only=True)
class SparkCrew:
    """Implements `virtuallog_loglets.archive.crew.Crew`."""

    spark: SparkSession
    job: Job
    source: Readable
    files: Files
    clock: Clock

    @property
    def compares(self) -> bool:
        return True

    async def make(self, spans: Sequence[Span], tell: Tell) -> Sequence[Made]:
        position_bytes = await self._position_bytes(spans)
        pieces = cut(spans, position_bytes, self.job.sizes.file_bytes, self.spark.sparkContext.defaultParallelism)
        found = await self._run("write", [Make(piece) for piece in pieces], tell)
        return cast("list[Made]", found)

    async def verify(self, manifest: Manifest, trimmed: int, tell: Tell) -> Sequence[Checked]:
        if (
            not manifest.is_by_file
        ):  # of an older program: only whoever reads all of it in order can say whether it is right
            return await OneByOne(self.source, self.files).verify(manifest, trimmed, tell)
        bare = attrs.evolve(manifest, files=())
        found = await self._run("verify", [Verify(file, bare, trimmed) for file in manifest.files], tell)
        return cast("list[Checked]", found)

    async def _run(self, what: str, works: Sequence[Work], tell: Tell) -> list[Any]:
        """The results of all, in order. Raises what the first one that failed has raised."""
        nodes: Sequence[NodeId | None] = self.job.nodes or [None]
        tasks = [Task(self.job, work, nodes[index % len(nodes)]) for index, work in enumerate(works)]
        name = f"{what} {self.job.location}"
        results = await run_all(self.spark, name, run_task, tasks, self.clock, self._teller(works, tell))
        return [one for result in results for one in _checked(result)]

    def _teller(self, works: Sequence[Work], tell: Tell) -> Callable[[int], None]:
        """Tasks end in any order: so many are done, as if it were the first ones."""
        start = self.job.start
        return lambda done: tell(start + sum(work.positions for work in works[:done]))

    async def _position_bytes(self, spans: Sequence[Span]) -> float:
        """What a position of the spans that are to be made weighs, on average, by samples."""
        weights, places = 0, 0
        for span in [span for span in spans if span.found is None][:_SAMPLES]:
            for at in samples(span.start, span.stop, _SAMPLES):
                items = await self.source.read(at, span.stop)
                weights += weight(items)
                places += items[-1].stop - at
        return weights / places if places else 0.0


def crew_on(
    spark: SparkSession, cluster: ClusterFile, archiving: Archiving, segment: Segment, source: Source, files: Files
) -> Crew:
    """Tasks of this session, which find the cluster as the file says. See `virtuallog_loglets.archive.archiving.Hire`."""
    job = SegmentJob(
        cluster=cluster, cluster_id=archiving.cluster, segment=segment, location=archiving.location(segment),
        sizes=archiving.sizes,
    )  # fmt: skip
    return SparkCrew(spark=spark, job=job, source=source, files=files, clock=source.clock)


def _checked(result: Result) -> Sequence[Made] | Sequence[Checked]:
    if isinstance(result, VirtualLogError):
        raise result
    return result
