"""Work of a task in a process of Spark: make the files of one span, or verify one file.

A task needs only the cluster and the location of the files. Spark may run a task twice, or kill
one. Files that are written twice have the same name and content; if entries were trimmed in
between, they have another name, and the manifest names one of them. An error of a task is its
result: the driver raises it unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import attrs

from pyspark_virtuallog.clients import client
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.archive.core.manifest import ArchiveManifest, DataFile
from virtuallog_loglets.archive.creation.data_files import DataFileSizes, WrittenFile
from virtuallog_loglets.archive.creation.executor import make_span
from virtuallog_loglets.archive.creation.file_verification import VerifiedFile, verify_file
from virtuallog_loglets.archive.creation.segment_source import ReadableSegment, SegmentSource
from virtuallog_loglets.archive.creation.spans import ArchiveSpan
from virtuallog_loglets.archive.drivers.fsspec_files import FsspecFiles


class Job(Protocol):
    """Everything that the tasks of an archive share: its input and its location. Can be pickled."""

    @property
    def location(self) -> str:
        """URL of the archive's directory."""
        ...

    @property
    def sizes(self) -> DataFileSizes: ...

    @property
    def start(self) -> int:
        """First position."""
        ...

    @property
    def nodes(self) -> Sequence[NodeId]:
        """Servers to read from, distributed over the tasks; empty if there are none."""
        ...

    def run(self, work: Work, near: NodeId | None) -> Sequence[WrittenFile] | Sequence[VerifiedFile]:
        """Do a piece of work in this process. Raises VirtualLogError."""
        ...


@attrs.frozen(kw_only=True)
class SegmentJob:
    """Job for a segment that nodes have. Implements `Job`."""

    cluster: ClusterFile
    cluster_id: str
    """Cluster id in hexadecimal digits."""
    segment: Segment
    """The hot copy."""
    location: str
    sizes: DataFileSizes

    @property
    def start(self) -> int:
        return self.segment.start

    @property
    def nodes(self) -> Sequence[NodeId]:
        return sorted(NodeId(node.id) for node in self.cluster.nodes)

    def run(self, work: Work, near: NodeId | None) -> Sequence[WrittenFile] | Sequence[VerifiedFile]:
        return client(self.cluster, near, self.cluster_id).run(self._run, work)

    async def _run(self, log: VirtualLog, work: Work) -> Sequence[WrittenFile] | Sequence[VerifiedFile]:
        source = SegmentSource.of(log.view.loglet(self.segment), self.segment, log.view.environment.clock)
        return await work.run(source, FsspecFiles(self.location), self.sizes)


@attrs.frozen
class Make:
    """Work: make the files of this span. The result is a list of `WrittenFile`."""

    span: ArchiveSpan

    @property
    def positions(self) -> int:
        return self.span.stop - self.span.start

    async def run(self, source: ReadableSegment, files: FsspecFiles, sizes: DataFileSizes) -> Sequence[WrittenFile]:
        return await make_span(self.span, source, files, sizes)


@attrs.frozen
class Verify:
    """Work: verify a file, and compare it with the hot copy. The result is a list of one
    `VerifiedFile`."""

    file: DataFile
    manifest: ArchiveManifest
    """Manifest without its files: each task would get them all."""
    trimmed: int

    @property
    def positions(self) -> int:
        return self.file.stop - self.file.start

    async def run(self, source: ReadableSegment, files: FsspecFiles, sizes: DataFileSizes) -> Sequence[VerifiedFile]:
        return [await verify_file(self.file, self.manifest, files, source, self.trimmed)]


Work: TypeAlias = Make | Verify
Result: TypeAlias = Sequence[WrittenFile] | Sequence[VerifiedFile] | VirtualLogError


@attrs.frozen
class ArchiveTask:
    """A piece of work, and the server to read from."""

    job: Job
    work: Work
    near: NodeId | None = None


def run_task(task: ArchiveTask) -> Result:
    """Do the work in this process; one of our errors becomes its result."""
    try:
        return task.job.run(task.work, task.near)
    except VirtualLogError as error:
        return error
