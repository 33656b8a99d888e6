"""Report of a run of `backups.py`, in tables."""

from __future__ import annotations

from virtuallog_lab.experiments.backups.run import BackupFindings, TimedBackup
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.report import Report, Table

_MEGABYTE = 1e6


def report(machine: Machine, found: BackupFindings) -> Report:
    """All that was measured."""
    plan = found.plan
    return Report(
        title="Backup, verify, restore",
        machine=machine,
        tables=[_backups(found), _times(found), _restores(found)],
        plain=found.plain(),
        verdict=(
            f"{plan.writes:,} writes of {plan.size} bytes over {plan.keys:,} znodes, {found.pairs:,} keys: the states restored at "
            f"{len(found.restores)} positions are those of replays"
        ),
        problems=found.problems,
    )


def _backups(found: BackupFindings) -> Table:
    columns = [
        "backup",
        "writes",
        "entries",
        "MB written",
        "seconds",
        "writes/s",
        "MB/s written",
        "MB/s of values",
        "cp MB/s",
    ]
    return Table("Backups; cp copies the same files, then syncs", columns, [_row(each) for each in found.backups])


def _row(each: TimedBackup) -> list[str]:
    copied = "" if each.copied_seconds is None else f"{each.written_bytes / each.copied_seconds / _MEGABYTE:,.1f}"
    return [
        each.what,
        f"{each.writes:,}",
        f"{each.entries:,}",
        f"{each.written_bytes / _MEGABYTE:,.1f}",
        f"{each.seconds:,.1f}",
        f"{each.writes / each.seconds:,.0f}",
        f"{each.written_bytes / each.seconds / _MEGABYTE:,.2f}",
        f"{each.value_bytes / each.seconds / _MEGABYTE:,.2f}",
        copied,
    ]


def _times(found: BackupFindings) -> Table:
    rows = [
        ["RPO: age of what is saved when the verification ends", f"{found.rpo_seconds:,.1f}"],
        ["RTO: from the backup to the state of a new server", f"{found.rto_seconds:,.1f}"],
        ["verification, all bytes read besides", f"{found.verify_seconds:,.1f}"],
    ]
    return Table("Times", ["what", "seconds"], rows)


def _restores(found: BackupFindings) -> Table:
    rows = [[f"{each.position:,}", f"{each.seconds:,.1f}", f"{each.replay_seconds:,.1f}"] for each in found.restores]
    return Table("Restores to random positions", ["position", "seconds", "replay of the live log, seconds"], rows)
