"""An operator: real nodes on this machine, and the commands of docs/howto/operate.md against them.

Nodes are processes, as `up` and `serve` start them. The commands run in this process, since each would need most of a second to begin.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
from click.testing import CliRunner

from tests.free_ports import free_ports
from virtuallog_server.cli.program import main
from virtuallog_server.storage import pid_file

PATIENCE_SECONDS = 120
COMMAND = (sys.executable, "-P", "-m", "virtuallog_server")


@attrs.define
class Operator:
    """Use `operating`."""

    folder: Path
    """DIR of the page; what the operator makes beside it is in its parent."""
    up: subprocess.Popen[str] | None = None
    by_hand: dict[int, subprocess.Popen[str]] = attrs.field(factory=dict)
    """Nodes that were started with `serve`."""
    ports: int = attrs.field(factory=lambda: free_ports(9))
    """The first of nine that are free."""

    @property
    def cluster(self) -> Path:
        return self.folder / "cluster.toml"

    def data(self, node: int) -> Path:
        return self.folder / f"node-{node}"

    def start_up(self, command: str) -> None:
        """`virtuallog up ...` in a terminal of its own, once the cluster answers."""
        self.up = self._begin(command, "up")
        self.until(self.cluster.exists, "cluster.toml is there")

    def serve(self, node: int, command: str) -> None:
        """`virtuallog serve ...`, likewise; returns at once."""
        self.by_hand[node] = self._begin(command, f"serve-{node}")

    def restart(self, node: int) -> None:
        """Start `virtuallog serve --config` by hand, as the page says."""
        self.serve(node, f"virtuallog serve --config {self.data(node)}/node.toml")

    def said(self, name: str = "up") -> str:
        """Output of `up` or `serve-N` so far."""
        return (self.folder.parent / f"{name}.out").read_text()

    def kill(self, node: int, number: signal.Signals = signal.SIGKILL) -> None:
        """By the pid in the file, as scripts do; returns once the process is gone."""
        pid = pid_file.find(self.data(node))
        assert pid is not None, f"node {node} runs, and has a pid file"
        os.kill(pid, number)
        started = self.by_hand.pop(node, None)
        if started is not None:
            started.wait(PATIENCE_SECONDS)
        else:
            self.until(lambda: pid_file.read(self.data(node)) != pid, f"the pid file of node {node} is gone")

    def run(self, command: str, code: int = 0) -> str:
        """Output of the command, errors included; it must end with this code."""
        program, *arguments = shlex.split(command)
        assert program == "virtuallog"
        done = CliRunner().invoke(main, arguments, env={"VIRTUALLOG_CLUSTER": str(self.cluster)})
        assert done.exit_code == code, f"{command} ended with {done.exit_code}:\n{done.output}"
        return done.output

    def json(self, command: str, code: int = 0) -> Any:
        """The JSON that it prints with `--json`."""
        return json.loads(self.run(f"{command} --json", code))

    def wait_well(self) -> None:
        """Wait until `status`, `explain` and `database status` have no objection."""
        for command in ("virtuallog status", "virtuallog explain", "virtuallog database status"):
            self.wait_code(command, 0)

    def wait_code(self, command: str, code: int) -> str:
        """Repeat the command until it ends with this code, and return its output."""
        last = ""

        def ends() -> bool:
            nonlocal last
            try:
                last = self.run(command, code)
            except AssertionError as error:
                last = str(error)
                return False
            return True

        self.until(ends, f"{command} ends with {code}", lambda: last)
        return last

    def until(self, condition: Callable[[], bool], words: str, more: Callable[[], str] = str) -> None:
        for _ in range(PATIENCE_SECONDS * 10):
            if condition():
                return
            assert self.up is None or self.up.poll() is None, f"up has ended: {self.said()}"
            time.sleep(0.1)  # noqa: TID251 -- real time, of processes
        raise AssertionError(f"waited in vain until {words}; {more()}")

    def ask(self, port: int, word: str) -> str:
        """Send a four-letter word to a port of ZooKeeper's; return the answer, empty if the port does not answer."""
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
                connection.sendall(word.encode())
                return connection.recv(1 << 16).decode()
        except OSError:
            return ""

    def end(self) -> None:
        for process in [*self.by_hand.values(), *([self.up] if self.up else [])]:
            process.terminate()
            process.wait(PATIENCE_SECONDS)

    def _begin(self, command: str, name: str) -> subprocess.Popen[str]:
        program, *arguments = shlex.split(command)
        assert program == "virtuallog"
        with (self.folder.parent / f"{name}.out").open("w") as out:
            return subprocess.Popen([*COMMAND, *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=out, text=True)


@contextmanager
def operating(folder: Path) -> Iterator[Operator]:
    """An operator in an empty folder; what was started is ended, and shown if the test fails."""
    operator = Operator(folder / "cluster")
    try:
        yield operator
    finally:
        operator.end()
        for log in sorted(folder.rglob("*.out")) + sorted(folder.rglob("node-*/log")):
            sys.stderr.write(f"--- {log.parent.name}/{log.name}\n{log.read_text()[-2500:]}")
