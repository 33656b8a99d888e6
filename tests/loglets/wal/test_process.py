"""A real process that is killed: every number that it printed as acknowledged is in the log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from virtuallog.runtime.disk import DiskStorage
from virtuallog_loglets.wal import Address, WalRecord, WalSettings, WriteAheadLog

SETTINGS = WalSettings(segment_bytes=1 << 16, record_bytes_max=4096, group_bytes_max=1 << 14, headroom_bytes=1 << 14)

CHILD = """
import sys
from pathlib import Path
import trio
from virtuallog_loglets.wal import WalRecord, WriteAheadLog
from tests.loglets.wal.test_process import SETTINGS
from virtuallog.runtime.disk import DiskStorage

async def main():
    known = 0
    def replay(address, record):
        nonlocal known
        known = int(record.payload) if record.kind == 2 else int(record.payload) + 1
    with DiskStorage(Path(sys.argv[1])) as storage:
        wal = await WriteAheadLog.open(storage, SETTINGS, replay)
        async with trio.open_nursery() as nursery:
            await nursery.start(wal.run, lambda: [WalRecord(2, b"%d" % known)])
            offered = known
            def done(outcome):
                nonlocal known, offered
                print(known, flush=True)
                known += 1
                wal.append([WalRecord(1, b"%d" % offered)], done)
                offered += 1
            for _ in range(16):
                wal.append([WalRecord(1, b"%d" % offered)], done)
                offered += 1
            await trio.sleep_forever()

trio.run(main)
"""


def acknowledged_before_the_kill(path: Path, count: int) -> int:
    """Run the child until it has acknowledged `count` more, SIGKILL it; returns the last number it printed."""
    with subprocess.Popen([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(count)]
        child.kill()
        lines += child.stdout.readlines()
    # A line that the kill cut off says nothing.
    return max(int(line) for line in lines if line.endswith("\n"))


@pytest.mark.processes
@pytest.mark.slow
async def test_all_acknowledged_survive_sigkill(tmp_path: Path) -> None:
    """Three lives of one log, each killed under load: the numbers are there without a hole, over several segments."""
    for life in range(3):
        last = acknowledged_before_the_kill(tmp_path, 3000)
        found: list[int] = []

        def replay(_address: Address, record: WalRecord, found: list[int] = found) -> None:
            if record.kind == 1:
                found.append(int(record.payload))

        with DiskStorage(tmp_path) as storage:
            wal = await WriteAheadLog.open(storage, SETTINGS, replay)
        assert found == list(range(len(found)))
        assert len(found) > last >= 3000 * (life + 1) - 1, "all that was printed is there, and the child went on"
    assert wal.statistics().segments > 1
