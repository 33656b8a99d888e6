"""One run of a backup, from the first look at the place to its manifest.

    a server's snapshot, and the log held from there or from the last backup on -> state (full) -> ranges, each compared
    with the log -> digests of the state at the end -> manifest -> the hold moves on -> ranges that no backup names are removed

Killed at any step, the former backup is as valid as it was, and the next run takes what was written. The hold has
a time, so a backup that is never made again does not keep the log for ever. An incremental run reads nothing of the
last backup but lists: the digests are those of the cluster, and a verification says if the backup comes to them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

import attrs

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import (
    CorruptionError,
    InvalidSettingError,
    MalformedError,
    TrimmedError,
    UnavailableError,
    VirtualLogError,
    WrongRecipientError,
)
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import LogPosition, PlacedBatch
from virtuallog.runtime import log
from virtuallog.runtime.scratch_folder import scratch_folder
from virtuallog_database.control.client import place_hold, release_hold
from virtuallog_database.engines.core.keys import read_cursor
from virtuallog_database.engines.core.state_digests import state_digest_of
from virtuallog_database.ports import LocalStore
from virtuallog_database.rocks.directory import RocksDirectory
from virtuallog_database.snapshots.messages import hold_name
from virtuallog_database.snapshots.played_store import install_newest_snapshot, play_up_to
from virtuallog_loglets.archive.core import manifest as archive_manifests
from virtuallog_loglets.archive.creation.archive_writer import ArchiveWriter
from virtuallog_loglets.archive.creation.executor import SerialExecutor
from virtuallog_loglets.archive.creation.segment_source import ReadableSegment
from virtuallog_loglets.archive.creation.verification import ArchiveVerifier, VerificationReport
from virtuallog_loglets.archive.drivers.files import Directory
from virtuallog_server.backup.core.choice import covered_until, planned
from virtuallog_server.backup.core.manifest import NUMBER_MAX, BackupManifest, SavedRange, SavedState
from virtuallog_server.backup.place import BackupPlace
from virtuallog_server.backup.retried_files import retried
from virtuallog_server.backup.saved_log import JoinedLog, LiveLog, LogPart, first_batch
from virtuallog_server.backup.scratch_store import scratch_directory
from virtuallog_server.backup.state_files import upload_store

SNAPSHOTS_MAX: Final = 30
"""Most snapshots that are fetched while the log is being trimmed past them, a second apart."""
HOLD_SECONDS: Final = 7 * 86_400.0
"""Seconds for which the log is held for the next run by default."""
RUN_SECONDS: Final = 86_400.0
"""Seconds for which the log is held for the run itself: more than any takes."""

_HELD: Final = CrashPoint("backup: the log is held, nothing is written")
_STATE_SAVED: Final = CrashPoint("backup: the state is published, no range is written")
_RANGES_SAVED: Final = CrashPoint("backup: all ranges are compared, there is no manifest")
_PUBLISHED: Final = CrashPoint("backup: the manifest is there, the hold has not moved")
_HELD_ON: Final = CrashPoint("backup: the log is held for the next run, orphans are there")

_REMEDY: Final = "make a full one, with --full"

BackupProgress = Callable[[str, int], None]
"""Callback for progress: the present step, and the position up to which it is done."""


@attrs.frozen(kw_only=True)
class BackupSettings:
    """Settings of one run."""

    full: bool = False
    """True to begin with a new state, instead of what came since the last backup."""
    hold_seconds: float = HOLD_SECONDS
    """Seconds for which the log of a database is held for the next run. 0 not to hold it."""


@attrs.frozen(kw_only=True)
class FinishedBackup:
    """Result of a run."""

    manifest: BackupManifest
    written_bytes: int
    """Bytes of the state and of the ranges that this run has saved, or has found there and compared with the log."""
    seconds: float
    orphans: int
    """Ranges of former runs that were removed."""


@attrs.frozen
class _Start:
    """State and ranges that a run goes on from."""

    start: int
    """Start of the backup."""
    stop: int
    """First position that is not saved yet."""
    state: SavedState | None
    ranges: tuple[SavedRange, ...]


async def back_up(
    log: VirtualLog,
    place: BackupPlace,
    settings: BackupSettings | None = None,
    tell: BackupProgress = lambda what, position: None,
) -> FinishedBackup:
    """Back up what has come since the last backup at the place, or all if there is none. On return it is durable, was
    read back, and compared with the log.

    Args:
        log: log of the cluster; its services must know `DATABASE` and `SNAPSHOTS`.
        place: location of backups.
        settings: None for the defaults.
        tell: callback for progress.

    Raises:
        WrongRecipientError: the last backup there is that of another cluster.
        InvalidSettingError: the log is empty, or was trimmed past the last backup: make a full one.
        UnavailableError: the cluster or the place does not answer, or another run was faster; may be run again.
        CorruptionError, MalformedError: the last backup, or what was written, is damaged.
        VirtualLogError: as `Files`, and of the disk.
    """
    return await _BackupRun(log, place, settings or BackupSettings(), tell).run()


@attrs.define(eq=False)
class _BackupRun:
    """One run."""

    _log: VirtualLog
    _place: BackupPlace
    _settings: BackupSettings
    _tell: BackupProgress
    _written_bytes: int = attrs.field(default=0, init=False)

    async def run(self) -> FinishedBackup:
        register, began = await self._log.view.refresh(), self._clock.monotonic()
        numbers, cluster = await self._place.numbers(), register.cluster.hex()
        number = (numbers[-1] if numbers else 0) + 1
        if number > NUMBER_MAX:
            raise InvalidSettingError("to", f"{self._place.url} has had {NUMBER_MAX} backups: take another place")
        former = await self._former(numbers, cluster, register.database)
        try:
            with scratch_folder("backup") as work:
                manifest = await self._save(number, cluster, register.database, former, work / "store")
        except (CorruptionError, MalformedError, UnavailableError) as error:
            if number not in await self._place.numbers():
                raise
            raise self._place.taken(number) from error  # and what this run has written was removed under its eyes
        await self._place.publish(manifest)
        _PUBLISHED.reached()
        if register.database and self._settings.hold_seconds > 0:
            await self._hold(manifest.stop, self._settings.hold_seconds)
        elif register.database:
            await self._release(self._holder)
        _HELD_ON.reached()
        return FinishedBackup(
            manifest=manifest,
            written_bytes=self._written_bytes,
            orphans=await self._remove_orphans(cluster, number),
            seconds=self._clock.monotonic() - began,
        )

    async def _former(self, numbers: Sequence[int], cluster: str, database: bool) -> BackupManifest | None:
        """The last backup, which this one goes on from. None if there is none, or if this one is to be full."""
        if not numbers:
            return None
        try:
            former = await self._place.read(numbers[-1])
            if former.cluster != cluster:
                raise WrongRecipientError("cluster", former.cluster, cluster)
            if self._settings.full or former.database != database:
                return None  # if a database has been put on the log since, its state is needed
            await self._place.check_present(former)
        except (CorruptionError, MalformedError) as error:
            if not self._settings.full:
                raise type(error)(f"{error}; {_REMEDY}") from error
            log.warning("the last backup is damaged", reason=str(error))
            return None
        return former

    async def _remove_orphans(self, cluster: str, number: int) -> int:
        try:
            return len(await self._place.remove_orphans(cluster, number))
        except VirtualLogError as error:  # the backup is there, and the next run removes them
            log.warning("ranges that no backup names were not removed", reason=str(error))
            return 0

    async def _save(
        self, number: int, cluster: str, database: bool, former: BackupManifest | None, work: Path
    ) -> BackupManifest:
        if not database:
            start = LogPosition(former.stop) if former is not None else await self._log.find_trim_point()
            since = _Start(former.start if former is not None else start, start, None, former.ranges if former else ())
            covered_ms, stop = await self._tail(since.stop)
            ranges = await self._save_ranges(number, cluster, since, stop)
            return self._manifest(number, cluster, former, since, ranges, covered_ms, stop, None)
        async with scratch_directory(work) as directory:
            if former is not None:
                await self._hold_on(former.stop)
            store = await self._held_snapshot(directory, former)
            _HELD.reached()
            if former is not None:
                since = _Start(former.start, former.stop, former.state, former.ranges)
            else:
                cursor = read_cursor(store)
                self._tell("saving the state", cursor)
                since = _Start(cursor, cursor, await self._save_state(directory, store, cluster), ())
                _STATE_SAVED.reached()
            # Once more, for an entry with the time of the cluster: right before the end of the log is asked for.
            await self._hold(min(since.stop, read_cursor(store)))
            wall_ms, stop = await self._tail(since.stop)
            ranges = await self._save_ranges(number, cluster, since, stop)
            _RANGES_SAVED.reached()
            newest_ms = ranges[-1].last_ms if ranges else 0
            covered_ms = covered_until(wall_ms, newest_ms, 0 if former is None else former.covered_ms)
            # By the log itself, and not by what was written: the digests say what a restore must come to.
            await play_up_to(store, LiveLog(self._log), stop, partial(self._tell, "playing"))
            return self._manifest(number, cluster, former, since, ranges, covered_ms, stop, store)

    def _manifest(
        self,
        number: int,
        cluster: str,
        former: BackupManifest | None,
        since: _Start,
        ranges: tuple[SavedRange, ...],
        covered_ms: int,
        stop: int,
        store: LocalStore | None,
    ) -> BackupManifest:
        return BackupManifest(
            number=number,
            base=number if former is None else former.base,
            cluster=cluster,
            database=store is not None,
            start=since.start,
            stop=stop,
            covered_ms=covered_ms,
            digests={} if store is None else state_digest_of(store).finish(),
            state=since.state,
            ranges=since.ranges + ranges,
            writer=f"virtuallog {version('virtuallog')}",
        )

    async def _tail(self, saved: int) -> tuple[int, LogPosition]:
        """The moment before the tail was asked for, and the tail: all that was acknowledged before is below."""
        covered_ms = int(self._clock.wall() * 1000)
        stop = LogPosition((await retried(self._clock, self._log.check_tail)).tail)
        if stop == 0:
            raise InvalidSettingError("cluster", "its log is empty: there is nothing to back up")
        if stop < saved:
            raise CorruptionError(f"the log ends at {stop}, but was saved up to {saved}: it has lost entries")
        return covered_ms, stop

    # -- the state ------------------------------------------------------------------------------------------------

    async def _held_snapshot(self, directory: RocksDirectory, former: BackupManifest | None) -> LocalStore:
        """An open store with a snapshot of a server, and the log held from there on, or from the last backup on."""
        for attempt in range(SNAPSHOTS_MAX):
            await install_newest_snapshot(directory, self._log, self._holder)
            store = await directory.open()
            cursor = read_cursor(store)
            try:
                await self._hold(cursor if former is None else min(cursor, former.stop))
            except TrimmedError:
                await store.close()
                if attempt == SNAPSHOTS_MAX - 1:
                    raise
            else:
                await self._release(hold_name(self._holder))
                return store
            await self._clock.sleep(1.0)
        raise AssertionError("the last attempt ends with its error")

    async def _save_state(self, directory: RocksDirectory, store: LocalStore, cluster: str) -> SavedState | None:
        position = read_cursor(store)
        if position == 0:
            return None
        time_ms = await self._time_before(position)
        made = await upload_store(self._place.states, directory, store, bytes.fromhex(cluster), time_ms)
        blob = await self._place.state_blob(cluster, position)
        if blob is None:
            raise CorruptionError(f"the state at {position} is not at {self._place.url}, though it was written")
        self._written_bytes += made.size
        return SavedState(
            position=position, time_ms=made.time_ms, pairs=made.pairs, bytes=made.size,
            checksum=archive_manifests.checksum(blob),
        )  # fmt: skip

    async def _time_before(self, position: int) -> int:
        """Time of the last entry below a position; of the next one if it is trimmed; 0 if there is none."""
        tail = (await retried(self._clock, self._log.check_tail)).tail
        found = await first_batch(LiveLog(self._log), position - 1, tail)
        return 0 if found is None else found.time_ms

    # -- the log --------------------------------------------------------------------------------------------------

    async def _save_ranges(self, number: int, cluster: str, since: _Start, stop: int) -> tuple[SavedRange, ...]:
        present = [(start, end) for start, end, run in await self._place.ranges(cluster) if run == number]
        wanted = planned(present, since.stop, stop)
        return tuple([await self._save_range(number, cluster, start, end) for start, end in wanted])

    async def _save_range(self, number: int, cluster: str, start: int, stop: int) -> SavedRange:
        """Write a range, read it back, and compare it with the log."""
        source, files = LiveLog(self._log), self._place.range_files(cluster, start, stop, number)
        executor = SerialExecutor(source, files)
        writer = partial(
            ArchiveWriter, executor=executor, files=files, cluster=cluster, start=start, stop=stop,
            writer=f"virtuallog {version('virtuallog')}", tell=partial(self._tell, "writing"),
        )  # fmt: skip
        try:
            blob = await writer().run()
            manifest, found = await self._compare(blob, files, executor)
        except (CorruptionError, MalformedError) as error:  # a killed run has left it, and it was damaged since
            log.warning("a range is written again", start=start, stop=stop, reason=str(error))
            unusable = await files.read(archive_manifests.NAME)
            blob = await writer(unusable=unusable, may_replace=_is_unnamed).run()
            manifest, found = await self._compare(blob, files, executor)
        if found.start > start:
            raise InvalidSettingError("backup", f"the log was trimmed up to {found.start} meanwhile: {_REMEDY}")
        self._written_bytes += manifest.size
        parts = JoinedLog([LogPart(start, stop, source)])
        first, last = await first_batch(parts, start, stop), await _last_batch(parts, manifest)
        return SavedRange(
            start=start, stop=stop, number=number, entries=manifest.entries, bytes=manifest.size,
            first_ms=0 if first is None else first.time_ms, last_ms=0 if last is None else last.time_ms,
            checksum=archive_manifests.checksum(blob),
        )  # fmt: skip

    async def _compare(
        self, blob: bytes, files: Directory, executor: SerialExecutor
    ) -> tuple[archive_manifests.ArchiveManifest, VerificationReport]:
        manifest = archive_manifests.decode_untrusted(blob)
        verifier = ArchiveVerifier(
            manifest=manifest, files=files, executor=executor, tell=partial(self._tell, "comparing")
        )
        return manifest, await verifier.run()

    # -- the hold -------------------------------------------------------------------------------------------------

    async def _hold_on(self, position: int) -> None:
        try:
            await self._hold(position)
        except TrimmedError as error:
            raise InvalidSettingError(
                "backup", f"the log was trimmed past the last backup, which ends at {position}: {_REMEDY}"
            ) from error

    async def _hold(self, position: int, seconds: float | None = None) -> None:
        """Keep the log from a position on, for so long; for a run as long as for the next one, as that may have to go on
        from the same position."""
        seconds = max(RUN_SECONDS, self._settings.hold_seconds) if seconds is None else seconds
        await retried(self._clock, lambda: place_hold(self._log, self._holder, LogPosition(position), seconds))

    async def _release(self, name: str) -> None:
        await retried(self._clock, lambda: release_hold(self._log, name))

    @property
    def _holder(self) -> str:
        """Name of the hold: one for each place."""
        return f"backup-{hashlib.sha256(self._place.url.encode()).hexdigest()[:8]}"

    @property
    def _clock(self) -> Clock:
        return self._log.view.environment.clock


async def _is_unnamed() -> bool:
    """True: no backup names a range of a run that is under way."""
    return True


async def _last_batch(source: ReadableSegment, manifest: archive_manifests.ArchiveManifest) -> PlacedBatch | None:
    """Last batch of an archive, looked for in its row groups from the last one on. None if it has only gaps."""
    stop = manifest.stop
    for file in reversed(manifest.files):
        for group in reversed(file.groups):
            last, at = None, group.start
            while at < stop:
                for placed in await source.read(at, stop):
                    last, at = placed if isinstance(placed, PlacedBatch) else last, placed.stop
            if last is not None:
                return last
            stop = group.start
    return None
