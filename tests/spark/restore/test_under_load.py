"""`virtuallog spark restore` beside three real servers that are written to: to positions drawn at random, killed anywhere, from backups."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from pyspark_virtuallog.restore.state import publish_state
from tests.free_ports import free_ports
from tests.server.database.test_processes import wait_serving
from tests.server.process.test_processes import COMMAND, command
from tests.spark.restore.test_state import fetched, stored
from virtuallog.client.scan import scan
from virtuallog.connect import connect
from virtuallog.contract.loglet import Placed
from virtuallog.contract.register import ClusterId
from virtuallog.contract.types import LogPosition
from virtuallog.replica import open_replica
from virtuallog_database.client import DatabaseClient
from virtuallog_database.engines.core.inherited_state import inherited, pairs_within
from virtuallog_database.engines.core.keys import read_cursor
from virtuallog_database.replica.replay import Replay
from virtuallog_database.rocks.directory import open_store_directory
from virtuallog_database.snapshots.compaction_store import CompactionStore
from virtuallog_database.snapshots.played_store import install_newest_snapshot
from virtuallog_database.snapshots.wire import SNAPSHOTS
from virtuallog_database.testing.memory_store import MemoryDisk, SortedPairs
from virtuallog_server.local_cluster import layout
from virtuallog_server.local_cluster.supervisor import LocalCluster, open_local_cluster

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.long]

PATIENCE_SECONDS = 300
"""For one command, or a backup: a machine that is busy takes its time."""
KEYS = 40
"""Paths that are written again and again: versions depend on all writes before."""


@attrs.frozen
class Story:
    """A log as it was read once, from a snapshot on: it is trimmed below."""

    cluster: ClusterId
    begin: Mapping[bytes, bytes]
    items: Sequence[Placed]

    @property
    def stop(self) -> int:
        return self.items[-1].stop

    def state_at(self, position: int) -> dict[bytes, bytes]:
        """Result of a replay."""
        disk = MemoryDisk(content=SortedPairs(dict(self.begin)))
        Replay(disk.open()).apply([part for item in self.items if (part := item.clip(0, position)) is not None])
        return disk.content.pairs


@asynccontextmanager
async def loaded(folder: Path, place: Path) -> AsyncIterator[LocalCluster]:
    """Servers with TLS that back up their log, and a client that writes for as long as the block runs."""
    prepare(folder, place)
    async with open_local_cluster(folder, 3, tls=True) as cluster:
        await wait_serving(cluster)
        cluster.write_file()
        async with open_replica(cluster.file, folder / "client") as client, trio.open_nursery() as nursery:
            await nursery.start(write, client)
            yield cluster
            nursery.cancel_scope.cancel()


def prepare(folder: Path, place: Path) -> None:
    folder.mkdir()
    settings = f'[zookeeper]\nbackup_url = "file://{place}"\nsnapshot_seconds = 86400.0\n'
    for node in layout.prepare(folder, 3, 0, 0, "native", tls=True, zookeeper_port=free_ports(3)):
        file = layout.config_file(node)
        file.write_text(file.read_text().replace("[zookeeper]\n", settings))


async def write(client: DatabaseClient, task_status: trio.TaskStatus[None]) -> None:
    """For ever; started once there is something."""
    for number in range(KEYS):
        await client.create(f"/n{number}", b"new")
    task_status.started()
    source, count = random.Random(1), 0
    while True:
        await client.set(f"/n{source.randrange(KEYS)}", b"%d" % count)
        count += 1
        await trio.sleep(0.02)


async def read(cluster: LocalCluster, folder: Path, place: Path) -> Story:
    """All of the log there is now; where it begins is a compaction, at the place."""
    async with connect(cluster.file, more=[SNAPSHOTS]) as log:
        id_of_it = (await log.view.current()).cluster
        directory = await open_store_directory(folder / "base")
        await install_newest_snapshot(directory, log, "test")
        store = await directory.open()
        await publish_state(CompactionStore(f"file://{place}"), id_of_it, store, 0, folder / "work", with_engines=True)
        begin, start = dict(pairs_within(store)), read_cursor(store)
        await directory.close()
        tail = LogPosition((await log.check_tail()).tail)
        return Story(id_of_it, begin, [placed async for piece in scan(log, start, tail) for placed in piece])


def arguments(*places: Path, position: int, into: Path) -> list[str]:
    named = [word for place in places for word in ("--from", str(place))]
    store = into.with_name(f"{into.name}-store")
    return [
        "spark",
        "restore",
        *named,
        "--position",
        str(position),
        "--into",
        str(into),
        "--store",
        str(store),
        "--json",
    ]


def run(given: list[str]) -> dict[str, Any]:
    done = command(*given, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


async def is_that_state(made: Mapping[str, Any], story: Story, position: int, into: Path) -> None:
    """The restored state is that of a replay of the log: the store whole, and the start of a new
    cluster."""
    assert (made["former"], made["position"]) == (story.cluster.hex(), position)
    expected = story.state_at(position)
    assert stored(into.with_name(f"{into.name}-store")) == expected
    state = await fetched(into, ClusterId(bytes.fromhex(made["cluster"])))
    assert state == dict(inherited(SortedPairs(expected)))


def run_until(given: list[str], pattern: Path, folder: Path) -> None:
    """Start it, with work files in a folder, and kill it with all that it has started once there is such a file."""
    process = subprocess.Popen(
        [*COMMAND, *given], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )  # fmt: skip
    try:
        while process.poll() is None and not list(pattern.parent.parent.glob(f"{pattern.parent.name}/{pattern.name}")):
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.02)
        assert process.returncode is None, "it was faster than the kill"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


async def test_restores_beside_a_cluster_that_is_written_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three positions, drawn at random, while it is written to; three that are killed, once their plan, their store, or a part of the
    state is there, and given again; and one from the backups of the servers, and a compaction, when the servers are gone. All of them are
    what a replay of the log up to there comes to."""
    place, seed = tmp_path / "backups", random.SystemRandom().randrange(1 << 32)
    async with loaded(tmp_path / "former", place) as cluster:
        await trio.sleep(10)
        story = await read(cluster, tmp_path, place)
        positions = random.Random(seed).sample(range(story.items[0].start + 1, story.stop), 7)
        with capsys.disabled():
            sys.stderr.write(f"seed {seed}: positions {positions} of {story.stop}\n")
        for position in positions[:3]:
            into = tmp_path / f"at-{position}"
            given = arguments(cluster.file_path, position=position, into=into)
            await is_that_state(await trio.to_thread.run_sync(run, given), story, position, into)
        for position, killed_at in zip(
            positions[3:6], ("{}/restore.json", "{}-store/generation-*", "{}/compacted/*"), strict=True
        ):
            into = tmp_path / f"killed-{position}"
            given = arguments(cluster.file_path, position=position, into=into)
            pattern = tmp_path / killed_at.format(into.name)
            await trio.to_thread.run_sync(run_until, given, pattern, tmp_path)
            await is_that_state(await trio.to_thread.run_sync(run, given), story, position, into)
        await until_backed_up(place, positions[6])
    into = tmp_path / "from-backups"
    made = await trio.to_thread.run_sync(run, arguments(place, position=positions[6], into=into))
    await is_that_state(made, story, positions[6], into)


async def until_backed_up(place: Path, position: int) -> None:
    """Return once a server has copied the log up to there."""
    with trio.fail_after(PATIENCE_SECONDS):
        while not any(stop >= position for stop in await trio.to_thread.run_sync(backed_up, place)):
            await trio.sleep(1.0)


def backed_up(place: Path) -> list[int]:
    return [
        int(manifest.parent.name.removesuffix("-backup").rsplit("-", 1)[1])
        for manifest in place.glob("*/manifest.json")
    ]
