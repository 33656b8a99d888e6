"""Counts how often processes sync to disk, with strace: what a system really does, beside what it says.

Tracing slows a process down a lot, so syncs are counted in measurements of their own. There are two, a short one and a longer
one, and their difference counts: preparations, such as keys that are made one by one, are in both.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import tempfile
from typing import Final

import trio

from bench.contestants.contestant import Running

CALLS: Final = ("fsync", "fdatasync", "msync", "sync_file_range")
SHORT_SECONDS: Final = 1.0
WARM_UP_SECONDS: Final = 1.0
"""That a measurement adds in front, and in which syncs are counted as well."""
_LINE: Final = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", re.MULTILINE)


def can_count() -> bool:
    """Whether strace is installed."""
    return shutil.which("strace") is not None


async def syncs_per_thousand(running: Running, outstanding: int, size: int, seconds: float) -> float:
    """Syncs of all servers together per 1,000 acknowledged writes, beyond those of a measurement of `SHORT_SECONDS`."""
    few_syncs, few_writes = await _trace(running, outstanding, size, SHORT_SECONDS)
    syncs, writes = await _trace(running, outstanding, size, SHORT_SECONDS + seconds)
    return max(0.0, 1000 * (syncs - few_syncs) / (writes - few_writes)) if writes > few_writes else 0.0


async def _trace(running: Running, outstanding: int, size: int, seconds: float) -> tuple[int, float]:
    """Syncs and writes, both with those of the warm-up."""
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
        return count_calls(await trio.Path(file.name).read_text()), figures.ops_per_s * (seconds + WARM_UP_SECONDS)


def count_calls(table: str) -> int:
    """The calls in a table of `strace -c`."""
    return sum(int(count) for count, name in _LINE.findall(table) if name in CALLS)
