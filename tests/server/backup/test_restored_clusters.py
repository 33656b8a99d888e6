"""Databases of real nodes: states that are damaged or deleted, the identity of a restored cluster, and what is never written over."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.free_ports import free_ports
from tests.server.backup.test_database_backups import (
    Database,
    command,
    database,
    restored,
    run,
    saved,
    verified,
    zookeeper,
)
from tests.server.backup.test_killed_processes import killed_at
from tests.server.database.test_processes import wait_serving
from virtuallog.connect import connect
from virtuallog.contract.errors import CorruptionError, InvalidSettingError, WrongRecipientError
from virtuallog_database.control.client import call_any_replica
from virtuallog_database.control.messages import GetDatabaseStatus, HoldStatus
from virtuallog_loglets.archive import restored_origin as origins
from virtuallog_server.backup import backup_run
from virtuallog_server.local_cluster.supervisor import open_local_cluster

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.long]
SNAPSHOT_OFTEN = "snapshot_log_bytes = 1000\nsnapshot_seconds = 0.5"


async def test_a_state_that_is_damaged_or_deleted(tmp_path: Path) -> None:
    """Each file of it in turn: a verification and a restore say which one, and nothing is restored. A file that is gone is noticed by
    the next backup, which names the remedy; a full one is right."""
    url = f"file://{tmp_path / 'backups'}"
    async with database(tmp_path, SNAPSHOT_OFTEN) as made:
        done = await saved(made.log, url)
        for start in range(0, 300, 10):
            await made.write(start, start + 10)
            done = await saved(made.log, url, full=True)
            if done.manifest.state is not None:
                break
        assert done.manifest.state is not None
        files = sorted(path for path in (tmp_path / "backups" / "compacted").rglob("*") if path.is_file())
        assert len(files) > 3
        for file in files:
            whole = file.read_bytes()
            changed = [whole[:-1], bytes([whole[0] ^ 1]) + whole[1:]] if whole else []
            for count, content in enumerate([*changed, None]):
                file.unlink()
                if content is not None:
                    file.write_bytes(content)
                with pytest.raises(CorruptionError, match=file.name):
                    await verified(url)
                into = tmp_path / f"into-{file.name}-{count}"
                with pytest.raises(CorruptionError, match=file.name):
                    await restored(url, f"file://{into}")
                assert not (into / origins.NAME).exists()
            with pytest.raises(CorruptionError, match=rf"{file.name}.* is missing; .*--full"):
                await saved(made.log, url)
            file.write_bytes(whole)
        assert (await verified(url)).backup == done.manifest


async def test_a_restored_cluster_is_another_one(tmp_path: Path) -> None:
    """A client of the former cluster is refused by the new one, and so are the former nodes' directories. A restore is not put over a cluster
    that is there, nor into a directory with anything in it. Sessions and ephemerals are gone, also those of a session that still lives."""
    url, into = f"file://{tmp_path / 'backups'}", tmp_path / "into"
    async with database(tmp_path) as made:
        with zookeeper(made.port) as client:
            client.create("/stays", b"1")
            client.create("/goes", b"2", ephemeral=True)
            await saved(made.log, url)
            former = (await made.log.view.current()).cluster
        restore = ("restore", "--from", url, "--into")
        code, _, error = await run(made.cluster, *restore, tmp_path / "cluster")
        assert code == 1 and "is not empty" in error
        code, _, error = await run(made.cluster, *restore, tmp_path / "backups")
        assert code == 1 and "is not empty" in error
        assert (await command(made.cluster, *restore, into))["sessions"] >= 1
    port, origin = free_ports(2), f"file://{into}"
    with pytest.raises(InvalidSettingError, match="was not restored from"):
        async with open_local_cluster(tmp_path / "cluster", 1, origin=origin):
            pass
    async with open_local_cluster(tmp_path / "new", 1, base_port=0, zookeeper_port=port, origin=origin) as cluster:
        await wait_serving(cluster)
        async with connect(cluster.file) as log:
            register = await log.view.refresh()
            assert register.cluster != former
        with pytest.raises(WrongRecipientError):
            async with connect(cluster.file, expected_cluster=former) as log:
                await log.view.refresh()
        with zookeeper(port) as client:
            assert client.exists("/stays") is not None and client.exists("/goes") is None


async def test_a_killed_run_does_not_shorten_the_hold(tmp_path: Path) -> None:
    """The log is held for the next run for so long as was asked for, by each of the holds of a run: the next one may have to go on from where
    the last backup ended. A trim takes nothing of it meanwhile."""
    place = tmp_path / "backups"
    async with database(tmp_path, SNAPSHOT_OFTEN) as made:
        await made.write(0, 20)
        done = await command(made.cluster, "backup", "--to", place, "--hold", 1_000_000)
        await made.write(20, 40)
        await killed_at(backup_run._RANGES_SAVED.name, made.cluster, "backup", "--to", place, "--hold", 1_000_000)
        (hold,) = [hold for hold in await holds(made) if hold.name.startswith("backup-")]
        assert hold.position <= done["stop"] and hold.milliseconds == 1_000_000_000
        more = await command(made.cluster, "backup", "--to", place)
        assert (more["base"], more["start"]) == (done["number"], done["start"])
        assert (await verified(f"file://{place}")).backup.number == more["number"]


async def holds(made: Database) -> Sequence[HoldStatus]:
    """Holds of the log, as the server knows them."""
    nodes = sorted((await made.log.view.current()).nodes)
    return (await call_any_replica(made.log.view.environment.services, nodes, GetDatabaseStatus())).holds
