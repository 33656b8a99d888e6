"""Members that find each other through a real ZooKeeper: LogZooKeeperTest of Mesos."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path

import pytest

from tests.zookeeper_server import Server, open_zookeeper
from virtuallog.runtime.clock import SystemClock
from virtuallog_loglets.paxos.standalone.facade import open_log
from virtuallog_loglets.paxos.standalone.log import Log, Position
from virtuallog_loglets.paxos.standalone.reader import LogReader
from virtuallog_loglets.paxos.standalone.writer import LogWriter
from virtuallog_loglets.paxos.standalone.zookeeper_network import ZooKeeperMembership

pytestmark = [pytest.mark.processes]
PATIENCE_SECONDS = 30.0


@pytest.fixture
async def zookeeper(tmp_path: Path) -> AsyncIterator[Server]:
    (tmp_path / "zookeeper").mkdir()
    async with open_zookeeper(tmp_path / "zookeeper") as server:
        yield server


async def test_write_read(zookeeper: Server, tmp_path: Path) -> None:
    """Two replicas know each other from ZooKeeper alone. Mesos initialises their stores with its tool; here the three of a log of
    quorum 2 found it together, and the third one is gone before anything is written."""
    members = ZooKeeperMembership(servers=zookeeper.address, znode="/log")

    async with _replica(tmp_path, 1, 2, members) as first, _replica(tmp_path, 2, 2, members) as second:
        async with _replica(tmp_path, 3, 2, members):
            with _patience():
                await first.recovered()
                await second.recovered()
        position = await _appended(second)

        (entry,) = await LogReader(second).read(position, position)
        assert (entry.position, entry.data) == (position, b"hello world")


async def test_lost_zookeeper(zookeeper: Server, tmp_path: Path) -> None:
    """A log of one replica that has founded itself goes on when ZooKeeper is gone: it knows itself without."""
    members = ZooKeeperMembership(servers=zookeeper.address, znode="/log")

    async with _replica(tmp_path, 1, 1, members) as log:
        writer = await _started(log)
        await zookeeper.stop()

        position = await writer.append(b"hello world")

        assert position is not None
        (entry,) = await LogReader(log).read(position, position)
        assert (entry.position, entry.data) == (position, b"hello world")


def _replica(folder: Path, node: int, quorum: int, members: ZooKeeperMembership) -> AbstractAsyncContextManager[Log]:
    return open_log(folder / str(node), node=node, quorum=quorum, zookeeper=members, auto_initialize=True)


async def _started(log: Log) -> LogWriter:
    """A writer may find too few members at first: then it tries again, as its users do."""
    writer = LogWriter(log)
    with _patience():
        while await writer.start() is None:
            await SystemClock().sleep(0.05)
    return writer


async def _appended(log: Log) -> Position:
    position = await (await _started(log)).append(b"hello world")
    assert position is not None
    return position


@contextmanager
def _patience() -> Iterator[None]:
    with SystemClock().timeout(PATIENCE_SECONDS) as scope:
        yield
    assert not scope.cancelled_caught, f"not done in {PATIENCE_SECONDS} s"
