"""The work of `virtuallog backup` and `virtuallog restore`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from random import SystemRandom
from typing import Any

import attrs
import click

from virtuallog.client.cluster_file import ClusterFile
from virtuallog.client.virtual_log import READS_ONLY
from virtuallog.connect import connect
from virtuallog.contract.types import LogPosition
from virtuallog.runtime.clock import SystemClock
from virtuallog_database.control.wire import DATABASE
from virtuallog_database.snapshots.wire import SNAPSHOTS
from virtuallog_loglets.archive.drivers.files import OpenDirectory
from virtuallog_loglets.archive.drivers.fsspec_files import FsspecFiles, absolute_url
from virtuallog_server.backup.backup_run import BackupProgress, BackupSettings, FinishedBackup
from virtuallog_server.backup.backup_run import back_up as run_backup
from virtuallog_server.backup.core.manifest import BackupManifest
from virtuallog_server.backup.place import BackupPlace, DamagedBackup
from virtuallog_server.backup.restore import BackupRequest, RestoredCluster, restore_backup
from virtuallog_server.backup.retention import prune_backups
from virtuallog_server.backup.retried_files import opened_again
from virtuallog_server.backup.verification import verify_backup
from virtuallog_server.cli.common import event_loop
from virtuallog_server.cli.common.failures import Failure
from virtuallog_server.cli.common.options import echo_json
from virtuallog_server.cli.common.progress_bar import progress_bar, teller


def back_up(cluster: ClusterFile, url: str, full: bool, hold_seconds: float, as_json: bool) -> None:
    """Back up the log of the cluster, and print what was saved."""
    with progress_bar() as bar:
        settings = BackupSettings(full=full, hold_seconds=hold_seconds)
        made = event_loop.run(_back_up, cluster, _place(url), settings, teller(bar))
    manifest = made.manifest
    if as_json:
        more = {"written_bytes": made.written_bytes, "seconds": made.seconds, "orphans": made.orphans}
        echo_json({**_plain(manifest), **more})
        return
    kind = "full backup" if manifest.full else f"backup on top of {manifest.base}"
    click.echo(f"{kind}, number {manifest.number}: positions {manifest.start} to {manifest.stop}, {_rate(made)}")


async def _back_up(
    cluster: ClusterFile, place: BackupPlace, settings: BackupSettings, tell: BackupProgress
) -> FinishedBackup:
    async with connect(cluster, more=[DATABASE, SNAPSHOTS], settings=READS_ONLY) as log:
        return await run_backup(log, place, settings, tell)


def verify(url: str, number: int | None, as_json: bool) -> None:
    """Verify a backup, and print RPO and RTO."""
    with progress_bar() as bar:
        found = event_loop.run(
            verify_backup, _place(url), number, _opener(), SystemClock(), SystemRandom(), teller(bar)
        )
    manifest = found.backup
    if as_json:
        names = ("pairs", "rpo_seconds", "newest_entry_seconds", "rto_seconds")
        echo_json({**_plain(manifest), **{name: getattr(found, name) for name in names}})
        return
    click.echo(
        f"backup {manifest.number} is right: positions {manifest.start} to {manifest.stop}, {found.pairs:,} keys"
    )
    age = "none" if found.newest_entry_seconds is None else f"{found.newest_entry_seconds:.1f} s old"
    click.echo(f"RPO {found.rpo_seconds:.1f} s: older writes are all saved; the newest entry is {age}")
    click.echo(f"RTO {found.rto_seconds:.1f} s: from the backup to the state of a new server")


def show(url: str, as_json: bool) -> None:
    """Print the newest backup of each base."""
    survey = event_loop.run(_place(url).survey)
    damaged = [each for each in survey if isinstance(each, DamagedBackup)]
    found = [each for each in survey if isinstance(each, BackupManifest)]
    if as_json:
        echo_json([_plain(manifest) for manifest in found])
    elif not survey:
        click.echo("no backups")
    else:
        _show_reaches(found)
    if damaged:
        raise Failure("; ".join(str(each.error) for each in damaged))


def _show_reaches(found: Sequence[BackupManifest]) -> None:
    for manifest in found:
        begins_ms = manifest.state.time_ms if manifest.state is not None else 0
        begins = _time(begins_ms) if begins_ms else "its beginning"
        what = f"{manifest.base} to {manifest.number}" if manifest.number > manifest.base else str(manifest.number)
        reach = f"positions {manifest.start} to {manifest.stop}, {begins} to {_time(manifest.covered_ms)}"
        click.echo(f"{what}: {reach}, {manifest.size:,} bytes, cluster {manifest.cluster}")


def prune(url: str, keep: int, as_json: bool) -> None:
    """Remove old backups, and print what is kept."""
    with progress_bar() as bar:
        done = event_loop.run(prune_backups, _place(url), keep, _opener(), SystemClock(), SystemRandom(), teller(bar))
    if as_json:
        names = ("removed", "ranges", "states")
        echo_json({"kept": [_plain(each) for each in done.kept], **{name: getattr(done, name) for name in names}})
        return
    _show_reaches(done.kept)
    click.echo(f"removed {len(done.removed)} backups, {done.ranges} ranges and {done.states} states")


def restore(
    url: str, into: str, at: tuple[int | None, int | None], number: int | None, keep_sessions: bool, as_json: bool
) -> None:
    """Restore a backup, and print how to start the new cluster."""
    position, time_ms = at
    wanted = BackupRequest(
        into=absolute_url(into),
        position=None if position is None else LogPosition(position),
        time_ms=time_ms,
        number=number,
        keep_sessions=keep_sessions,
    )
    with progress_bar() as bar:
        made = event_loop.run(
            restore_backup, _place(url), wanted, _opener(), SystemClock(), SystemRandom(), teller(bar)
        )
    _show_restored(made, wanted.into, as_json)


def _show_restored(made: RestoredCluster, into: str, as_json: bool) -> None:
    if as_json:
        echo_json(
            {
                "backup": made.backup.number, "former": made.backup.cluster, "cluster": made.cluster.hex(),
                "position": made.position, "digests": made.digests, "sessions": made.sessions,
                "state": None if made.state is None else {"pairs": made.state.pairs, "digests": dict(made.state.digests)},
                "entries": None if made.history is None else made.history.verified.entries, "into": into,
            }
        )  # fmt: skip
        return
    former = f"cluster {made.backup.cluster} up to position {made.position}"
    click.echo(f"restored {former}, for a new one with the id {made.cluster.hex()}: {into}")
    if made.state is not None:
        click.echo(f"the state of its database: {made.state.pairs:,} keys; {made.sessions} sessions were ended")
    if made.history is not None:
        click.echo(f"its log: {made.history.verified.entries:,} entries, compared")
    more = " --zookeeper PORT" if made.state is not None else ""
    click.echo(f"start it: virtuallog up --restored {into} --data NEW{more}")


def _opener() -> OpenDirectory:
    return opened_again(FsspecFiles, SystemClock())


def _place(url: str) -> BackupPlace:
    return BackupPlace(absolute_url(url), _opener())


def _plain(manifest: BackupManifest) -> dict[str, Any]:
    names = ("number", "base", "cluster", "database", "start", "stop", "covered_ms", "size", "entries")
    state = None if manifest.state is None else attrs.asdict(manifest.state)
    return {**{name: getattr(manifest, name) for name in names}, "digests": dict(manifest.digests), "state": state}


def _rate(made: FinishedBackup) -> str:
    rate = made.written_bytes / max(made.seconds, 1e-9) / 1e6
    return f"{made.written_bytes:,} bytes in {made.seconds:.1f} s, {rate:.1f} MB/s"


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
