"""PySyncObj, Raft in pure Python, in an environment of its own that is removed afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.experiments.contestants.contestant import Figures, RunningContestant
from virtuallog_lab.harness.program import PeerError
from virtuallog_lab.harness.report import tell
from virtuallog_server.local_cluster.layout import HOST, free_ports

VERSION: Final = "0.3.17"
SCRIPT: Final = Path(__file__).with_name("pysyncobj_node.py")
LEADER_SECONDS: Final = 30.0
"""An election takes about a second."""


@attrs.frozen
class PySyncObjContestant:
    """Three nodes, with a journal each."""

    name: str = "PySyncObj"
    durability: str = "nothing: a mapped file, never synced"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[RunningContestant]:
        """Install it and start three processes."""
        with tempfile.TemporaryDirectory(prefix="virtuallog-pysyncobj-") as folder:
            python = await _install(Path(folder) / "environment")
            addresses = [f"{HOST}:{port}" for port in free_ports(3)]
            async with AsyncExitStack() as stack:
                nodes = [
                    await stack.enter_async_context(_start(python, Path(folder) / f"journal-{index}", addresses, index))
                    for index in range(3)
                ]
                yield _RunningRaft(nodes, await _find_leader(nodes))


class _Node:
    """A child process that answers a line with a line."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid = process.pid
        self._stdin, self._stdout, self._buffer = process.stdin, process.stdout, b""

    async def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        await self._stdin.send_all(json.dumps(question).encode() + b"\n")
        while b"\n" not in self._buffer:
            chunk = await self._stdout.receive_some()
            if not chunk:
                raise PeerError(f"PySyncObj node {self.pid} has ended")
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer


@attrs.frozen
class _RunningRaft:
    _nodes: Sequence[_Node]
    _leader: _Node

    @property
    def pids(self) -> list[int]:
        return [node.pid for node in self._nodes]

    async def measure(self, outstanding: int, size: int, seconds: float) -> Figures:
        found = await self._leader.ask({"outstanding": outstanding, "size": size, "seconds": seconds})
        if found.pop("failures"):
            raise PeerError("PySyncObj: writes failed, or were not answered")
        return Figures(**found)


async def _install(environment: Path) -> Path:
    tell(f"installing PySyncObj {VERSION}")
    await _must([sys.executable, "-m", "venv", str(environment)])
    python = environment / "bin" / "python"
    await _must([str(python), "-m", "pip", "install", "--quiet", f"pysyncobj=={VERSION}"])
    return python


async def _must(command: list[str]) -> None:
    done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    if done.returncode:
        raise PeerError(f"{' '.join(command)}: {done.stderr.decode().strip()[-500:]}")


@asynccontextmanager
async def _start(python: Path, journal: Path, addresses: Sequence[str], index: int) -> AsyncIterator[_Node]:
    others = [address for address in addresses if address != addresses[index]]
    command = [str(python), "-P", str(SCRIPT), str(journal), addresses[index], *others]
    with journal.with_suffix(".log").open("wb") as log:
        process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
    try:
        yield _Node(process)
    finally:
        process.kill()
        with trio.CancelScope(shield=True):  # it is dead already
            await process.wait()


async def _find_leader(nodes: Sequence[_Node]) -> _Node:
    clock = SystemClock()
    with clock.timeout(LEADER_SECONDS):
        while True:
            for node in nodes:
                if (await node.ask({}))["leads"]:
                    return node
            await clock.sleep(0.1)
    raise PeerError(f"PySyncObj has had no leader for {LEADER_SECONDS:g} s")
