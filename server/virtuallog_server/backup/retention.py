"""Retention of backups: the newest full ones are kept, each with what is on top of it, and the others are removed.

    every backup that is kept is verified -> manifests of the others, the lowest first -> ranges that no backup names
    -> states that no backup names

Killed at any step, every backup that is kept is as whole as it was, and so is each of the others whose manifest is still there: what a
manifest names is removed behind it. The same call, given again, goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import attrs

from virtuallog.contract.errors import CorruptionError, InvalidSettingError, MalformedError, UnavailableError
from virtuallog.contract.ports import Clock
from virtuallog_loglets.archive.drivers.files import OpenDirectory
from virtuallog_server.backup.backup_run import BackupProgress
from virtuallog_server.backup.core.manifest import BackupManifest
from virtuallog_server.backup.place import BackupPlace, DamagedBackup
from virtuallog_server.backup.verification import verify_backup


@attrs.frozen(kw_only=True)
class PrunedPlace:
    """Result of a removal."""

    kept: tuple[BackupManifest, ...]
    """The newest backup of each full one that is kept, the newest first."""
    removed: tuple[int, ...]
    """Numbers of the backups that were removed."""
    ranges: int
    """Ranges that were removed, also those of runs that were killed."""
    states: int
    """States of databases that were removed, also those of runs that were killed."""


async def prune_backups(
    place: BackupPlace,
    keep: int,
    open_files: OpenDirectory,
    clock: Clock,
    random: Random,
    tell: BackupProgress = lambda what, position: None,
) -> PrunedPlace:
    """Remove all but the newest full backups and what is on top of them. No backup is removed unless all that is kept was
    restored into a scratch directory and is right.

    It may run beside a backup that is not full. The state of a full one may be removed while that is made, if it is older
    than all that is kept.

    Args:
        place: location of the backups.
        keep: full backups to keep, at least 1.
        open_files: opens the scratch directory.
        clock: clock for times and timeouts.
        random: source of an id.
        tell: callback for progress.

    Raises:
        InvalidSettingError: there are no backups, or those of several clusters.
        UnavailableError: another run removes more; or as `Files`.
        CorruptionError, MalformedError: a backup that is to be kept is damaged or incomplete. Nothing was removed.
        VirtualLogError: as `Files`, and of the disk.
    """
    survey = await place.survey()
    kept = _kept(place, survey, keep)
    removed = [number for number in await place.numbers() if number < kept[-1].base]
    for each in kept if removed else ():
        tell("verifying", each.number)
        try:
            await verify_backup(place, each.number, open_files, clock, random)
        except (CorruptionError, InvalidSettingError, MalformedError) as error:
            if await place.find(each.number) is None:
                raise UnavailableError(f"another run has removed backup {each.number} meanwhile") from error
            raise
    for number in removed:
        await place.remove_manifest(number)
        tell("removing", number)
    cluster, begin = kept[0].cluster, min(each.start for each in kept)
    ranges = await place.remove_orphans(cluster, kept[0].number)
    states = await place.remove_unnamed_states(cluster, begin)
    return PrunedPlace(kept=tuple(kept), removed=tuple(removed), ranges=len(ranges), states=len(states))


def _kept(place: BackupPlace, survey: Sequence[BackupManifest | DamagedBackup], keep: int) -> list[BackupManifest]:
    """The newest backups to keep, one of each base. What is damaged below them is removed."""
    kept = list[BackupManifest]()
    for each in survey:
        if isinstance(each, DamagedBackup):
            if len(kept) < keep:
                raise type(each.error)(f"{each.error}; nothing was removed")
        elif kept and each.cluster != kept[0].cluster:
            raise InvalidSettingError(
                "from", f"{place.url} has backups of several clusters: {each.number} is another's"
            )
        elif len(kept) < keep:
            kept.append(each)
    if not kept:
        raise InvalidSettingError("from", f"there are no backups at {place.url}")
    return kept
