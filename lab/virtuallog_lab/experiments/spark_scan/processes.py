"""CPU time and memory of Spark and of the servers, by role: of this process's descendants, from
/proc (Linux).

virtuallog_lab.experiments.spark_scan.scan --- node, node, node        servers
   |  '-------- java                    jvm: the driver, which in local mode runs the tasks, too
   |              '--- pyspark.daemon --- worker, worker      python
   '----------- plain readers           say themselves what they have used
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

from virtuallog.contract.ports import Clock

ROLES: Final = ("jvm", "python", "servers")
LOOK_SECONDS: Final = 1.0
"""Seconds between looks. Each reads a line of every process of the machine, some milliseconds of
CPU."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@attrs.frozen(kw_only=True)
class Process:
    """One process, from /proc/PID/stat."""

    pid: int
    parent: int
    name: str
    cpu_seconds: float
    """CPU seconds of its threads, ended ones included."""
    ended_seconds: float
    """CPU seconds of its ended children, and of theirs."""
    resident_bytes: int


@attrs.frozen(kw_only=True)
class ProcessUsage:
    """Resident bytes at one moment."""

    at: float
    """Seconds since the beginning."""
    stage: str
    """Stage of the run at that time."""
    jvm: int
    """Bytes of the largest JVM: the archive job has one of its own."""
    python: int
    """Bytes of all Python workers of Spark."""
    worker: int
    """Bytes of the largest worker."""
    servers: int
    """Bytes of the largest server."""


def parse_stat(text: str) -> Process:
    """One line of /proc/PID/stat."""
    head, _, tail = text.rpartition(")")
    pid, _, name = head.partition(" (")
    fields = tail.split()
    return Process(
        pid=int(pid),
        parent=int(fields[1]),
        name=name,
        cpu_seconds=(int(fields[11]) + int(fields[12])) / _TICKS,
        ended_seconds=(int(fields[13]) + int(fields[14])) / _TICKS,
        resident_bytes=int(fields[21]) * _PAGE,
    )


def roles_of(processes: Mapping[int, Process], root: int, servers: frozenset[int]) -> dict[str, list[Process]]:
    """The descendants of `root`, by what they are."""
    found: dict[str, list[Process]] = {role: [] for role in ROLES}
    for process in processes.values():
        above = list(_above(processes, process))
        if root not in above:
            continue
        if process.pid in servers:
            found["servers"].append(process)
        elif process.name == "java":
            found["jvm"].append(process)
        elif any(processes[pid].name == "java" for pid in above if pid in processes):
            found["python"].append(process)
    return found


def cpu_of(roles: Mapping[str, list[Process]]) -> dict[str, float]:
    """Seconds, by role, of those that have ended, too: a JVM waits for its workers, and what it started is Python."""
    used = {role: sum(process.cpu_seconds for process in found) for role, found in roles.items()}
    used["python"] += sum(process.ended_seconds for role in ("jvm", "python") for process in roles[role])
    return used


@attrs.define(eq=False)
class ProcessObserver:
    """Looks at them all the time."""

    servers: frozenset[int]
    """Process ids."""
    clock: Clock
    began: float
    stage: str = ""
    """Present stage, set by the code that runs it."""
    looks: list[ProcessUsage] = attrs.field(factory=list, init=False)

    def cpu(self) -> dict[str, float]:
        """Seconds so far, by role; of processes that are still there, or had a parent that is."""
        return cpu_of(self._roles())

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            self.looks.append(self._look())
            await self.clock.sleep(LOOK_SECONDS)

    def _look(self) -> ProcessUsage:
        sizes = {role: [process.resident_bytes for process in found] for role, found in self._roles().items()}
        return ProcessUsage(
            at=self.clock.monotonic() - self.began,
            stage=self.stage,
            jvm=max(sizes["jvm"], default=0),
            python=sum(sizes["python"]),
            worker=max(sizes["python"], default=0),
            servers=max(sizes["servers"], default=0),
        )

    def _roles(self) -> dict[str, list[Process]]:
        return roles_of({process.pid: process for process in _processes()}, os.getpid(), self.servers)


def _above(processes: Mapping[int, Process], process: Process) -> Iterator[int]:
    while process.parent in processes:
        yield process.parent
        process = processes[process.parent]


def _processes() -> Iterator[Process]:
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            yield parse_stat((entry / "stat").read_text())
