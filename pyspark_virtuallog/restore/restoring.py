"""A restore from the beginning to the end: what is left of a log, up to one position, becomes what a new cluster begins with.

    find what there is -> choose the position -> state, history -> origin.json, last

    INTO/restore.json     what is being restored, and the id of the new cluster: whoever goes on after a kill makes the same
    INTO/archives/..      the log below the position, if that is wanted
    INTO/compacted/..     the state of its database at the position, if that is wanted
    INTO/origin.json      written last: what the new cluster reads at its first start

Nothing is changed where the log was.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any, Final

import attrs

from database.snapshots.compaction import Manifest
from database.snapshots.place import Place
from database.snapshots.wire import SNAPSHOTS
from loglets.archive import origin as origins
from loglets.archive.config import join
from loglets.archive.crew import Crew, OneByOne
from loglets.archive.fields import object_of, text
from loglets.archive.files import Files
from loglets.archive.fsspec_files import FsspecFiles
from loglets.archive.origin import ARCHIVES, Origin
from loglets.archive.source import Readable
from pyspark_virtuallog.archiving.tasks import Job
from pyspark_virtuallog.restore import sources
from pyspark_virtuallog.restore.covering import whole_from
from pyspark_virtuallog.restore.history import History, Tell, copy_history
from pyspark_virtuallog.restore.ranges import Hire, RangeJob
from pyspark_virtuallog.restore.reading import Reading, open_reading
from pyspark_virtuallog.restore.sources import Found
from pyspark_virtuallog.restore.state import Publishing
from pyspark_virtuallog.restore.stores import Stores
from virtuallog.clock import SystemClock
from virtuallog.cluster_file import ClusterFile, read_cluster_file
from virtuallog.connect import connect
from virtuallog.errors import InvalidSettingError, MalformedError
from virtuallog.ports import Clock
from virtuallog.register import ClusterId
from virtuallog.time_search import search_time
from virtuallog.types import LogPosition
from virtuallog.virtual_log import VirtualLog

PLAN: Final = "restore.json"
_CLUSTER_BYTES: Final = 16


@attrs.frozen(kw_only=True)
class Wanted:
    """What is to be restored."""

    into: str
    """URL of the directory that it goes to: empty, or what a former attempt at the same has left."""
    cluster: Path | ClusterFile | None = None
    """The log itself, if it is still there."""
    places: Sequence[str] = ()
    """URLs of places with archives, backups, compactions."""
    cluster_id: bytes | None = None
    """Whose log, if the places have several."""
    position: LogPosition | None = None
    """Everything below is restored; None: by time, or all there is."""
    time_ms: int | None = None
    """What was ordered before this time of day, about."""
    since: LogPosition | None = None
    """Where the history begins; None: where the sources do."""
    state: bool | None = None
    """Whether the state of a database; None: if it has one."""
    history: bool | None = None
    """Whether the log itself; None: if it has no database."""
    store: Path | None = None
    """Where the state is played into, and stays as the store of a server of the former cluster; None: nowhere."""


@attrs.frozen(kw_only=True)
class Restored:
    """What was made."""

    former: bytes
    """The cluster whose log it was."""
    origin: Origin
    state: Manifest | None
    history: History | None


def one_by_one(_job: Job, reading: Readable, files: Files, _clock: Clock) -> Crew:
    """This process makes all of it."""
    return OneByOne(reading, files)


async def restore(
    wanted: Wanted, random: Random, tell: Tell = lambda what, position: None, hire: Hire = one_by_one
) -> Restored:
    """Restore it. Cancelled or killed, the same call goes on where this one was; nobody takes what is not finished.

    Args:
        wanted: what.
        random: for the id of the new cluster.
        tell: of progress.
        hire: who copies the history.

    Raises:
        InvalidSettingError: the position is not there, or something of what it takes is not; or INTO holds something else.
        WrongRecipientError: what was named is of another cluster.
        CorruptionError, MalformedError: what is there, or what was made, is damaged.
        VirtualLogError: as the log, the places, the disk.
    """
    async with AsyncExitStack() as stack:
        log = (
            await stack.enter_async_context(connect(wanted.cluster, more=[SNAPSHOTS]))
            if wanted.cluster is not None
            else None
        )
        found = await sources.find(wanted.places, log, wanted.cluster_id)
        return await _Restoring(wanted, log, found, random, tell, hire).run()


@attrs.define(eq=False)
class _Restoring:
    """One attempt."""

    _wanted: Wanted
    _log: VirtualLog | None
    _found: Found
    _random: Random
    _tell: Tell
    _hire: Hire
    _clock: Clock = attrs.field(factory=SystemClock)

    async def run(self) -> Restored:
        wanted, found = self._wanted, self._found
        position = await self._position()
        with_state = found.has_database if wanted.state is None else wanted.state
        with_history = not found.has_database if wanted.history is None else wanted.history
        since = self._since(position) if with_history else None
        cluster = await self._begin(position, with_state, since)
        state = await self._restore_state(cluster, position) if with_state else None
        history = await self._copy(cluster, since, position) if since is not None else None
        origin = Origin(
            cluster=cluster, position=position, history=() if history is None else (history.config,)
        )  # fmt: skip
        await FsspecFiles(wanted.into).write(origins.NAME, origin.encode())
        return Restored(former=found.cluster, origin=origin, state=state, history=history)

    # -- what -----------------------------------------------------------------------------------------------------

    async def _position(self) -> LogPosition:
        wanted, (_, end) = self._wanted, self._found.reach
        position = wanted.position
        if position is None and wanted.time_ms is not None:
            position = await self._find_time(wanted.time_ms, LogPosition(end))
        position = LogPosition(end) if position is None else position
        if not 0 < position <= end:
            raise InvalidSettingError("position", f"{position} is not within what was found, which ends at {end}")
        return position

    async def _find_time(self, time_ms: int, end: LogPosition) -> LogPosition:
        first = LogPosition(whole_from(self._found.spans, end))
        reading = self._reading(first, end)
        found = await search_time(reading.first_batch, first, end, time_ms)
        if found == first > 0:
            raise InvalidSettingError("time", f"all that was found, from {first} on, is later")
        return found

    def _since(self, position: LogPosition) -> LogPosition:
        first, _ = self._found.reach
        since = self._wanted.since if self._wanted.since is not None else LogPosition(first)
        if not since < position:
            raise InvalidSettingError("since", f"{since} is not below {position}")
        self._reading(since, position)  # before anything is written
        return since

    def _reading(self, start: int, stop: int) -> Reading:
        return open_reading(self._found.spans, start, stop, self._log, self._clock)

    async def _begin(self, position: LogPosition, with_state: bool, since: LogPosition | None) -> ClusterId:
        """The id of the new cluster: drawn now, or by whoever has begun the same."""
        files = FsspecFiles(self._wanted.into)
        plan = {"former": self._found.cluster.hex(), "position": position, "state": with_state, "since": since}
        blob = await files.read(PLAN)
        if blob is None:
            if await files.list():
                raise InvalidSettingError("into", f"{self._wanted.into} is not empty")
            cluster = self._random.randbytes(_CLUSTER_BYTES)
            await files.write(PLAN, json.dumps({**plan, "cluster": cluster.hex()}).encode(), replace=False)
            blob = await files.read(PLAN) or b""
        there = _plan_untrusted(blob)
        if {**there, "cluster": None} != {**plan, "cluster": None}:
            raise InvalidSettingError(
                "into", f"{self._wanted.into} has, or is to have, another restore: {blob.decode()}"
            )
        return ClusterId(bytes.fromhex(there["cluster"]))

    async def _copy(self, cluster: ClusterId, since: LogPosition, position: LogPosition) -> History:
        reading, named = self._reading(since, position), self._wanted.cluster

        def hire(location: str, files: Files) -> Crew:
            job = RangeJob(
                spans=self._found.spans,
                start=since,
                stop=position,
                cluster=read_cluster_file(named) if isinstance(named, Path) else named,
                cluster_id=self._found.cluster.hex(),
                location=location,
            )
            return self._hire(job, reading, files, self._clock)

        return await copy_history(hire, join(self._wanted.into, ARCHIVES), cluster, since, position, self._tell)

    async def _restore_state(self, cluster: ClusterId, position: LogPosition) -> Manifest:
        stores = Stores(
            found=self._found, log=self._log, clock=self._clock, open_reading=self._reading, tell=self._tell
        )  # fmt: skip
        with tempfile.TemporaryDirectory(prefix="virtuallog-restore-") as work:
            made = Path(work) / "made"
            made.mkdir()
            async with stores.open(self._wanted.store or Path(work) / "store", position) as (store, time_ms):
                self._tell("publishing", position)
                publishing = Publishing(place=Place(self._wanted.into), cluster=cluster, work=made)
                return await publishing.run(store, time_ms)


def _plan_untrusted(blob: bytes) -> Mapping[str, Any]:
    try:
        plan = object_of(json.loads(blob))
        text(plan, "cluster")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise MalformedError(f"{PLAN} is none: {blob[:100]!r}") from error
    return plan
