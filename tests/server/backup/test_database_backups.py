"""Backups of a database of real nodes: while it is written to, killed at each step and by SIGKILL, on S3, and started again as a new cluster."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from shutil import copytree
from typing import Any

import attrs
import pytest
import trio
from kazoo.client import KazooClient

from tests.free_ports import free_ports
from tests.server.backup.places import EveryTenth, Steps, dies
from tests.server.database.test_processes import servers, wait_serving
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.types import LogPosition
from virtuallog.runtime.clock import SystemClock
from virtuallog_database.control.client import call_any_replica, find_hold
from virtuallog_database.control.messages import CompareChecksums
from virtuallog_database.control.wire import DATABASE
from virtuallog_database.engines import checksums
from virtuallog_database.engines.core.keys import section_span
from virtuallog_database.engines.core.state_digests import state_digest_of
from virtuallog_database.snapshots.played_store import install_newest_snapshot, play_up_to
from virtuallog_database.snapshots.wire import SNAPSHOTS
from virtuallog_loglets.archive import restored_origin as origins
from virtuallog_loglets.archive.drivers.files import OpenDirectory
from virtuallog_loglets.archive.drivers.fsspec_files import FsspecFiles
from virtuallog_server.backup.backup_run import BackupSettings, FinishedBackup, back_up
from virtuallog_server.backup.place import BackupPlace
from virtuallog_server.backup.restore import BackupRequest, RestoredCluster, restore_backup
from virtuallog_server.backup.retried_files import opened_again
from virtuallog_server.backup.saved_log import JoinedLog, LiveLog, saved_parts
from virtuallog_server.backup.scratch_store import open_saved_state, scratch_directory
from virtuallog_server.backup.verification import VerifiedBackup, verify_backup
from virtuallog_server.local_cluster import layout
from virtuallog_server.local_cluster.supervisor import LocalCluster, open_local_cluster

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.long]

COMMAND = (sys.executable, "-P", "-m", "virtuallog_server")
LIMIT_SECONDS = 180


@attrs.frozen
class Database:
    """A database of one node, and a client of its log."""

    cluster: LocalCluster
    log: VirtualLog
    port: int

    async def write(self, start: int, stop: int) -> None:
        """Create znodes with these numbers, change some, and delete some."""
        await trio.to_thread.run_sync(written, self.port, start, stop)


@asynccontextmanager
async def database(folder: Path, config: str = "") -> AsyncIterator[Database]:
    """`config` is put into the section `[zookeeper]`."""
    port = free_ports(2)
    (folder / "cluster").mkdir()
    (node,) = layout.prepare(folder / "cluster", 1, 0, 0, "native", zookeeper_port=port, console_port=port + 1)
    file = layout.config_file(node)
    file.write_text(file.read_text().replace("[zookeeper]\n", f"[zookeeper]\n{config}\n"))
    async with (
        servers(folder / "cluster", port, count=1) as cluster,
        connect(cluster.file, more=[DATABASE, SNAPSHOTS]) as log,
    ):
        yield Database(cluster, log, port)


@contextmanager
def zookeeper(port: int) -> Iterator[KazooClient]:
    client = KazooClient(f"127.0.0.1:{port}", timeout=20)
    client.start(timeout=60)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def written(port: int, start: int, stop: int) -> None:
    with zookeeper(port) as client:
        for number in range(start, stop):
            client.create(f"/n{number}", b"%d" % number * 20)
            client.create(f"/e{number}", b"", ephemeral=True)
            if number % 3 == 0:
                client.set(f"/n{number // 2}", b"again")


async def saved(log: VirtualLog, url: str, open_files: OpenDirectory = FsspecFiles, **settings: Any) -> FinishedBackup:
    return await back_up(log, BackupPlace(url, open_files), BackupSettings(**settings))


async def restored(
    url: str, into: str, open_files: OpenDirectory = FsspecFiles, seed: int = 1, **wanted: Any
) -> RestoredCluster:
    request, place = BackupRequest(into=into, **wanted), BackupPlace(url, open_files)
    return await restore_backup(place, request, open_files, SystemClock(), random.Random(seed))


async def verified(url: str, open_files: OpenDirectory = FsspecFiles) -> VerifiedBackup:
    """The newest backup, which is right."""
    return await verify_backup(BackupPlace(url, open_files), None, open_files, SystemClock(), random.Random(1))


async def replayed(log: VirtualLog, work: Path, position: int) -> Mapping[str, str]:
    """Digests of the state at a position, by a replay of the live log over a server's snapshot."""
    async with scratch_directory(work) as directory:
        await install_newest_snapshot(directory, log, "test")
        store = await directory.open()
        await play_up_to(store, LiveLog(log), LogPosition(position))
        return state_digest_of(store).finish()


async def reported(url: str, work: Path) -> Mapping[int, Mapping[str, str]]:
    """Digests that the server has reported of its own state, by the position of the comparison; as the newest backup has them."""
    place = BackupPlace(url, FsspecFiles)
    manifest = await place.newest()
    assert manifest is not None
    async with scratch_directory(work) as directory:
        store = await open_saved_state(directory, place, manifest, SystemClock())
        saved_log = JoinedLog(saved_parts(place, manifest, SystemClock()))
        await play_up_to(store, saved_log, LogPosition(manifest.stop))
        records = [checksums._RECORDS.parse_stored(value) for _, value in store.scan(section_span(checksums.NAME), 100)]
    return {each.compared: each.digests for each in records if isinstance(each, checksums.Report)}


async def test_a_backup_is_taken_while_clients_write(tmp_path: Path) -> None:
    """A full one and two on top of it. Restored at three positions drawn at random, the states are those of a replay of the live log; at
    positions where the server has compared its state, they are the server's own."""
    url, chance, compared = f"file://{tmp_path / 'backups'}", random.Random(11), list[int]()
    async with database(tmp_path) as made:
        nodes = sorted((await made.log.view.current()).nodes)
        services = made.log.view.environment.services
        await made.write(0, 50)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.write, 50, 250)
            for _ in range(3):
                await saved(made.log, url)
                compared.append((await call_any_replica(services, nodes, CompareChecksums())).position)
        last = await saved(made.log, url)
        assert last.manifest.database and last.manifest.base == 1 and last.manifest.entries > 600
        hold = await find_hold(made.log, f"backup-{_short(url)}")
        assert hold == last.manifest.stop
        positions = chance.sample(range(last.manifest.start, last.manifest.stop), 3)
        for number, position in enumerate(positions):
            by_replay = await replayed(made.log, tmp_path / f"replay-{number}", position)
            result = await restored(url, f"file://{tmp_path / f'into-{number}'}", position=position)
            assert result.digests == by_replay
        own = await reported(url, tmp_path / "reports")
        assert {*own} & {*compared}
        for position, digests in own.items():
            result = await restored(url, f"file://{tmp_path / f'own-{position}'}", position=position + 1)
            assert result.digests == digests
        found = await verified(url)
        assert found.backup == last.manifest and found.pairs > 400
        assert found.rto_seconds > 0 and found.rpo_seconds >= 0


def _short(url: str) -> str:
    from hashlib import sha256

    return sha256(url.encode()).hexdigest()[:8]


@pytest.mark.parametrize("full", [True, False], ids=["full", "incremental"])
async def test_killed_at_each_step_of_a_backup(tmp_path: Path, full: bool) -> None:
    """Before each request to the place: the former backup is as good as it was, and the next run completes it."""
    former = tmp_path / "former"
    async with database(tmp_path) as made:
        await made.write(0, 20)
        if full:
            former.mkdir()
        else:
            await saved(made.log, f"file://{former}")
            await made.write(20, 30)
        counted = Steps()
        await trio.to_thread.run_sync(copytree, former, tmp_path / "counted")
        await saved(made.log, f"file://{tmp_path / 'counted'}", counted.opened(FsspecFiles))
        for deadly in range(counted.taken):
            place = tmp_path / f"place-{deadly}"
            await trio.to_thread.run_sync(copytree, former, place)
            await _killed_and_completed(made, f"file://{place}", deadly, is_verified=deadly % 8 == 0)
        assert counted.taken > 15


async def _killed_and_completed(made: Database, url: str, deadly: int, *, is_verified: bool) -> None:
    """Kill a backup before a request, look at the place, and back up once more."""
    place = BackupPlace(url, FsspecFiles)
    former = await place.newest()
    if await dies(saved(made.log, url, Steps(deadly).opened(FsspecFiles))):
        assert await place.newest() == former or (await place.numbers())[-1] == (former.number if former else 0) + 1
    last = await saved(made.log, url)
    assert last.manifest.base == 1 and last.manifest.digests
    if is_verified:
        await verified(url)


async def test_killed_at_each_step_of_a_restore(tmp_path: Path) -> None:
    """Before each request, of the place and of the target: no cluster begins with half of it, and the same call completes it."""
    url = f"file://{tmp_path / 'backups'}"
    async with database(tmp_path) as made:
        await made.write(0, 20)
        await saved(made.log, url)
    counted = Steps()
    whole = await restored(url, f"file://{tmp_path / 'whole'}", counted.opened(FsspecFiles))
    assert whole.state is not None
    for deadly in range(counted.taken):
        into = tmp_path / f"into-{deadly}"
        assert await dies(restored(url, f"file://{into}", Steps(deadly).opened(FsspecFiles)))
        if not (into / origins.NAME).exists():
            again = await restored(url, f"file://{into}", seed=2)
            assert again.state is not None and again.state.digests == whole.state.digests


async def test_a_new_cluster_begins_with_a_backup(tmp_path: Path) -> None:
    """By the commands: what clients wrote is there, sessions and ephemerals are not, the id is a new one, and writes go on. With
    --keep-sessions the session is there. Nothing is restored over it."""
    url, into = tmp_path / "backups", tmp_path / "into"
    async with database(tmp_path) as made:
        with zookeeper(made.port) as client:
            client.create("/stays", b"1")
            client.create("/goes", b"2", ephemeral=True)
            done = await command(made.cluster, "backup", "--to", url)
            assert (done["database"], done["number"]) == (True, 1)
        listed = await command(made.cluster, "backup", "list", "--from", url)
        verified = await command(made.cluster, "backup", "verify", "--from", url)
        assert [each["stop"] for each in listed] == [verified["stop"]] == [done["stop"]]
        result = await command(made.cluster, "restore", "--from", url, "--into", into)
        kept = await command(
            made.cluster, "restore", "--from", url, "--into", tmp_path / "kept", "--keep-sessions", "--at", done["stop"]
        )
        assert (result["sessions"], kept["sessions"]) == (1, 0)
        assert result["cluster"] not in {done["cluster"], kept["cluster"]}
        code, _, error = await run(made.cluster, "restore", "--from", url, "--into", into)
        assert code == 1 and "restored cluster" in error
    port = free_ports(2)
    async with open_local_cluster(
        tmp_path / "new", 1, base_port=0, zookeeper_port=port, console_port=port + 1, origin=f"file://{into}"
    ) as cluster:
        await wait_serving(cluster)
        with zookeeper(port) as client:
            assert client.get("/stays")[0] == b"1" and client.exists("/goes") is None
            client.create("/new", b"3")


async def test_killed_by_a_signal(tmp_path: Path) -> None:
    """The real command, at moments that differ from run to run: then it is run to its end, and what it has made is right."""
    url, chance = tmp_path / "backups", random.Random(3)
    async with database(tmp_path) as made:
        await made.write(0, 50)
        for count in range(6):
            await run(made.cluster, "backup", "--to", url, kill_after=chance.uniform(0.5, 4.0))
            await made.write(50 + count * 5, 55 + count * 5)
        await command(made.cluster, "backup", "--to", url)
        await command(made.cluster, "backup", "verify", "--from", url)
        for _ in range(3):
            await run(
                made.cluster, "restore", "--from", url, "--into", tmp_path / "into", kill_after=chance.uniform(0.5, 3.0)
            )
        code, _, error = await run(made.cluster, "restore", "--from", url, "--into", tmp_path / "into")
        assert code == 0 or "restored cluster" in error
        assert (tmp_path / "into" / origins.NAME).exists()


async def test_backups_lie_on_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of S3 on this machine, of which every tenth request fails: full, on top of it, verified, restored."""
    moto = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        _, address = server.get_host_and_port()
        for name, value in {
            "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{address}", "FSSPEC_S3_ENDPOINT_URL": f"http://127.0.0.1:{address}",
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        await _backed_up_on(tmp_path, "s3://backups/virtuallog")
    finally:
        server.stop()


async def _backed_up_on(tmp_path: Path, url: str) -> None:
    faults = EveryTenth()
    flaky = opened_again(faults.opened(FsspecFiles), SystemClock())
    async with database(tmp_path) as made:
        await made.write(0, 30)
        await saved(made.log, url, flaky)
        await made.write(30, 60)
        last = await saved(made.log, url, flaky)
        assert (last.manifest.number, last.manifest.base) == (2, 1)
        found = await verified(url, flaky)
        assert found.backup == last.manifest
        result = await restored(url, f"{url}-restored", flaky)
        assert result.digests == last.manifest.digests
        assert faults.failures > 10
        assert not await FsspecFiles(url).write("backup-0000000002.json", b"", replace=False)


async def command(cluster: LocalCluster, *arguments: object) -> Any:
    """The JSON that a command prints."""
    code, out, err = await run(cluster, *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


async def run(cluster: LocalCluster, *arguments: object, kill_after: float | None = None) -> tuple[int, str, str]:
    """Run a command, to its end or for so long; exit code, stdout, stderr."""
    environment = {**os.environ, "VIRTUALLOG_CLUSTER": str(cluster.file_path)}
    process = subprocess.Popen(  # noqa: ASYNC220 -- killed from here
        [*COMMAND, *map(str, arguments)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if kill_after is not None:
        await trio.sleep(kill_after)  # noqa: TID251 -- real time, for a real process
        process.send_signal(signal.SIGKILL)
    out, err = await trio.to_thread.run_sync(lambda: process.communicate(timeout=LIMIT_SECONDS))
    return process.returncode, out, err
