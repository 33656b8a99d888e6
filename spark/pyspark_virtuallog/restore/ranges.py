"""A range of a log, read from wherever it is left, as what tasks of Spark make an archive of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs
import trio

from pyspark_virtuallog.archive.tasks import Job, Work
from pyspark_virtuallog.clients import client
from pyspark_virtuallog.restore.covering import Span
from pyspark_virtuallog.restore.reading import open_reading
from pyspark_virtuallog.restore.sources import What
from virtuallog.clock import SystemClock
from virtuallog.cluster_file import ClusterFile
from virtuallog.ports import Clock
from virtuallog.types import NodeId
from virtuallog.virtual_log import VirtualLog
from virtuallog_loglets.archive.checking import Checked
from virtuallog_loglets.archive.crew import Crew
from virtuallog_loglets.archive.files import Files
from virtuallog_loglets.archive.fsspec_files import FsspecFiles
from virtuallog_loglets.archive.making import Made, Sizes
from virtuallog_loglets.archive.source import Readable

Hire: TypeAlias = Callable[[Job, Readable, Files, Clock], Crew]
"""Who makes an archive: of a job, for tasks; of the same range, as it is read here; with these files; by this clock."""


@attrs.frozen(kw_only=True)
class RangeJob:
    """Implements `pyspark_virtuallog.archive.tasks.Job`."""

    spans: Sequence[Span[What]]
    """What there is."""
    start: int
    stop: int
    cluster: ClusterFile | None
    """The log itself, if it is among the spans."""
    cluster_id: str
    """Whose log it is, in hexadecimal digits."""
    location: str
    sizes: Sizes = attrs.field(factory=Sizes)

    @property
    def nodes(self) -> Sequence[NodeId]:
        return [] if self.cluster is None else sorted(NodeId(node.id) for node in self.cluster.nodes)

    def run(self, work: Work, near: NodeId | None) -> Sequence[Made] | Sequence[Checked]:
        if self.cluster is None:
            return trio.run(self._run, None, work)
        return client(self.cluster, near, self.cluster_id).run(self._run, work)

    async def _run(self, log: VirtualLog | None, work: Work) -> Sequence[Made] | Sequence[Checked]:
        reading = open_reading(self.spans, self.start, self.stop, log, SystemClock())
        return await work.run(reading, FsspecFiles(self.location), self.sizes)
