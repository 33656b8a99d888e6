"""Counts how often processes sync to disk, with strace: what a system really does, beside what it says.

Tracing slows a process down a lot, so syncs are counted in a measurement of their own, and reported
per acknowledged write of that very measurement, over all servers together. Preparations of a
client, such as keys, are counted too; they are few.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import tempfile
from typing import Final

import trio

from virtuallog_lab.experiments.contestants.contestant import RunningContestant

CALLS: Final = ("fsync", "fdatasync", "msync", "sync_file_range")
WARM_UP_SECONDS: Final = 1.0
"""Seconds that a measurement adds in front, and in which syncs are counted as well."""
_LINE: Final = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", re.MULTILINE)


def can_count() -> bool:
    """True if strace is installed."""
    return shutil.which("strace") is not None


async def syncs_per_thousand(running: RunningContestant, outstanding: int, size: int, seconds: float) -> float:
    """Syncs of all servers together per 1,000 acknowledged writes."""
    with tempfile.NamedTemporaryFile(prefix="virtuallog-strace-") as file:
        command = ["strace", "-f", "-c", "-e", f"trace={','.join(CALLS)}", "-o", file.name]
        for pid in running.pids:
            command += ["-p", str(pid)]
        tracer = await trio.lowlevel.open_process(command, stderr=subprocess.DEVNULL)
        try:
            figures = await running.measure(outstanding, size, seconds)
        finally:
            tracer.send_signal(signal.SIGINT)  # it detaches, and writes its table
            with trio.CancelScope(shield=True):
                await tracer.wait()
        syncs = count_calls(await trio.Path(file.name).read_text())
    writes = figures.ops_per_s * (seconds + WARM_UP_SECONDS)
    return 1000 * syncs / writes if writes else 0.0


def count_calls(table: str) -> int:
    """The calls in a table of `strace -c`."""
    return sum(int(count) for count, name in _LINE.findall(table) if name in CALLS)
