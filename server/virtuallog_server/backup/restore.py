"""Restores a backup, at its end or at an earlier position, into a directory that a new cluster begins with.

    choose the backup and the position -> state, or history -> origin.json, last

    INTO/restore.json     the decision, with the id of the new cluster: the same command, given again, makes the same
    INTO/compacted/..     the state of the database at the position, without sessions and ephemerals
    INTO/archives/..      of a log without a database: the log below the position
    INTO/origin.json      written last: what the new cluster reads at its first start

Nothing is changed where the backup is. `virtuallog up --restored INTO` starts the cluster, under a new id.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Any, Final

import attrs

from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import CorruptionError, InvalidSettingError, MalformedError
from virtuallog.contract.ports import Clock
from virtuallog.contract.register import ClusterId
from virtuallog.contract.types import LogPosition
from virtuallog.runtime.scratch_folder import scratch_folder
from virtuallog_database.engines.core.state_digests import state_digest_of
from virtuallog_database.ports import LocalStore
from virtuallog_database.snapshots.compaction_manifest import Manifest
from virtuallog_database.snapshots.compaction_store import CompactionStore
from virtuallog_database.snapshots.played_store import play_up_to
from virtuallog_database.transaction import StoreTransaction
from virtuallog_database.tree import keys
from virtuallog_database.tree.apply import apply
from virtuallog_database.tree.commands import CloseSession, Command, Origin
from virtuallog_loglets.archive import restored_origin as origins
from virtuallog_loglets.archive.config import join
from virtuallog_loglets.archive.creation.copied_history import RestoredHistory, copy_history
from virtuallog_loglets.archive.creation.executor import SerialExecutor
from virtuallog_loglets.archive.drivers.files import OpenDirectory
from virtuallog_loglets.archive.restore_plan import RestorePlan, read_plan, write_plan
from virtuallog_server.backup.backup_run import BackupProgress
from virtuallog_server.backup.core.choice import covers
from virtuallog_server.backup.core.manifest import BackupManifest
from virtuallog_server.backup.place import BackupPlace
from virtuallog_server.backup.saved_log import JoinedLog, find_saved_time, saved_parts
from virtuallog_server.backup.scratch_store import check_digests, open_saved_state, scratch_directory
from virtuallog_server.backup.state_files import upload_inherited

_PLANNED: Final = CrashPoint("backup: a restore is decided, nothing is restored")
_MADE: Final = CrashPoint("backup: a state or a history is restored, no cluster can begin with it")
_READY: Final = CrashPoint("backup: a restored cluster can begin, the caller has no result")

_CLUSTER_BYTES: Final = 16
_SESSIONS_AT_ONCE: Final = 512


@attrs.frozen(kw_only=True)
class BackupRequest:
    """Request of a restore."""

    into: str
    """URL of the target directory: empty, or with the files of a killed attempt at the same."""
    position: LogPosition | None = None
    """Everything below is restored. None to go by time, or to take all that the backup has."""
    time_ms: int | None = None
    """Time of day in milliseconds: everything ordered before it is restored. None if not by time."""
    number: int | None = None
    """Number of the backup. None for the newest one that reaches there."""
    keep_sessions: bool = False
    """True to keep sessions with their ephemerals. They expire unless their clients come back."""

    @property
    def asked(self) -> dict[str, Any]:
        """Request values that two attempts at the same have in common; plain values."""
        return {name: getattr(self, name) for name in ("position", "time_ms", "number", "keep_sessions")}


@attrs.frozen(kw_only=True)
class RestoredCluster:
    """Result of a restore."""

    backup: BackupManifest
    """The backup that was restored."""
    cluster: ClusterId
    """The new cluster."""
    position: LogPosition
    """Position at which its log begins."""
    state: Manifest | None
    """State of its database. None if it has none."""
    history: RestoredHistory | None
    """Its log below the position. None if the state stands for it."""
    digests: dict[str, str]
    """Digests of the former cluster's state at the position, part by part; empty without a database."""
    sessions: int
    """Sessions that were ended, with their ephemerals."""


async def restore_backup(
    place: BackupPlace,
    wanted: BackupRequest,
    open_files: OpenDirectory,
    clock: Clock,
    random: Random,
    tell: BackupProgress = lambda what, position: None,
) -> RestoredCluster:
    """Restore a backup. Killed at any step, the same call resumes; an unfinished result is never used.

    Args:
        place: location of the backups.
        wanted: the request.
        open_files: opens the target directory.
        clock: clock for timeouts.
        random: source of the new cluster's id.
        tell: callback for progress.

    Raises:
        InvalidSettingError: no backup reaches to that position or time; or the target holds a restored cluster, another
            restore, or something else.
        CorruptionError, MalformedError: the backup is damaged, or its replay does not come to the recorded state.
        VirtualLogError: as `Files`, and of the disk.
    """
    return await _Restore(place, wanted, open_files, clock, random, tell).run()


async def find_backup(place: BackupPlace, wanted: BackupRequest, since: LogPosition | None = None) -> BackupManifest:
    """The newest backup that reaches to the position or the time; the one with the number, if that is given.

    Args:
        place: location of the backups.
        wanted: the request.
        since: position that it must reach back to. None for any.

    Raises:
        InvalidSettingError: there is none; says what the place has.
        InvalidSettingError: backups of several clusters are there, and only one of the former reaches there.
        CorruptionError, MalformedError: the manifest of a newer one is damaged: name an older one by its number.
    """

    def reaches(manifest: BackupManifest) -> bool:
        is_far = since is None or manifest.start <= since
        return is_far and covers(manifest, wanted.position, wanted.time_ms)

    reach = list[str]()
    if wanted.number is not None:
        manifest = await place.read(wanted.number)
        if reaches(manifest):
            return manifest
        reach.append(_reach(manifest))
    else:
        found = newest = await _newest(place)
        while found is not None and newest is not None:
            if reaches(found):
                return _of_one_cluster(found, newest)
            reach.append(_reach(found))
            found = await _newest(place, found.base)
    if not reach:
        raise InvalidSettingError("from", f"there are no backups at {place.url}")
    raise InvalidSettingError("at", f"no backup reaches there; {'; '.join(reach[:10])}")


async def _newest(place: BackupPlace, below: int | None = None) -> BackupManifest | None:
    try:
        return await place.newest(below)
    except (CorruptionError, MalformedError) as error:
        raise type(error)(f"{error}; an older backup can be named by its number") from error


def _of_one_cluster(found: BackupManifest, newest: BackupManifest) -> BackupManifest:
    if found.cluster != newest.cluster:
        reason = (
            f"backup {found.number} reaches there, of cluster {found.cluster}; but the newest is of {newest.cluster}"
        )
        raise InvalidSettingError("number", f"{reason}: name one by its number")
    return found


def _reach(manifest: BackupManifest) -> str:
    begins_ms = manifest.state.time_ms if manifest.state is not None else 0
    times = " to ".join(datetime.fromtimestamp(ms / 1000, UTC).isoformat() for ms in (begins_ms, manifest.covered_ms))
    return f"number {manifest.number} has positions {manifest.start} to {manifest.stop}, times {times}"


def end_sessions(store: LocalStore, time_ms: int) -> int:
    """End all sessions in a store, as the command of a client would: their ephemerals go, and parents count it.
    Returns how many there were.

    Args:
        store: store of a database, which has no other writer.
        time_ms: wall-clock time in milliseconds at which they end.
    """
    ended = 0
    while pairs := store.scan(keys.SESSIONS, _SESSIONS_AT_ONCE):
        for key, _ in pairs:
            transaction = StoreTransaction(store)
            apply(transaction, Command(CloseSession(keys.session_of(key)), Origin(), time_ms))
            transaction.commit()
        ended += len(pairs)
    return ended


@attrs.define(eq=False)
class _Restore:
    """One attempt."""

    _place: BackupPlace
    _wanted: BackupRequest
    _open_files: OpenDirectory
    _clock: Clock
    _random: Random
    _tell: BackupProgress
    _digests: dict[str, str] = attrs.field(factory=dict, init=False)
    _sessions: int = attrs.field(default=0, init=False)

    async def run(self) -> RestoredCluster:
        wanted, files = self._wanted, self._open_files(self._wanted.into)
        if await files.read(origins.NAME) is not None:
            raise InvalidSettingError("into", f"{wanted.into} has a restored cluster: restore into an empty directory")
        plan = await read_plan(files, wanted.into)
        if plan is None:
            manifest = await find_backup(self._place, wanted)
            plan = await write_plan(files, await self._decide(manifest))
            _PLANNED.reached()
        else:
            here = attrs.evolve(wanted, position=plan.position, time_ms=None)
            manifest = await find_backup(self._place, here, plan.since)
        plan.check(wanted.into, wanted.asked, bytes.fromhex(manifest.cluster))
        state = await self._restore_state(plan, manifest) if plan.state else None
        history = await self._copy(plan, manifest) if plan.since is not None else None
        _MADE.reached()
        origin = origins.Origin(
            cluster=plan.cluster, position=plan.position, history=() if history is None else (history.config,)
        )  # fmt: skip
        await files.write(origins.NAME, origin.encode())
        _READY.reached()
        return RestoredCluster(
            backup=manifest, cluster=plan.cluster, position=plan.position, state=state, history=history,
            digests=self._digests, sessions=self._sessions,
        )  # fmt: skip

    async def _decide(self, manifest: BackupManifest) -> RestorePlan:
        wanted, position = self._wanted, self._wanted.position
        if position is None and wanted.time_ms is not None:
            saved = JoinedLog(saved_parts(self._place, manifest, self._clock))
            position = await find_saved_time(saved, manifest, wanted.time_ms)
        position = LogPosition(manifest.stop) if position is None else position
        if position == (0 if manifest.database else manifest.start):
            raise InvalidSettingError("at", f"the backup has nothing before that: it begins at {manifest.start}")
        return RestorePlan(
            asked=wanted.asked,
            former=bytes.fromhex(manifest.cluster),
            cluster=ClusterId(self._random.randbytes(_CLUSTER_BYTES)),
            position=position,
            state=manifest.database,
            since=None if manifest.database else LogPosition(manifest.start),
        )

    async def _restore_state(self, plan: RestorePlan, manifest: BackupManifest) -> Manifest:
        with scratch_folder("restore") as work:
            async with scratch_directory(work / "store") as directory:
                self._tell("fetching the state", manifest.start)
                store = await open_saved_state(directory, self._place, manifest, self._clock)
                saved = JoinedLog(saved_parts(self._place, manifest, self._clock))
                played_ms = await play_up_to(store, saved, plan.position, partial(self._tell, "playing"))
                if plan.position == manifest.stop:
                    check_digests(store, manifest)
                self._digests = dict(state_digest_of(store).finish())
                time_ms = played_ms or (manifest.state.time_ms if manifest.state is not None else 0)
                if not self._wanted.keep_sessions:
                    self._sessions = end_sessions(store, time_ms)
                self._tell("publishing", plan.position)
                into = CompactionStore(self._wanted.into, self._open_files)
                return await upload_inherited(into, store, plan.cluster, time_ms, work / "made")

    async def _copy(self, plan: RestorePlan, manifest: BackupManifest) -> RestoredHistory:
        assert plan.since is not None
        saved = JoinedLog(saved_parts(self._place, manifest, self._clock))
        return await copy_history(
            lambda _, files: SerialExecutor(saved, files),
            join(self._wanted.into, origins.ARCHIVES),
            plan.cluster,
            plan.since,
            plan.position,
            self._tell,
            self._open_files,
        )
