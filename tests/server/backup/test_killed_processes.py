"""Real processes that are killed by SIGKILL at each crash point of a backup and of a restore, while clients write."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from shutil import copytree

import pytest
import trio

from tests.server.backup.test_database_backups import LIMIT_SECONDS, Database, command, database, run, saved, verified
from virtuallog.contract.crash_points import CRASH_POINTS
from virtuallog_loglets.archive import restored_origin as origins
from virtuallog_loglets.archive.drivers.fsspec_files import FsspecFiles
from virtuallog_server.backup import backup_run, restore
from virtuallog_server.backup.place import BackupPlace
from virtuallog_server.local_cluster.supervisor import LocalCluster

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.long]

OF_BACKUPS = {
    backup_run._HELD.name: 0,
    backup_run._STATE_SAVED.name: 0,
    backup_run._RANGES_SAVED.name: 0,
    backup_run._PUBLISHED.name: 1,
    backup_run._HELD_ON.name: 1,
}
"""Crash points of a backup, and the manifests that it has written by then."""
OF_RESTORES = {restore._PLANNED.name: False, restore._MADE.name: False, restore._READY.name: True}
"""Crash points of a restore; True if a cluster may begin with it then."""


async def killed_at(point: str, cluster: LocalCluster, *arguments: object) -> None:
    """Run a command, which dies at the point."""
    environment = {**os.environ, "VIRTUALLOG_CLUSTER": str(cluster.file_path)}
    killing = [sys.executable, "-m", "tests.server.backup.killed_command", point, *map(str, arguments)]
    done = await trio.to_thread.run_sync(
        partial(subprocess.run, killing, env=environment, capture_output=True, timeout=LIMIT_SECONDS, check=False)
    )
    assert done.returncode == -signal.SIGKILL, (point, done.stderr)


def test_every_crash_point_is_one_of_these() -> None:
    """A new one has to be killed at, too."""
    assert {name for name, point in CRASH_POINTS.items() if point.area == "backup"} == {*OF_BACKUPS, *OF_RESTORES}


@pytest.mark.parametrize("former", [0, 1], ids=["full", "on top"])
async def test_a_backup_is_killed_at_each_of_its_points(tmp_path: Path, former: int) -> None:
    """What was there is as good as before, and the same command, given again, makes a backup that a verification finds right, with all that was
    written."""
    async with database(tmp_path) as made:
        await made.write(0, 20)
        (tmp_path / "former").mkdir()
        if former:
            await saved(made.log, f"file://{tmp_path / 'former'}")
        for number, point in enumerate(OF_BACKUPS):
            if former and point == backup_run._STATE_SAVED.name:  # only a full one has a state of its own
                continue
            await made.write(20 + 5 * number, 25 + 5 * number)
            place = tmp_path / f"place-{number}"
            await trio.to_thread.run_sync(copytree, tmp_path / "former", place)
            await _killed_and_given_again(made, point, place, former)


async def _killed_and_given_again(made: Database, point: str, place: Path, former: int) -> None:
    await killed_at(point, made.cluster, "backup", "--to", place)
    there = len(await BackupPlace(f"file://{place}", FsspecFiles).numbers())
    assert there == former + OF_BACKUPS[point]
    url = f"file://{place}"
    if there:
        await verified(url)
    again = await saved(made.log, url)
    assert again.manifest.number == there + 1
    found = await verified(url)
    assert found.backup == again.manifest and found.pairs > 20


async def test_a_restore_is_killed_at_each_of_its_points(tmp_path: Path) -> None:
    """No cluster begins with half of it. The same command, given again, makes the same state; once it is all there, it is refused."""
    place = tmp_path / "backups"
    async with database(tmp_path) as made:
        await made.write(0, 20)
        await command(made.cluster, "backup", "--to", place)
        whole = await command(made.cluster, "restore", "--from", place, "--into", tmp_path / "whole")
        for number, point in enumerate(OF_RESTORES):
            into = tmp_path / f"into-{number}"
            await killed_at(point, made.cluster, "restore", "--from", place, "--into", into)
            assert (into / origins.NAME).exists() == OF_RESTORES[point]
            if OF_RESTORES[point]:
                code, _, error = await run(made.cluster, "restore", "--from", place, "--into", into)
                assert code == 1 and "restored cluster" in error
                continue
            again = await command(made.cluster, "restore", "--from", place, "--into", into)
            assert again["state"] == whole["state"] and again["cluster"] != whole["cluster"]
