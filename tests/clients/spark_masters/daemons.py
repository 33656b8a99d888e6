"""Spark's own processes on loopback: masters that elect one of them through ZooKeeper, a worker, an application.

They are those of the installed PySpark, whose jars contain Curator and ZooKeeper's Java client.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import pyspark

from tests.clients.process_trees import kill_tree
from tests.clients.spark_masters import application
from tests.free_ports import free_ports
from virtuallog_server.local_cluster.layout import HOST

HOME: Final = Path(pyspark.__file__).parent
LAUNCHER: Final = str(HOME / "bin" / "spark-class")
"""Ends as the Java machine that it starts: it is that process."""
DEPLOY: Final = "org.apache.spark.deploy"
ANSWER_SECONDS: Final = 5.0
ELECTED: Final = "I have been elected leader"
REVOKED: Final = "Leadership has been revoked"
"""Lines of a master's log. One that loses its connection to ZooKeeper ends itself."""


@attrs.define(eq=False)
class Daemon:
    """One process, which may be killed and started again."""

    folder: Path
    name: str
    command: Sequence[str]
    environment: dict[str, str]
    starts: int = attrs.field(default=0, init=False)
    """Times that it was started."""
    _process: subprocess.Popen[bytes] | None = attrs.field(default=None, init=False)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        self.starts += 1
        with self.log_file.open("ab") as output:
            self._process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                env={**os.environ, **self.environment, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": HOST},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def exit_code(self) -> int | None:
        """None while it runs."""
        return None if self._process is None else self._process.poll()

    def kill(self) -> None:
        """Kill it and all that it has started with `kill -9`."""
        process, self._process = self._process, None
        if process is not None:
            kill_tree(process.pid)
            process.wait()

    @property
    def log_file(self) -> Path:
        return self.folder / f"{self.name}.log"

    def logged(self, line: str) -> int:
        """Number of lines of its log with this text."""
        return self.log_file.read_text(errors="replace").count(line)


@attrs.define(eq=False)
class Master(Daemon):
    """A master. Exactly one of them is ALIVE at a time, the others are STANDBY."""

    port: int
    page_port: int

    def page(self) -> dict[str, Any]:
        """Status page of the daemon: its state, workers and applications. Empty if it does not answer."""
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self.page_port}/json/", timeout=ANSWER_SECONDS) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except OSError:
            return {}


@attrs.frozen(eq=False)
class Daemons:
    """All of them; none has been started."""

    masters: Sequence[Master]
    worker: Daemon
    application: Daemon
    progress: Path
    """The application writes the time of each job's end."""
    stop: Path
    """The application ends once this file is there."""

    @property
    def job_ends(self) -> list[float]:
        """Times at which jobs of the application have ended, on the clock of `time.monotonic`."""
        text = self.progress.read_text() if self.progress.exists() else ""
        return [float(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


@contextmanager
def open_daemons(folder: Path, zookeeper: str) -> Iterator[Daemons]:
    """Kill, with the block, what was started in it.

    Args:
        zookeeper: connection string of its servers.
    """
    port = free_ports(6)
    masters = [_master(folder, number, port + number, port + 2 + number, zookeeper) for number in range(2)]
    url = "spark://" + ",".join(f"{HOST}:{master.port}" for master in masters)
    options = ("--host", HOST, "--port", str(port + 4), "--webui-port", str(port + 5), "--cores", "2", "--memory", "1g")
    work = ("--work-dir", str(folder / "work"))
    worker = Daemon(folder, "worker", (LAUNCHER, f"{DEPLOY}.worker.Worker", *options, *work, url), _java())
    progress, stop = folder / "progress", folder / "stop"
    arguments = (url, str(progress), str(stop))
    program = Daemon(
        folder,
        "application",
        (sys.executable, str(application.__file__), *arguments),
        {"PYSPARK_PYTHON": sys.executable},
    )
    daemons = Daemons(masters, worker, program, progress, stop)
    try:
        yield daemons
    finally:
        for daemon in (program, worker, *masters):
            daemon.kill()


def _master(folder: Path, number: int, port: int, page_port: int, zookeeper: str) -> Master:
    settings = {"recoveryMode": "ZOOKEEPER", "zookeeper.url": zookeeper, "zookeeper.dir": "/spark"}
    options = ("--host", HOST, "--port", str(port), "--webui-port", str(page_port))
    environment = _java(
        *(f"-Dspark.deploy.{name}={value}" for name, value in settings.items()), "-Dspark.master.rest.enabled=false"
    )
    command = (LAUNCHER, f"{DEPLOY}.master.Master", *options)
    return Master(folder, f"master-{number}", command, environment, port, page_port)


def _java(*options: str) -> dict[str, str]:
    return {
        "SPARK_DAEMON_JAVA_OPTS": " ".join(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *options]),
        "SPARK_DAEMON_MEMORY": "256m",
    }
