"""What a task does, in a process of Spark: makes the files of one span, or verifies one file. The cluster and the place for
the files are all that it needs.

Spark may run a task twice, or kill one: files that are written twice have the same name and content, or, if entries were trimmed in
between, another name, and the manifest names one of them. What a task fails with is its result: the driver raises it as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import attrs

from pyspark_virtuallog.clients import client
from virtuallog.chain import Segment
from virtuallog.cluster_file import ClusterFile
from virtuallog.errors import VirtualLogError
from virtuallog.types import NodeId
from virtuallog.virtual_log import VirtualLog
from virtuallog_loglets.archive.checking import Checked, verify_file
from virtuallog_loglets.archive.crew import make_span
from virtuallog_loglets.archive.fsspec_files import FsspecFiles
from virtuallog_loglets.archive.making import Made, Sizes
from virtuallog_loglets.archive.manifest import DataFile, Manifest
from virtuallog_loglets.archive.source import Readable, Source
from virtuallog_loglets.archive.spans import Span


class Job(Protocol):
    """What is the same for all tasks of an archive: what it is made of, and where. It can be pickled."""

    @property
    def location(self) -> str:
        """URL of the archive's directory."""
        ...

    @property
    def sizes(self) -> Sizes: ...

    @property
    def start(self) -> int:
        """First position."""
        ...

    @property
    def nodes(self) -> Sequence[NodeId]:
        """Servers to read from, which are dealt out to the tasks; none, if there are none."""
        ...

    def run(self, work: Work, near: NodeId | None) -> Sequence[Made] | Sequence[Checked]:
        """Do a piece of work in this process. Raises VirtualLogError."""
        ...


@attrs.frozen(kw_only=True)
class SegmentJob:
    """Of a segment that nodes have. Implements `Job`."""

    cluster: ClusterFile
    cluster_id: str
    """In hexadecimal digits."""
    segment: Segment
    """The hot copy."""
    location: str
    sizes: Sizes

    @property
    def start(self) -> int:
        return self.segment.start

    @property
    def nodes(self) -> Sequence[NodeId]:
        return sorted(NodeId(node.id) for node in self.cluster.nodes)

    def run(self, work: Work, near: NodeId | None) -> Sequence[Made] | Sequence[Checked]:
        return client(self.cluster, near, self.cluster_id).run(self._run, work)

    async def _run(self, log: VirtualLog, work: Work) -> Sequence[Made] | Sequence[Checked]:
        source = Source.of(log.view.loglet(self.segment), self.segment, log.view.environment.clock)
        return await work.run(source, FsspecFiles(self.location), self.sizes)


@attrs.frozen
class Make:
    """Files of this span. Its result is a list of `Made`."""

    span: Span

    @property
    def positions(self) -> int:
        return self.span.stop - self.span.start

    async def run(self, source: Readable, files: FsspecFiles, sizes: Sizes) -> Sequence[Made]:
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

    async def run(self, source: Readable, files: FsspecFiles, sizes: Sizes) -> Sequence[Checked]:
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
    try:
        return task.job.run(task.work, task.near)
    except VirtualLogError as error:
        return error
