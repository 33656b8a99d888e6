"""The past of a database of real nodes: as its clients had read it, also behind the trim point, and by commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from kazoo.client import KazooClient

from tests.server.backup.test_database_backups import zookeeper
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.errors import BeyondTailError, InvalidSettingError, TooLargeError, WrongRecipientError
from virtuallog.contract.types import NodeId
from virtuallog_database.control.client import call_any_replica
from virtuallog_database.control.messages import GetDatabaseStatus
from virtuallog_database.control.wire import DATABASE
from virtuallog_database.errors import BeforeFirstEntryError, NoPastStateError, NoSuchZnodeError
from virtuallog_database.snapshots.wire import SNAPSHOTS
from virtuallog_lab.experiments.churn.churn import open_database_cluster
from virtuallog_loglets.archive.drivers.fsspec_files import FsspecFiles
from virtuallog_server.backup.backup_run import BackupSettings, back_up
from virtuallog_server.backup.place import BackupPlace
from virtuallog_server.history.past_database import PastDatabase, open_past_database
from virtuallog_server.history.past_log import Moment
from virtuallog_server.history.past_states import ScratchSettings
from virtuallog_server.local_cluster.supervisor import LocalCluster

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.long]

NO_SNAPSHOTS = "snapshot_log_bytes = 1099511627776\nsnapshot_seconds = 86400.0"
MANY_SNAPSHOTS = "snapshot_log_bytes = 65536\nsnapshot_seconds = 5.0"
LIMIT_SECONDS = 180
TAIL = Moment()


@attrs.frozen
class Served:
    """A database that is served, and a client of its log."""

    cluster: LocalCluster
    log: VirtualLog
    port: int
    scratch: Path

    async def past(self, backups: str | None = None, **settings: Any) -> PastDatabase:
        place = BackupPlace(backups, FsspecFiles) if backups else None
        return await open_past_database(self.log, place, ScratchSettings(folder=self.scratch, **settings))

    async def do(self, *steps: Any) -> int:
        """Take steps of a client of ZooKeeper, one after the other; returns the tail behind them."""
        await trio.to_thread.run_sync(self._do, steps)
        return (await self.log.check_tail()).tail

    def _do(self, steps: tuple[Any, ...]) -> None:
        with zookeeper(self.port) as client:
            for step in steps:
                step(client)

    async def holds(self) -> list[str]:
        nodes = sorted((await self.log.view.current()).nodes)
        status = await call_any_replica(self.log.view.environment.services, nodes, GetDatabaseStatus())
        return [hold.name for hold in status.holds]


@asynccontextmanager
async def served(folder: Path, config: str = NO_SNAPSHOTS) -> AsyncIterator[Served]:
    scratch = folder / "scratch"
    scratch.mkdir(parents=True)
    async with (
        open_database_cluster("native", config, folder / "cluster") as (cluster, addresses),
        connect(cluster.file, more=[DATABASE, SNAPSHOTS]) as log,
    ):
        cluster.write_file()
        yield Served(cluster, log, int(addresses[NodeId(1)].rpartition(":")[2]), scratch)


def create(path: str, data: bytes = b"", **options: Any) -> Any:
    return lambda client: client.create(path, data, **options)


def put(path: str, data: bytes) -> Any:
    return lambda client: client.set(path, data)


def at(position: int) -> Moment:
    return Moment(position=position)


async def test_the_past_is_what_clients_had_read(tmp_path: Path) -> None:
    """Each state of a znode at its positions, and at times in between; nothing is left of a question."""
    async with served(tmp_path) as database:
        first = await database.do(create("/app", b"1"), create("/app/\u00e9", bytes(3000)))
        second = await database.do(put("/app", b"2"), create("/app/e-", b"", ephemeral=True, sequence=True))
        past = await database.past()

        created, _, changed = (await past.changes("/app", None, at(second), limit=3, bytes_max=1)).changes
        assert created.time_ms < changed.time_ms
        between = (Moment(time_ms=created.time_ms + 1), Moment(time_ms=changed.time_ms))

        known = [await past.znode("/app", moment, bytes_max=100) for moment in (at(first), *between, TAIL)]
        assert [(each.value.data, each.stat.version) for each in known] == [(b"1", 0)] * 3 + [(b"2", 1)]
        children = await past.children("/app", at(first), after="", limit=10)
        assert [(each.name, each.stat.data_length) for each in children.children] == [("\u00e9", 3000)]
        cut = await past.znode("/app/\u00e9", at(second), bytes_max=10)
        assert cut.value.is_cut and (len(cut.value.data or b""), cut.value.size) == (10, 3000)
        found = await past.changes("/app", at(first), TAIL, limit=10, bytes_max=10)
        assert [(each.path, each.effect, each.cause) for each in found.changes] == [
            ("/app", "data", "set"),
            ("/app/e-0000000001", "created", "create"),
            ("/app/e-0000000001", "deleted", "close-session"),
        ]
        assert len({each.session for each in found.changes}) == 1 and found.changes[0].client == ("ip:127.0.0.1",)
        entry = found.changes[0].position
        (change,) = (await past.differences("/", at(entry), at(entry + 1), after="", limit=9, bytes_max=9)).differences
        assert change.before and change.after and (change.before.value.data, change.after.value.data) == (b"1", b"2")

        assert list(database.scratch.iterdir()) == [] and await database.holds() == []


async def test_what_cannot_be_shown_is_refused_with_the_reason(tmp_path: Path) -> None:
    """Positions and times outside of the log, znodes that were not there, and more disk than is allowed."""
    async with served(tmp_path) as database:
        before_ms = 1000
        tail = await database.do(create("/a", b"1"), create("/b"))
        past = await database.past()
        with pytest.raises(BeyondTailError):
            await past.znode("/a", at(past.states.past.tail + 1), bytes_max=1)
        with pytest.raises(BeforeFirstEntryError, match=r"1970.* is before the first entry of the log"):
            await past.znode("/a", Moment(time_ms=before_ms), bytes_max=1)
        with pytest.raises(InvalidSettingError, match="future"):
            await past.znode("/a", Moment(time_ms=1 << 42), bytes_max=1)
        with pytest.raises(NoSuchZnodeError, match=f"/none at position {tail}"):
            await past.znode("/none", at(tail), bytes_max=1)
        with pytest.raises(NoSuchZnodeError):
            await past.children("/none", at(tail), after="", limit=1)
        for asked in (past.differences("/none", at(tail), at(tail), after="", limit=1, bytes_max=1),
                      past.changes("/none", None, TAIL, limit=1, bytes_max=1)):  # fmt: skip
            with pytest.raises(NoSuchZnodeError):
                await asked
        with pytest.raises(InvalidSettingError, match="before it begins"):
            await past.differences("/", at(tail), at(tail - 1), after="", limit=1, bytes_max=1)
        with pytest.raises(TooLargeError, match="scratch files"):
            await (await database.past(disk_bytes=10)).znode("/a", at(tail), bytes_max=1)
        assert list(database.scratch.iterdir()) == []


async def test_an_answer_says_where_the_rest_begins(tmp_path: Path) -> None:
    """Pages of children, differences and changes, put together, are the whole; the last changes are those of the end."""
    async with served(tmp_path) as database:
        start = await database.do(create("/n"))
        stop = at(await database.do(*(create(f"/n/{number}", b"x" * number) for number in range(7))))
        past = await database.past()
        names, after = list[str](), ""
        while True:
            page = await past.children("/n", stop, after=after, limit=3)
            names += [each.name for each in page.children]
            if page.more_after is None:
                break
            after = page.more_after
        paths, after = list[str](), ""
        while True:
            differences = await past.differences("/n", at(start), stop, after=after, limit=3, bytes_max=9)
            paths += [each.path for each in differences.differences]
            if differences.more_after is None:
                break
            after = differences.more_after
        changed, begin = list[str](), at(start)
        while True:
            changes = await past.changes("/n", begin, stop, limit=3, bytes_max=9)
            changed += [each.path for each in changes.changes]
            if changes.more_from is None:
                break
            begin = at(changes.more_from)
        last = await past.changes("/n", at(start), stop, limit=2, bytes_max=9, only_last=True)

        assert names == [str(number) for number in range(7)]
        assert paths == changed == [f"/n/{number}" for number in range(7)]
        assert [each.path for each in last.changes] == changed[-2:] and last.dropped == 5


async def test_behind_the_trim_point_there_are_snapshots_and_backups(tmp_path: Path) -> None:
    """From the oldest snapshot on without anything else; before that with backups, which must be of this cluster."""
    url, known = f"file://{tmp_path / 'backups'}", dict[int, bytes]()
    async with served(tmp_path, MANY_SNAPSHOTS) as database:
        await database.do(create("/big"), create("/app", b"0"))
        await back_up(database.log, BackupPlace(url, FsspecFiles), BackupSettings(hold_seconds=0))
        for number in range(1, 4):
            known[await database.do(put("/app", b"%d" % number))] = b"%d" % number
        old = min(known)
        await back_up(database.log, BackupPlace(url, FsspecFiles), BackupSettings(hold_seconds=0))
        clock = database.log.view.environment.clock
        with clock.timeout(LIMIT_SECONDS):
            while await database.log.find_trim_point() <= max(known):
                await database.do(*[put("/big", bytes(20_000))] * 10)
                await clock.sleep(0.5)
        past = await database.past()

        with pytest.raises(NoPastStateError, match="no snapshot from there on"):
            await past.znode("/app", at(old), bytes_max=9)
        assert (await past.znode("/app", TAIL, bytes_max=9)).value.data == b"3"
        whole = await past.changes("/", None, TAIL, limit=3, bytes_max=9)
        assert whole.start >= past.states.past.trim_point > max(known) and {each.path for each in whole.changes} <= {
            "/big"
        }

        further = await database.past(backups=url)
        assert {
            position: (await further.znode("/app", at(position), bytes_max=9)).value.data for position in known
        } == known
        found = await further.changes("/app", None, at(max(known)), limit=9, bytes_max=9)
        assert [each.state.value.data for each in found.changes][-3:] == [b"1", b"2", b"3"]
        times = [each.time_ms for each in found.changes]
        assert (await further.znode("/app", Moment(time_ms=times[-1]), bytes_max=9)).value.data == b"2"
        with pytest.raises(NoPastStateError, match="the log up to"):
            await further.differences("/", at(old), TAIL, after="", limit=1, bytes_max=1)
    async with served(tmp_path / "another") as other:
        with pytest.raises(WrongRecipientError):
            await other.past(backups=url)


async def test_commands_show_what_the_past_was(tmp_path: Path) -> None:
    """As text and as JSON; the hash of a password is shown by neither."""

    def secret(client: KazooClient) -> None:
        client.add_auth("digest", "user:hunter2")
        client.set_acls("/app", [*client.get_acls("/app")[0]])
        client.create("/app/m", b"\xff")

    async with served(tmp_path) as database:
        first = await database.do(create("/app", b"text"))
        await database.do(secret)

        async def run(*words: str) -> str:
            return await trio.to_thread.run_sync(ran, database, words)

        got: Mapping[str, Any] = json.loads(await run("get", "/app", "--at", str(first), "--json"))
        assert (got["data"], got["position"], got["stat"]["version"]) == ("text", first, 0)
        assert await run("get", "/app", "--raw") == "text"
        assert json.loads(await run("ls", "/app", "--json"))["children"][0]["name"] == "m"
        assert "m  version 0, 1 bytes" in await run("ls", "/app")
        (added,) = json.loads(await run("diff", "/app/m", "--from", str(first), "--json"))["differences"]
        assert (added["kind"], added["after"]["data_base64"], added["before"]) == ("added", "/w==", None)
        assert "+ /app/m  version 0: 0xff" in await run("diff", "/app", "--from", str(first))
        text = await run("history", "/app")
        assert "created /app/m  version 0: 0xff  (create, session 0x" in text
        assert "digest:user:x" in text
        rows = json.loads(await run("history", "/app", "--last", "--limit", "1", "--json"))
        assert rows["changes"][0]["path"] == "/app/m" and "digest:user:x" in rows["changes"][0]["client"]


def ran(database: Served, words: tuple[str, ...]) -> str:
    command = [
        sys.executable,
        "-P",
        "-m",
        "virtuallog_server",
        "database",
        *words,
        "--cluster",
        str(database.cluster.file_path),
    ]
    done = subprocess.run([*command, "--priority", "low"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_command_that_is_ended_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """Neither a hold of the log, which would last for an hour, nor a scratch folder."""
    async with served(tmp_path) as database:
        await database.do(create("/app"), *(put("/app", os.urandom(5000)) for _ in range(50)))
        words = ("database", "history", "/app", "--rate", "0.01", "--scratch", str(database.scratch))
        command = [
            sys.executable,
            "-P",
            "-m",
            "virtuallog_server",
            *words,
            "--cluster",
            str(database.cluster.file_path),
        ]
        clock = database.log.view.environment.clock
        process = await trio.lowlevel.open_process(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with clock.timeout(LIMIT_SECONDS):
            while not await database.holds():
                await clock.sleep(0.1)
        process.send_signal(number)

        assert await process.wait() == 130
        assert list(database.scratch.iterdir()) == [] and await database.holds() == []
