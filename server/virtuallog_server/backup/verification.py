"""Verification of a backup: it is restored into a scratch directory as for a new cluster, and compared.

every checksum -> replay -> digests recorded by the backup -> a new cluster's state -> a scratch store as a server
of the new cluster would make it -> its digests
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random

import attrs

from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import LogPosition
from virtuallog.runtime.scratch_folder import scratch_folder
from virtuallog_database.engines.core.state_digests import differences, state_digest_of
from virtuallog_database.snapshots.compaction_store import CompactionStore
from virtuallog_loglets.archive.config import join
from virtuallog_loglets.archive.core import manifest as archive_manifests
from virtuallog_loglets.archive.creation.executor import SerialExecutor
from virtuallog_loglets.archive.creation.verification import ArchiveVerifier
from virtuallog_loglets.archive.drivers.files import OpenDirectory
from virtuallog_server.backup.backup_run import BackupProgress
from virtuallog_server.backup.core.manifest import BackupManifest
from virtuallog_server.backup.place import BackupPlace
from virtuallog_server.backup.restore import BackupRequest, RestoredCluster, find_backup, restore_backup
from virtuallog_server.backup.scratch_store import install_state, scratch_directory


@attrs.frozen(kw_only=True)
class VerifiedBackup:
    """Result of a verification that found nothing wrong."""

    backup: BackupManifest
    pairs: int
    """Keys of the restored state; 0 without a database."""
    rpo_seconds: float
    """Age of the moment up to which everything is saved: what is lost if the cluster is lost now."""
    newest_entry_seconds: float | None
    """Age of the newest entry saved, by the clock of its sequencer. None if there is none."""
    rto_seconds: float
    """Seconds from the first look at the backup to a state that a server can begin with."""


async def verify_backup(
    place: BackupPlace,
    number: int | None,
    open_files: OpenDirectory,
    clock: Clock,
    random: Random,
    tell: BackupProgress = lambda what, position: None,
) -> VerifiedBackup:
    """Restore a backup into a scratch directory, and compare it. Nothing is left of it.

    Args:
        place: location of the backups.
        number: number of the backup. None for the newest one.
        open_files: opens the scratch directory.
        clock: clock for times and timeouts.
        random: source of an id.
        tell: callback for progress.

    Raises:
        InvalidSettingError: there is no such backup.
        CorruptionError, MalformedError: it is damaged or incomplete, or comes to another state.
        VirtualLogError: as `Files`, and of the disk.
    """
    with scratch_folder("verify") as work:
        into = f"file://{work / 'restored'}"
        newest = await find_backup(place, BackupRequest(into=into, number=number))
        await _check_ranges(place, newest, tell)
        began = clock.monotonic()
        wanted = BackupRequest(into=into, number=newest.number, position=LogPosition(newest.stop))
        made = await restore_backup(place, wanted, open_files, clock, random, tell)
        pairs = await _start_from(made, CompactionStore(into, open_files), work / "server", clock)
        rto_seconds = clock.monotonic() - began
    now_ms = clock.wall() * 1000
    return VerifiedBackup(
        backup=made.backup,
        pairs=pairs,
        rpo_seconds=(now_ms - newest.covered_ms) / 1000,
        newest_entry_seconds=(now_ms - newest.newest_ms) / 1000 if newest.newest_ms else None,
        rto_seconds=rto_seconds,
    )


async def _check_ranges(place: BackupPlace, manifest: BackupManifest, tell: BackupProgress) -> None:
    """Read every byte of the saved ranges. A replay checks what it decodes, which is less."""
    for saved in manifest.ranges:
        files = place.range_files(manifest.cluster, saved.start, saved.stop, saved.number)
        blob = await files.read(archive_manifests.NAME)
        if blob is None:
            url = join(place.config_of(manifest.cluster, saved).location, archive_manifests.NAME)
            raise CorruptionError(f"{url} is missing")
        archive = archive_manifests.decode_untrusted(blob, saved.checksum)
        executor = SerialExecutor(None, files)
        await ArchiveVerifier(manifest=archive, files=files, executor=executor, tell=partial(tell, "reading")).run()


async def _start_from(made: RestoredCluster, place: CompactionStore, path: Path, clock: Clock) -> int:
    """Make the store of a server from the restored state, and compare it. Returns its number of keys."""
    if made.state is None:
        return 0
    async with scratch_directory(path) as directory:
        await install_state(directory, place, made.state, clock)
        store = await directory.open()
        found = state_digest_of(store)
        if wrong := differences(found.finish(), made.state.digests):
            raise CorruptionError(f"a server that begins with the restored state has another one: {', '.join(wrong)}")
        return found.pairs
