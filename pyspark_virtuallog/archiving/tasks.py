"""What a task does, in a process of Spark: makes the files of one span, or verifies one file. The cluster and the place for
the files are all that it needs.

Spark may run a task twice, or kill one: files that are written twice have the same name and content, or, if entries were trimmed in
between, another name, and the manifest names one of them. What a task fails with is its result: the driver raises it as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from loglets.archive.checking import Checked, verify_file
from loglets.archive.crew import make_span
from loglets.archive.fsspec_files import FsspecFiles
from loglets.archive.making import Made, Sizes
from loglets.archive.manifest import DataFile, Manifest
from loglets.archive.source import Source
from loglets.archive.spans import Span
from pyspark_virtuallog.clients import client
from virtuallog.chain import Segment
from virtuallog.cluster_file import ClusterFile
from virtuallog.errors import VirtualLogError
from virtuallog.types import NodeId
from virtuallog.virtual_log import VirtualLog


@attrs.frozen(kw_only=True)
class Job:
    """What is the same for all tasks of a segment."""

    cluster: ClusterFile
    cluster_id: str
    """In hexadecimal digits."""
    segment: Segment
    """The hot copy."""
    location: str
    """URL of the archive's directory."""
    sizes: Sizes


@attrs.frozen
class Make:
    """Files of this span. Its result is a list of `Made`."""

    span: Span

    @property
    def positions(self) -> int:
        return self.span.stop - self.span.start

    async def run(self, source: Source, files: FsspecFiles, sizes: Sizes) -> Sequence[Made]:
        return await make_span(self.span, source, files, sizes)


@attrs.frozen
class Verify:
    """Verifies a file, and compares it with the hot copy. Its result is a list of one `Checked`."""

    file: DataFile
    manifest: Manifest
    """Without its files: each task would get them all."""
    trimmed: int

    @property
    def positions(self) -> int:
        return self.file.stop - self.file.start

    async def run(self, source: Source, files: FsspecFiles, sizes: Sizes) -> Sequence[Checked]:
        return [await verify_file(self.file, self.manifest, files, source, self.trimmed)]


Work: TypeAlias = Make | Verify
Result: TypeAlias = Sequence[Made] | Sequence[Checked] | VirtualLogError


@attrs.frozen
class Task:
    """A piece of work, and the server to read from."""

    job: Job
    work: Work
    near: NodeId | None = None


def run_task(task: Task) -> Result:
    """Do it here; whatever of ours it raises is its result."""
    job = task.job

    async def work(log: VirtualLog) -> Sequence[Made] | Sequence[Checked]:
        loglet = log.view.loglet(job.segment)
        source = Source.of(loglet, job.segment, log.view.environment.clock)
        return await task.work.run(source, FsspecFiles(job.location), job.sizes)

    try:
        return client(job.cluster, task.near, job.cluster_id).run(work)
    except VirtualLogError as error:
        return error
