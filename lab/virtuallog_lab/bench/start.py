"""Starts: how long an import, a command, an embedded database and a cluster take until they are there.

Each round measures every start once, in turn, so that a busy moment of the machine meets all of them. The wall time ends when the
thing is there: the process has ended, the block is open, the cluster answers. The CPU time is that of all processes, and so
larger than the wall time where several start side by side. The libraries alone come first: no start can be below their import.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.report import Report, Table, middle_and_ends
from virtuallog_server.cli.common.failures import Failure
from virtuallog_server.local_cluster.layout import free_row
from virtuallog_server.local_cluster.supervisor import PROGRAM

CLOCK: Final = SystemClock()
IMPORTS: Final = {
    "python": "pass",
    "import trio, capnp": "import attrs, capnp, trio",
    "import virtuallog": "import virtuallog",
    "import connect": "from virtuallog import connect",
    "import open_embedded": "from virtuallog.embedded import open_embedded",
}
"""Name of a start -> the program of a process that does nothing else."""
COMMANDS: Final = {
    "--help": ("--help",),
    "status": ("status",),
    "append": ("append", "entry"),
    "tail": ("tail",),
    "read": ("read",),
}
"""Name of a start -> arguments of a command on a running cluster."""
OPEN: Final = """
import json, sys, time, trio
from virtuallog.embedded import open_embedded
async def main():
    wall, cpu = time.monotonic(), time.process_time()
    async with open_embedded(sys.argv[1]) as client:
        await client.exists("/")
        print(json.dumps([time.monotonic() - wall, time.process_time() - cpu]))
trio.run(main)
"""
"""A program that opens an embedded database, reads from it, and prints the seconds and CPU seconds of that; imports do not count."""
BARS_MS: Final = {
    "import virtuallog": 120,
    **dict.fromkeys(COMMANDS, 300),
    "embedded, new": 500,
    "embedded, again": 500,
    "up": 1500,
}
"""Most milliseconds of wall time that a start shall take in the median, on two quiet cores."""


@attrs.frozen
class Start:
    """One start."""

    wall_seconds: float
    cpu_seconds: float


@attrs.define
class Starts:
    """All starts of some rounds, by name."""

    rounds: int
    nodes: int
    found: dict[str, list[Start]] = attrs.field(factory=dict)

    def report(self, machine: Machine) -> Report:
        """Medians with their ends, beside the bars."""
        rows = [
            [
                name,
                middle_and_ends([1e3 * start.wall_seconds for start in starts]),
                middle_and_ends([1e3 * start.cpu_seconds for start in starts]),
                str(BARS_MS.get(name, "")),
            ]
            for name, starts in self.found.items()
        ]
        title = f"Starts: median (lowest-highest) of {self.rounds} rounds, in milliseconds"
        plain = {name: [attrs.asdict(start) for start in starts] for name, starts in self.found.items()}
        return Report(
            title=title,
            machine=machine,
            tables=[Table(title, ("start", "wall", "CPU", "bar"), rows)],
            plain={"rounds": self.rounds, "nodes": self.nodes, "starts": plain},
            verdict=f"up: {self.nodes} nodes, until a majority knows the register",
        )

    def add(self, name: str, start: Start) -> None:
        self.found.setdefault(name, []).append(start)


def run(rounds: int, nodes: int, tell: Callable[[str], None] = lambda line: None) -> Starts:
    """Measure every start `rounds` times, in a directory of its own. A first round is not counted: it fills caches.

    Raises:
        Failure: a process failed.
    """
    starts = Starts(rounds, nodes)
    for number in range(rounds + 1):
        tell(f"round {number} of {rounds}")
        with tempfile.TemporaryDirectory(prefix="virtuallog-bench-") as folder:
            for name, start in _round(Path(folder), nodes):
                if number:
                    starts.add(name, start)
    return starts


def _round(folder: Path, nodes: int) -> Iterator[tuple[str, Start]]:
    for name, program in IMPORTS.items():
        yield name, _ended([sys.executable, "-c", program])
    for name in ("embedded, new", "embedded, again"):
        wall, cpu = json.loads(_output([sys.executable, "-c", OPEN, str(folder / "embedded")]))
        yield name, Start(wall, cpu)
    cluster = folder / "cluster"
    before = _children_cpu_seconds()
    with _up(cluster, nodes) as wall:
        commands = {
            name: _ended([*PROGRAM, *arguments], VIRTUALLOG_CLUSTER=str(cluster / "cluster.toml"))
            for name, arguments in COMMANDS.items()
        }
    yield from commands.items()
    cpu_of_commands = sum(start.cpu_seconds for start in commands.values())
    yield "up", Start(wall, _children_cpu_seconds() - before - cpu_of_commands)


@contextmanager
def _up(folder: Path, nodes: int) -> Iterator[float]:
    """Run `virtuallog up` for the length of the block; yields the seconds until it was ready."""
    port = free_row(nodes)
    began = CLOCK.monotonic()
    command = [*PROGRAM, "up", "--nodes", str(nodes), "--data", str(folder), "--base-port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if not any(line.startswith("ready:") for line in process.stdout):
                raise Failure("`virtuallog up` has ended")
            yield CLOCK.monotonic() - began
        finally:
            process.terminate()


def _ended(command: Sequence[str], **environment: str) -> Start:
    """Run a process to its end."""
    wall, cpu = CLOCK.monotonic(), _children_cpu_seconds()
    _output(command, **environment)
    return Start(CLOCK.monotonic() - wall, _children_cpu_seconds() - cpu)


def _output(command: Sequence[str], **environment: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)
    if done.returncode:
        raise Failure(f"{' '.join(command)} ended with code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def _children_cpu_seconds() -> float:
    """CPU seconds of all processes that this one has started and waited for, with those that they have waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
