"""One compaction from the beginning to the end.

    hold the log -> play it, chunk by chunk -> merge with Spark -> publish -> the hold moves on -> older files are removed

The hold has no end. Between two compactions it stands at the last one, so that a server which
begins with that finds the rest in the log. Servers trim by themselves, up to there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import attrs
import trio
from pyspark.sql import SparkSession

from pyspark_virtuallog.compact.chunks import DIRECTORY, Chunk, chain, chunks, last_time_ms
from pyspark_virtuallog.compact.cleanup import clean, mark
from pyspark_virtuallog.compact.merge import TABLE_BYTES, Source, WrittenTable, fold
from pyspark_virtuallog.compact.publication import ReplayedState, publish
from pyspark_virtuallog.compact.replay import CHUNK_BYTES, ChunkReplay
from pyspark_virtuallog.compact.start_state import NAME, StartState, begin
from pyspark_virtuallog.spark_errors import explained
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.client.scan import RETRY_LIMIT_SECONDS
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.errors import (
    BeyondTailError,
    InvalidSettingError,
    RetryableError,
    TrimmedError,
    UnavailableError,
)
from virtuallog.contract.types import LogPosition
from virtuallog.runtime.clock import SystemClock
from virtuallog_database.control.client import call_any_replica, place_hold
from virtuallog_database.control.messages import ReleaseHold
from virtuallog_database.control.wire import DATABASE
from virtuallog_database.engines.core.enabled_engines import switches
from virtuallog_database.engines.core.keys import CURSOR, read_cursor
from virtuallog_database.engines.core.state_digests import state_digest_of
from virtuallog_database.rocks.directory_lock import locked_directory
from virtuallog_database.snapshots.compaction_manifest import Manifest
from virtuallog_database.snapshots.compaction_store import CompactionStore
from virtuallog_database.snapshots.messages import hold_name
from virtuallog_database.snapshots.wire import SNAPSHOTS
from virtuallog_loglets.archive.config import join
from virtuallog_loglets.archive.drivers.files import Files

BEGINNINGS_MAX: Final = 30
"""Tries to begin while the log is being trimmed, a second apart: an allowed trim is done within a
few."""

Tell = Callable[[str, int, int], None]
"""Progress callback: the current step, how far it is, and of how much."""


@attrs.frozen(kw_only=True)
class CompactionRequest:
    """Request of a compaction."""

    cluster: ClusterFile
    url: str
    """URL of the location of compactions."""
    work: Path
    """A directory on this machine. Its content saves the next compaction from copying the last one."""
    position: LogPosition | None = None
    """Compact everything below. None for the tail."""
    chunk_bytes: int = CHUNK_BYTES
    table_bytes: int = TABLE_BYTES


@attrs.frozen
class _Inputs:
    """Input of Spark, and the expected result."""

    played: ReplayedState
    sources: tuple[Source, ...]
    size: int
    """Approximate bytes of all of them."""


def compact(spark: SparkSession, wanted: CompactionRequest, tell: Tell = lambda what, done, total: None) -> Manifest:
    """Compact the log of a database. Returns the published compaction, which the hold keeps usable.
    Without new entries it is the last one. Killed, or after an error, the same call resumes.

    Raises:
        UnavailableError: the cluster, its database or the location do not answer.
        InvalidSettingError: the last compaction is newer than the position; or another process uses
            the same directory.
        BeyondTailError: the log does not reach up to the position.
        BinaryTooOldError: the database uses an engine that this program does not know.
        CorruptionError: the result of Spark is not that of the replay, or something cannot be read;
            nothing is published.
        VirtualLogError: of the disk, of the location, or of Spark.
    """
    with locked_directory(wanted.work):  # the store has a lock of its own, but is closed when Spark begins
        return _compact(spark, wanted, tell)


def _compact(spark: SparkSession, wanted: CompactionRequest, tell: Tell) -> Manifest:
    place = CompactionStore(wanted.url)
    found = trio.run(_play, wanted, place, tell)
    if isinstance(found, Manifest):
        return found
    played = found.played
    tell("fold", 0, 1)
    written = _fold(spark, found, place, wanted.table_bytes)
    tell("publish", 0, 1)
    manifest = trio.run(publish, place, played, written, wanted.work / played.cluster.hex() / "assembly")
    trio.run(_finish, wanted, place, manifest)
    return manifest


def _fold(spark: SparkSession, inputs: _Inputs, place: CompactionStore, table_bytes: int) -> list[WrittenTable]:
    played = inputs.played
    cursor = CURSOR, played.position.to_bytes(8, "big")
    url = place.location(played.cluster, played.position)
    with explained():
        return fold(spark, inputs.sources, cursor, url, 1 + inputs.size // table_bytes, table_bytes)


# -- the log --------------------------------------------------------------------------------------------------------------


async def _play(wanted: CompactionRequest, place: CompactionStore, tell: Tell) -> _Inputs | Manifest:
    async with connect(wanted.cluster, more=[DATABASE, SNAPSHOTS]) as log:
        register = await log.view.current()
        if not register.database:
            raise InvalidSettingError("cluster", "no database stands on its log: there is nothing to compact")
        files = place.open_files(_chunks_url(place, register.cluster))
        beginning = await _begin(log, place, files, wanted.work / register.cluster.hex() / "store")
        try:
            # Only now: the start state may be newer than any tail seen before.
            stop = await _stop(log, wanted.position)
            base, cursor = beginning.base, read_cursor(beginning.store)
            if base is not None and base.position == stop:
                return base
            if cursor > stop:
                raise InvalidSettingError("position", f"{stop} is before what was compacted, or played: {cursor}")
            return await _play_on(log, beginning, files, place, stop, wanted.chunk_bytes, tell)
        finally:
            with trio.CancelScope(
                shield=True
            ):  # ends soon; otherwise the directory stays locked while the process lives
                await beginning.close()


async def _stop(log: VirtualLog, position: LogPosition | None) -> LogPosition:
    tail = LogPosition((await log.check_tail()).tail)
    stop = tail if position is None else position
    if stop > tail:
        raise BeyondTailError(stop, tail)
    if stop == 0:
        raise InvalidSettingError("position", "nothing of the log is before 0: there is nothing to compact")
    return stop


async def _begin(log: VirtualLog, place: CompactionStore, files: Files, path: Path) -> StartState:
    """Start state, with the log held from there on. The log may be about to be trimmed: then the
    start state is too old, and another one is found once the trim is done."""
    for attempt in range(BEGINNINGS_MAX):
        beginning = await begin(log, place, files, path)
        try:
            await hold(log, beginning.needed)
        except (
            BaseException
        ) as error:  # also if cancelled: otherwise the directory stays locked while the process lives
            with trio.CancelScope(shield=True):
                await beginning.close()
            if not isinstance(error, TrimmedError) or attempt == BEGINNINGS_MAX - 1:
                raise
        else:
            return beginning
        await log.view.environment.clock.sleep(1.0)
    raise AssertionError("the last attempt ends with its error")


async def hold(log: VirtualLog, position: LogPosition) -> None:
    """Keep the log from a position on; an existing hold moves. The hold of a restored snapshot is
    released.

    Raises:
        TrimmedError: some of that range may be trimmed.
        UnavailableError: no server of the database answers.
    """
    await place_hold(log, NAME, position)
    nodes = sorted((await log.view.current()).nodes)
    await call_any_replica(log.view.environment.services, nodes, ReleaseHold(name=hold_name(NAME)))


async def _play_on(
    log: VirtualLog,
    beginning: StartState,
    files: Files,
    place: CompactionStore,
    stop: LogPosition,
    chunk_bytes: int,
    tell: Tell,
) -> _Inputs:
    store, base, cluster = beginning.store, beginning.base, (await log.view.current()).cluster
    await ChunkReplay(log, store, files, chunk_bytes).run(stop, lambda position: tell("replay", position, stop))
    sizes = await files.list()
    linked = chain(chunks(sizes), base.position if base is not None else 0, stop)
    if linked is None:
        raise UnavailableError(f"chunks are gone from {place.url}: does another job compact this log there?")
    folded = state_digest_of(store)
    played = ReplayedState(
        cluster=cluster,
        position=stop,
        time_ms=await _time_ms(files, linked) or (base.time_ms if base is not None else 0),
        engines=tuple(sorted(name for name, is_on in switches(store).items() if is_on)),
        digests=folded.finish(),
        pairs=folded.pairs,
    )
    await mark(files, stop)
    url = _chunks_url(place, cluster)
    sources = [Source(url, name) for chunk in linked for name in chunk.files]
    if base is not None:
        at = place.location(cluster, base.position)
        sources += [Source(at, table.stored, table.checksum, is_base=True) for table in base.tables]
    size = sum(sizes[name] for chunk in linked for name in chunk.files) + (base.size if base is not None else 0)
    return _Inputs(played, tuple(sources), size)


async def _time_ms(files: Files, linked: Sequence[Chunk]) -> int:
    """Time at which the last entry with effects in these chunks was ordered."""
    for chunk in reversed(linked):
        content = await files.read(chunk.files[-1])
        if content is not None and (time_ms := last_time_ms(content)):
            return time_ms
    return 0


async def _finish(wanted: CompactionRequest, place: CompactionStore, manifest: Manifest) -> None:
    """Move the hold to the newest compaction: another process may have been faster."""
    newest = await place.newest(manifest.cluster)
    assert newest is not None, "only what is older than others is removed"
    await _hold_patiently(wanted.cluster, manifest.cluster, newest.position)
    await clean(place, place.open_files(_chunks_url(place, manifest.cluster)), manifest.cluster, manifest.position)


async def _hold_patiently(file: ClusterFile, cluster: bytes, position: LogPosition) -> None:
    """Move the hold, and retry: the long work of Spark must not be lost because nodes were busy for
    a second."""
    clock = SystemClock()
    deadline = clock.monotonic() + RETRY_LIMIT_SECONDS
    while True:
        try:
            async with connect(file, more=[DATABASE], expected_cluster=cluster) as log:
                return await hold(log, position)
        except RetryableError:
            if clock.monotonic() >= deadline:
                raise
        await clock.sleep(1.0)


def _chunks_url(place: CompactionStore, cluster: bytes) -> str:
    return join(join(place.url, DIRECTORY), cluster.hex())
