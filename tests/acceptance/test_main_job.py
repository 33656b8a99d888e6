"""The main job, with nothing but the commands: a large file through a log whose loglets are swapped and killed under it.

The file is fed to the append part by part, one for each swap, so that the append runs until the last swap is done. The rate lets
swaps fall into the middle of a part; on a slow machine they fall at its end.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.free_ports import free_ports

pytestmark = pytest.mark.processes

RATE = 25_000
SWAPS = 5
COMMAND = [sys.executable, "-P", "-m", "virtuallog_server"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Removed at once: some gigabytes for a million lines."""
    yield tmp_path
    shutil.rmtree(tmp_path)


def write_lines(path: Path, count: int) -> None:
    """Lines of many lengths, empty ones and arbitrary bytes among them."""
    chance = random.Random(2020)
    with path.open("wb") as file:
        for number in range(count):
            noise = chance.randbytes(chance.randrange(60)).replace(b"\n", b"")
            file.write(b"" if number % 97 == 0 else b"%d %s" % (number, noise))
            file.write(b"\n")


class Commands:
    """Runs `virtuallog ...` on one cluster."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.environment = {**os.environ, "VIRTUALLOG_CLUSTER": str(data / "cluster.toml")}

    def start(self, *arguments: str, **streams: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*COMMAND, *arguments], env=self.environment, **streams)

    def run(self, *arguments: str) -> Any:
        done = subprocess.run([*COMMAND, *arguments, "--json"], env=self.environment, capture_output=True, check=True)
        return json.loads(done.stdout)

    def wait_tail(self, beyond: int, job: subprocess.Popen[bytes]) -> int:
        """The tail once it is past `beyond`."""
        while (tail := int(self.run("tail")["tail"])) <= beyond:
            assert job.poll() is None, "the append has failed"
        return tail


class Feed:
    """Writes a file to a job's input part by part. The job runs until the last part, however slow the machine is."""

    def __init__(self, path: Path, parts: int, job: subprocess.Popen[bytes]) -> None:
        self.content = path.read_bytes()
        self.size = -(-len(self.content) // parts)
        self.job = job
        self.worker = ThreadPoolExecutor(1)
        self.written: list[Future[int]] = []

    def part(self) -> None:
        """Begin to write the next part; former ones may still be on their way."""
        assert self.job.stdin is not None
        begin = len(self.written) * self.size
        self.written.append(self.worker.submit(self.job.stdin.write, self.content[begin : begin + self.size]))

    def end(self) -> None:
        """Wait until all is written, and end the input."""
        assert self.job.stdin is not None
        assert sum(each.result() for each in self.written) == len(self.content)
        self.job.stdin.close()
        self.worker.shutdown()


def kill_sequencers_node(commands: Commands) -> int:
    """SIGKILL the node that orders entries; returns its id."""
    node = int(commands.run("chain")["segments"][-1]["config"]["sequencer"])
    os.kill(int((commands.data / f"node-{node}" / "pid").read_text()), signal.SIGKILL)
    return node


@pytest.mark.parametrize("lines", [300_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_a_file_survives_five_swaps_and_a_kill_byte_for_byte(folder: Path, lines: int) -> None:
    """Nothing lost, doubled or moved: `read --raw` is the file, and at least five boundaries lie inside it."""
    source, data, copy = folder / "lines", folder / "cluster", folder / "copy"
    write_lines(source, lines)
    commands = Commands(data)
    port = ("--base-port", str(free_ports()))
    up = commands.start("up", "--nodes", "3", "--data", str(data), *port, stdout=subprocess.DEVNULL)
    try:
        while not (data / "cluster.toml").exists():
            assert up.poll() is None
            time.sleep(0.05)  # noqa: TID251 -- real processes, real time
        began = time.monotonic()  # noqa: TID251
        job = commands.start(
            "append", "--lines", "-", "--rate", str(RATE), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        feed = Feed(source, SWAPS + 2, job)
        boundary = 0
        for swap in range(SWAPS):
            feed.part()
            boundary = commands.wait_tail(boundary, job)
            commands.run("reconfigure", "--to", "native", "--set", f"sequencer={swap % 3 + 1}")
        feed.part()
        dead = kill_sequencers_node(commands)
        commands.run("reconfigure", "--to", "native")
        feed.part()
        feed.end()
        assert job.wait() == 0
        seconds = time.monotonic() - began  # noqa: TID251
        with copy.open("wb") as file:
            subprocess.run([*COMMAND, "read", "--raw"], env=commands.environment, stdout=file, check=True)
        boundaries = [segment["start"] for segment in commands.run("chain")["segments"]]
    finally:
        up.send_signal(signal.SIGTERM)
        up.wait()

    print(  # noqa: T201 -- shown by pytest -s
        f"{lines} lines in {seconds:.1f} s with node {dead} killed, boundaries at {boundaries}"
    )
    assert sum(0 < boundary < lines for boundary in boundaries) >= SWAPS
    assert digest(copy) == digest(source)


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
