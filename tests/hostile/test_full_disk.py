"""A real file system that is full to the last byte. Needs to mount one, so root; skipped elsewhere."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from tests.hostile.attacked_cluster import boots_of
from virtuallog.admin.control import ReconfigExtend
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog.node_services import open_services_to
from virtuallog.runtime.rocks_map import open_rocks_map
from virtuallog_server.local_cluster.supervisor import open_local_cluster

MIB = 1 << 20
NODE = NodeId(1)
BLOCKED_SECONDS = 5.0
"""An append that takes longer waits for room; before, a MiB takes milliseconds."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 208 MiB: two segments of a write-ahead log, and little more."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=208m", "tmpfs", str(path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    yield path
    subprocess.run(["umount", str(path)], check=True)


def fill(disk: Path) -> Path:
    """A file that takes all the room there is."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    assert os.statvfs(disk).f_bavail == 0
    return ballast


async def append_until_blocked(log: VirtualLog) -> int:
    """Appends of a MiB that went through."""
    for count in range(300):
        with trio.move_on_after(BLOCKED_SECONDS) as waiting:  # noqa: TID251 -- against real processes
            await log.append(bytes(MIB))
        if waiting.cancelled_caught:
            return count
    raise AssertionError("the disk was never full")


async def test_register_changes_on_a_full_disk(disk: Path) -> None:
    """The votes of a node need some KB now and then, to move on to other disks if need be: kept beside the store."""
    async with open_rocks_map(disk / "votes") as store:
        ballast = fill(disk)
        for number in range(20):
            await store.write({b"decision": bytes(60_000), b"ballots": b"%d" % number})
    async with open_rocks_map(disk / "votes") as store:
        assert await store.get(b"ballots") == b"19"
    ballast.unlink()
    async with open_rocks_map(disk / "votes") as store:
        assert await store.get(b"ballots") == b"19"
    assert (disk / "votes.reserve").stat().st_size == 4 * MIB


@pytest.mark.processes
async def test_node_on_a_full_disk_waits_seals_and_comes_back(disk: Path) -> None:
    """Appends wait; reads, seals and changes of the chain go on; with room again it goes on by itself. No restart."""
    async with open_local_cluster(disk / "cluster", nodes=1, base_port=0) as cluster:
        async with open_services_to(cluster.file) as services:
            await cluster.wait_ready()
            boots = await boots_of(cluster)
            async with connect(cluster.file) as log:
                await log.append(b"first")
                (first,) = [record async for record in log.reader(LogPosition(0), LogPosition(1))]
                ballast = fill(disk)
                appended = await append_until_blocked(log)
                tail = (await log.check_tail()).tail
                assert 50 < appended < 128
                assert tail >= appended + 1
                assert [record async for record in log.reader(LogPosition(0), LogPosition(1))] == [first]

                await services.call(NODE, ReconfigExtend(kind="native", settings=()), 20.0)
                assert await boots_of(cluster) == boots

                ballast.unlink()
                with trio.fail_after(30):  # noqa: TID251 -- against real processes
                    assert await log.append(b"last") > tail
        assert await boots_of(cluster) == boots
