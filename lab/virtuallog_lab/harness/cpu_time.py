"""CPU time of processes, from /proc (Linux). Unlike a latency it hardly depends on who else uses the machine."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path


class CpuMeter:
    """CPU time since it was made.

    Args:
        processes: names and pids of processes that run; those of one name are added up.
    """

    def __init__(self, processes: Sequence[tuple[str, int]]) -> None:
        self._processes = processes
        self._start = self._read()

    def seconds(self) -> dict[str, float]:
        """CPU seconds by name."""
        return {name: now - self._start[name] for name, now in self._read().items()}

    def _read(self) -> dict[str, float]:
        used: dict[str, float] = {}
        for name, pid in self._processes:
            used[name] = used.get(name, 0.0) + _cpu_seconds(pid)
        return used


def _cpu_seconds(pid: int) -> float:
    """CPU seconds of all running threads, user and system; exact to the nanosecond."""
    total = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError):  # it has just ended
            total += int((thread / "schedstat").read_text().split()[0])
    return total / 1e9
