"""etcd and ZooKeeper as Debian packages them, through two scripts that are not part of this project.

We rely on their command lines: `peers.py start PEER DIR`, which installs what is missing, `stop DIR`, `info DIR`, which tells
the leader, and `bench.py run DIR`, which prints one JSON object per measurement, with `rate`, `p50` and `p99` in milliseconds. Their client is one process with plain
sockets and requests encoded by hand: less work than a real client has, which is in their favour. A write sets one of ten
keys, which it makes first if need be.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

from virtuallog_lab.experiments.contestants.contestant import Figures
from virtuallog_lab.harness.program import PeerError
from virtuallog_lab.harness.report import tell

SCRIPTS = ("peers.py", "bench.py")
KEYS = "10"
"""Few, as they are made before each measurement, one by one, and the syncs of that are counted."""
BUSY = "1000"
"""CPUs that other processes may use during a measurement: the script shall not wait for a quiet
machine, all are measured alike."""


async def run_script(scripts: Path, script: str, *arguments: str) -> str:
    """Run the script; returns its output.

    Raises:
        PeerError: it has failed.
    """
    command = [sys.executable, str(scripts / script), *arguments]
    done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    if done.returncode:
        raise PeerError(f"{script} {' '.join(arguments)}: {done.stderr.decode().strip()[-500:]}")
    return done.stdout.decode()


@attrs.frozen
class DebianContestant:
    """ZooKeeper or etcd of Debian.

    Args:
        name: `etcd` or `zookeeper`.
        durability: see `Contestant`.
        scripts: the folder with both scripts.
        warm_up_seconds: of writes before the first measurement, for the compiler of a Java machine.
    """

    name: str
    durability: str
    scripts: Path
    warm_up_seconds: float

    @asynccontextmanager
    async def open(self) -> AsyncIterator[RunningPeer]:
        """Install it, if it is missing, and start three processes on loopback."""
        with tempfile.TemporaryDirectory(prefix=f"virtuallog-{self.name}-") as folder:
            data = Path(folder) / "data"
            await self._run("peers.py", "start", self.name, str(data))
            try:
                running = RunningPeer(self, data)
                if self.warm_up_seconds:
                    tell(f"{self.name}: warming up for {self.warm_up_seconds:g} s")
                    await running.measure(64, 100, self.warm_up_seconds)
                yield running
            finally:
                with trio.CancelScope(shield=True):  # the script kills what has not ended after ten seconds
                    await self._run("peers.py", "stop", str(data))

    async def _run(self, script: str, *arguments: str) -> str:
        return await run_script(self.scripts, script, *arguments)

    async def write(self, data: Path, outstanding: int, size: int, seconds: float) -> Figures:
        """One measurement of the cluster in `data`."""
        lines = await self._run(
            "bench.py", "run", str(data), "--runs", "1", "--seconds", str(seconds), "--warm-first", "0", "--kinds", "write",
            "--keys", KEYS, "--outstanding", str(outstanding), "--sizes", str(size), "--quiet", BUSY,
        )  # fmt: skip
        found = json.loads(lines.splitlines()[-1])
        if found["errors"]:
            raise PeerError(f"{self.name}: {found['errors']} writes failed")
        return Figures(ops_per_s=found["rate"], p50_ms=found["p50"], p99_ms=found["p99"])


@attrs.frozen
class RunningPeer:
    """A cluster that the script has started."""

    _peer: DebianContestant
    data: Path
    """Folder in which the scripts find it."""

    @property
    def pids(self) -> list[int]:
        return [node["pid"] for node in json.loads((self.data / "peer.json").read_text())["nodes"]]

    async def leader(self) -> str:
        """Address of the server that leads now.

        Raises:
            PeerError: none does.
        """
        found = json.loads(await run_script(self._peer.scripts, "peers.py", "info", str(self.data)))
        if found["leader"] is None:
            raise PeerError(f"{self._peer.name} has no leader")
        (address,) = (node["client"] for node in found["nodes"] if node["id"] == found["leader"])
        return str(address)

    async def measure(self, outstanding: int, size: int, seconds: float) -> Figures:
        return await self._peer.write(self.data, outstanding, size, seconds)


def debian_contestants(scripts: Path) -> list[DebianContestant]:
    """Both.

    Raises:
        PeerError: the folder is not that of the scripts.
    """
    if missing := [name for name in SCRIPTS if not (scripts / name).exists()]:
        raise PeerError(f"{scripts}: there is no {missing[0]}")
    return [
        DebianContestant("etcd", "fdatasync of the Raft log on 2 of 3", scripts, 2.0),
        DebianContestant("zookeeper", "fdatasync of the transaction log on 2 of 3", scripts, 20.0),
    ]
