"""A restore from the beginning to the end: what is left of a log, up to one position, becomes the
start of a new cluster.

    find sources -> decide -> state, history -> origin.json, last

    INTO/restore.json     the decision, with the id of the new cluster: a resumed restore makes the same
    INTO/archives/..      the log below the position, if that is wanted
    INTO/compacted/..     the state of its database at the position, if that is wanted
    INTO/origin.json      written last: what the new cluster reads at its first start

Nothing is changed where the log was.
"""

from __future__ import annotations

import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Final

import attrs

from pyspark_virtuallog.archive.tasks import Job
from pyspark_virtuallog.restore import sources
from pyspark_virtuallog.restore.planner import RestorePlanner, RestoreRequest
from pyspark_virtuallog.restore.range_reader import RangeReader, open_reading
from pyspark_virtuallog.restore.ranges import RangeExecutorFactory, RangeJob
from pyspark_virtuallog.restore.sources import LogSources
from pyspark_virtuallog.restore.state import publish_state
from pyspark_virtuallog.restore.stores import Stores
from virtuallog.client.cluster_file import read_cluster_file
from virtuallog.client.virtual_log import READS_ONLY, VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.errors import CorruptionError, InvalidSettingError
from virtuallog.contract.ports import Clock
from virtuallog.contract.register import ClusterId
from virtuallog.contract.types import LogPosition
from virtuallog.runtime.clock import SystemClock
from virtuallog_database.snapshots.compaction_manifest import Manifest
from virtuallog_database.snapshots.compaction_store import CompactionStore
from virtuallog_database.snapshots.wire import SNAPSHOTS
from virtuallog_loglets.archive import restored_origin as origins
from virtuallog_loglets.archive.config import join
from virtuallog_loglets.archive.creation.copied_history import RestoredHistory, Tell, copy_history
from virtuallog_loglets.archive.creation.executor import ArchiveExecutor, SerialExecutor
from virtuallog_loglets.archive.creation.segment_source import ReadableSegment
from virtuallog_loglets.archive.drivers.files import Files
from virtuallog_loglets.archive.drivers.fsspec_files import FsspecFiles
from virtuallog_loglets.archive.restore_plan import RestorePlan, read_plan, write_plan
from virtuallog_loglets.archive.restored_origin import ARCHIVES, Origin

_CLUSTER_BYTES: Final = 16


@attrs.frozen(kw_only=True)
class Restored:
    """Result of a restore."""

    former: bytes
    """The former cluster, whose log it was."""
    origin: Origin
    state: Manifest | None
    history: RestoredHistory | None


def serial_executor_for(_job: Job, reading: ReadableSegment, files: Files, _clock: Clock) -> ArchiveExecutor:
    """Executor that does all work in this process."""
    return SerialExecutor(reading, files)


async def restore(
    wanted: RestoreRequest,
    random: Random,
    tell: Tell = lambda what, position: None,
    executor_factory: RangeExecutorFactory = serial_executor_for,
) -> Restored:
    """Restore a log or its database. Cancelled or killed, the same call resumes; an unfinished
    result is never used.

    Args:
        wanted: the request.
        random: source of the new cluster's id.
        tell: progress callback.
        executor_factory: makes the executor that copies the history.

    Raises:
        InvalidSettingError: the position, or a source that it needs, is missing; or INTO holds
            something else.
        WrongRecipientError: a named source is of another cluster.
        CorruptionError, MalformedError: a source or the result is damaged.
        VirtualLogError: as the log, the locations, the disk.
    """
    async with AsyncExitStack() as stack:
        log = (
            await stack.enter_async_context(connect(wanted.cluster, more=[SNAPSHOTS], settings=READS_ONLY))
            if wanted.cluster is not None
            else None
        )
        found = await sources.find(wanted.places, log, wanted.cluster_id)
        return await _Restoring(wanted, log, found, random, tell, executor_factory).run()


@attrs.define(eq=False)
class _Restoring:
    """One attempt."""

    _wanted: RestoreRequest
    _log: VirtualLog | None
    _found: LogSources
    _random: Random
    _tell: Tell
    _hire: RangeExecutorFactory
    _clock: Clock = attrs.field(factory=SystemClock)

    async def run(self) -> Restored:
        plan = await self._plan()
        state = await self._restore_state(plan) if plan.state else None
        history = await self._copy(plan.cluster, plan.since, plan.position) if plan.since is not None else None
        origin = Origin(
            cluster=plan.cluster, position=plan.position, history=() if history is None else (history.config,)
        )  # fmt: skip
        await FsspecFiles(self._wanted.into).write(origins.NAME, origin.encode())
        return Restored(former=plan.former, origin=origin, state=state, history=history)

    async def _plan(self) -> RestorePlan:
        """The plan: decided now, or by an earlier attempt at the same."""
        files, url = FsspecFiles(self._wanted.into), self._wanted.into
        plan = await read_plan(files, url)
        if plan is None:
            plan = await write_plan(files, await self._decide())
        plan.check(url, self._wanted.asked, self._found.cluster)
        return plan

    async def _decide(self) -> RestorePlan:
        """Decide. Refuses what cannot be made, as far as that shows, before anything is written."""
        cluster = ClusterId(self._random.randbytes(_CLUSTER_BYTES))
        plan = await RestorePlanner(self._wanted, self._found, self._reading).run(cluster)
        if plan.state and self._wanted.store is None:
            self._stores().check(plan.position)
        return plan

    def _reading(self, start: int, stop: int) -> RangeReader:
        try:
            return open_reading(self._found.spans, start, stop, self._log, self._clock)
        except InvalidSettingError as error:
            told = "".join(f"; of no use: {reason}" for reason in self._found.unusable)
            raise InvalidSettingError(error.where, error.reason + told) from error

    async def _copy(self, cluster: ClusterId, since: LogPosition, position: LogPosition) -> RestoredHistory:
        reading, named = self._reading(since, position), self._wanted.cluster

        def executor_factory(location: str, files: Files) -> ArchiveExecutor:
            job = RangeJob(
                spans=self._found.spans,
                start=since,
                stop=position,
                cluster=read_cluster_file(named) if isinstance(named, Path) else named,
                cluster_id=self._found.cluster.hex(),
                location=location,
            )
            return self._hire(job, reading, files, self._clock)

        return await copy_history(
            executor_factory, join(self._wanted.into, ARCHIVES), cluster, since, position, self._tell
        )

    async def _restore_state(self, plan: RestorePlan) -> Manifest:
        place, position = CompactionStore(self._wanted.into), plan.position
        if self._wanted.store is None and (done := await place.newest(plan.cluster)) is not None:
            return done  # by a former attempt, which has read it back
        with tempfile.TemporaryDirectory(prefix="virtuallog-restore-") as work:
            path = self._wanted.store or Path(work) / "store"
            async with self._stores().open(path, position) as (store, time_ms):
                self._tell("publishing", position)
                try:
                    return await publish_state(
                        place, plan.cluster, store, time_ms, Path(work) / "made", with_engines=plan.since is not None
                    )
                except CorruptionError:  # or another process made the same faster, and has removed this one's files
                    if (done := await place.newest(plan.cluster)) is None:
                        raise
                    return done

    def _stores(self) -> Stores:
        return Stores(
            found=self._found, log=self._log, clock=self._clock, open_reading=self._reading, tell=self._tell
        )  # fmt: skip
