"""A real cluster of three processes and a console in front of it, for tests with a browser and for pictures."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs
from kazoo.client import KazooClient

from tests.console.curl import COMMAND, PATIENCE_SECONDS, console_process, until
from tests.free_ports import free_ports

NODES: Final = 3
MASK: Final = "/app/*/password"
SECRET: Final = "hunter2-of-the-mask"
"""Value below the mask."""
HOSTILE_NAME: Final = "<img src=x onerror=alert(1)>\u202etxt"
"""Name of a znode; ZooKeeper takes it."""


@attrs.frozen
class ShownCluster:
    """The processes, and what a test does to them."""

    folder: Path
    url: str
    zookeeper: int
    """Port of ZooKeeper's protocol at the first node; 0 without a database."""

    def run(self, *arguments: str) -> str:
        """Output of `virtuallog` with these arguments, for this cluster."""
        command = [*COMMAND, *arguments, "--cluster", str(self.folder / "log" / "cluster.toml")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def append(self, text: str) -> None:
        """Append an entry, as programs do."""
        self.run("append", text)

    def kill(self, node: int) -> None:
        """Kill -9."""
        os.kill(int((self.folder / "log" / f"node-{node}" / "pid").read_text().split()[0]), signal.SIGKILL)

    def write(self, path: str) -> None:
        """Make a znode."""
        with self.client() as client:
            client.create(path, b"value")

    def write_many(self, parent: str, many: int) -> None:
        """Make znodes below one, each in an entry of its own."""
        with self.client() as client:
            for number in range(many):
                client.create(f"{parent}/{number}", b"value")

    @contextmanager
    def client(self) -> Iterator[KazooClient]:
        """A client of the database."""
        client = KazooClient(f"127.0.0.1:{self.zookeeper}", timeout=PATIENCE_SECONDS)
        client.start(timeout=PATIENCE_SECONDS)
        try:
            yield client
        finally:
            client.stop()
            client.close()

    def plant(self) -> None:
        """Make znodes with values and names of all kinds."""
        with self.client() as client:
            client.ensure_path("/app/billing")
            client.create("/app/billing/password", SECRET.encode())
            client.create("/app/billing/url", b'{"host": "db.example.org", "port": 5432}')
            client.create(f"/app/{HOSTILE_NAME}", b"<script>alert(1)<")
            for number in range(120):
                client.create(f"/app/queue-{number:04d}", b"v" * number)


@contextmanager
def shown_cluster(folder: Path, *, database: bool = False) -> Iterator[ShownCluster]:
    """Start the nodes and a console in this folder; end them with the block."""
    base = free_ports(NODES)
    zookeeper = free_ports(NODES) if database else 0
    options = ["--zookeeper", str(zookeeper)] if database else []
    file = folder / "log" / "cluster.toml"
    with (folder / "up.out").open("wb") as output:
        nodes = subprocess.Popen(
            [*COMMAND, "up", "--nodes", str(NODES), "--data", str(folder / "log"), "--base-port", str(base), *options],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        until(lambda: file.exists() or nodes.poll() is not None)
        assert nodes.poll() is None, (folder / "up.out").read_text()
        with console_process(folder, "--cluster", str(file), "--mask", MASK) as url:
            yield ShownCluster(folder, url, zookeeper)
    finally:
        nodes.terminate()
        nodes.wait(PATIENCE_SECONDS)
