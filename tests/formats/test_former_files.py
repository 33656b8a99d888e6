"""Files that the first version wrote are read, continued and trimmed by this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.formats.former import unpack
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.types import LogPosition, PlacedBatch
from virtuallog.runtime.disk import DiskStorage
from virtuallog_loglets.native.core import wave as waves
from virtuallog_loglets.native.core.durable_state import DurableLogs
from virtuallog_loglets.wal import WalSettings, WriteAheadLog
from virtuallog_server.local_cluster.supervisor import open_local_cluster


async def read_all(log: VirtualLog, start: int, stop: int) -> list[bytes]:
    """Every payload of [start, stop); a gap fails the test."""
    payloads: list[bytes] = []
    async for placed in log.reader(LogPosition(start), LogPosition(stop)).batches():
        assert isinstance(placed, PlacedBatch), placed
        payloads += [record.payload for record in placed.records()]
    return payloads


async def test_write_ahead_logs_of_the_first_version_are_read(tmp_path: Path) -> None:
    """Segments, records and waves: every wave that the old index would have found is found, and reads back whole."""
    expected = unpack(tmp_path)
    with DiskStorage(tmp_path / "node-1" / "storage" / "native") as storage:
        durable = DurableLogs()
        wal = await WriteAheadLog.open(storage, WalSettings(), durable.replay)
        kept = 0
        for segment, loglet in durable.loglets.items():
            for address in loglet.waves.find(loglet.trim, loglet.tail, 10_000):
                wave = waves.parse_untrusted((await wal.read(address)).payload)
                assert wave.segment == segment
                kept += wave.entries

    tails = {segment.version: (loglet.tail, loglet.sealed) for segment, loglet in durable.loglets.items()}
    assert tails == {1: (1500, True), 2: (1000, True), 3: (0, True), 4: (1700, False)}
    assert kept >= expected.tail - expected.trim


@pytest.mark.slow
@pytest.mark.processes
async def test_a_cluster_of_the_first_version_goes_on(tmp_path: Path) -> None:
    """Three nodes start on their old data: all entries are there, appends, a new loglet, a trim and a restart work."""
    expected = unpack(tmp_path)
    async with open_local_cluster(tmp_path) as cluster:
        await cluster.wait_ready()
        async with connect(cluster.file) as log:
            assert expected.holds(await read_all(log, expected.trim, expected.tail))
            await log.reconfig_extend("native", {})
            assert await log.append(b"more") == expected.tail
            await log.prefix_trim(LogPosition(2600))
    async with open_local_cluster(tmp_path) as cluster:
        await cluster.wait_ready()
        async with connect(cluster.file) as log:
            assert await log.find_trim_point() == 2600
            await log.reconfig_extend("native", {})
            entries = await read_all(log, 2600, expected.tail + 1)
    assert len(entries) == expected.tail + 1 - 2600
    assert entries[-1] == b"more"
