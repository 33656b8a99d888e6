"""The kernel's counts for processes: context switches, system calls, CPU time. Linux only."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import trio

_SWITCHES: Final = re.compile(r"^voluntary_ctxt_switches:\s+(\d+)", re.MULTILINE)


def has_strace() -> bool:
    """True if system calls can be counted by name."""
    return shutil.which("strace") is not None


def switches(pid: int) -> int:
    """Times that a thread of the process has given up its CPU because it had to wait."""
    total = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError):  # it has just ended
            found = _SWITCHES.search((thread / "status").read_text())
            total += int(found[1]) if found else 0
    return total


def reads_and_writes(pid: int) -> int:
    """System calls of the process that read or wrote files. Calls on sockets count only if they are `read` and `write`."""
    fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(fields["syscr"]) + int(fields["syscw"])


@asynccontextmanager
async def counted_system_calls(
    pids: Mapping[str, int], folder: Path
) -> AsyncIterator[Callable[[], dict[str, dict[str, int]]]]:
    """Attach `strace` to processes for the length of the block, which slows them a lot.

    Yields:
        a function that returns the number of calls by process and by name. To be called after the block.
    """
    files = {name: folder / f"strace-{pid}" for name, pid in pids.items()}
    async with AsyncExitStack() as stack:
        # This process last: else it is traced while it starts the others' strace, and these with it.
        for name, pid in sorted(pids.items(), key=lambda item: item[1] == os.getpid()):
            await stack.enter_async_context(_strace(pid, files[name]))
        yield lambda: {name: parse_strace(file.read_text()) for name, file in files.items()}


@asynccontextmanager
async def _strace(pid: int, file: Path) -> AsyncIterator[None]:
    command = ["strace", "-f", "-c", "-U", "calls,name", "-o", str(file), "-p", str(pid)]
    process = await trio.lowlevel.open_process(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        await process.stderr.receive_some()  # "attached"
        yield
    finally:
        process.send_signal(signal.SIGINT)
        with trio.CancelScope(shield=True):  # else the traced process stays slow
            await process.wait()


def parse_strace(text: str) -> dict[str, int]:
    """Calls by name, of the table of `strace -c -U calls,name`."""
    rows = (line.split() for line in text.splitlines())
    return {row[1]: int(row[0]) for row in rows if len(row) == 2 and row[0].isdigit() and row[1] != "total"}


def per_append(before: Mapping[str, int], after: Mapping[str, int], appends: int) -> dict[str, float]:
    """Differences of two readings by process, divided."""
    return {name: (after[name] - before[name]) / appends for name in before}


def read_all(read: Callable[[int], int], pids: Mapping[str, int]) -> dict[str, int]:
    """A reading of each process."""
    return {name: read(pid) for name, pid in pids.items()}
