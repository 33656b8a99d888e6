"""Archive job for a range of a log, read from any remaining source by tasks of Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs
import trio

from pyspark_virtuallog.archive.tasks import Job, Work
from pyspark_virtuallog.clients import client
from pyspark_virtuallog.restore.coverage import Span
from pyspark_virtuallog.restore.range_reader import open_reading
from pyspark_virtuallog.restore.sources import What
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import NodeId
from virtuallog.runtime.clock import SystemClock
from virtuallog_loglets.archive.creation.data_files import DataFileSizes, WrittenFile
from virtuallog_loglets.archive.creation.executor import ArchiveExecutor
from virtuallog_loglets.archive.creation.file_verification import VerifiedFile
from virtuallog_loglets.archive.creation.segment_source import ReadableSegment
from virtuallog_loglets.archive.drivers.files import Files
from virtuallog_loglets.archive.drivers.fsspec_files import FsspecFiles

RangeExecutorFactory: TypeAlias = Callable[[Job, ReadableSegment, Files, Clock], ArchiveExecutor]
"""Makes the executor of an archive: from a job for tasks, the same range as read in this process,
the files, and a clock."""


@attrs.frozen(kw_only=True)
class RangeJob:
    """Implements `pyspark_virtuallog.archive.tasks.Job`."""

    spans: Sequence[Span[What]]
    """Sources of the range."""
    start: int
    stop: int
    cluster: ClusterFile | None
    """The log itself. None if it is not among the spans."""
    cluster_id: str
    """Cluster id of the log, in hexadecimal digits."""
    location: str
    sizes: DataFileSizes = attrs.field(factory=DataFileSizes)

    @property
    def nodes(self) -> Sequence[NodeId]:
        return [] if self.cluster is None else sorted(NodeId(node.id) for node in self.cluster.nodes)

    def run(self, work: Work, near: NodeId | None) -> Sequence[WrittenFile] | Sequence[VerifiedFile]:
        if self.cluster is None:
            return trio.run(self._run, None, work)
        return client(self.cluster, near, self.cluster_id).run(self._run, work)

    async def _run(self, log: VirtualLog | None, work: Work) -> Sequence[WrittenFile] | Sequence[VerifiedFile]:
        reading = open_reading(self.spans, self.start, self.stop, log, SystemClock())
        return await work.run(reading, FsspecFiles(self.location), self.sizes)
