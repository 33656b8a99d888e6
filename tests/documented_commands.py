"""Runs a document as a reader would paste it: its shell commands and Python examples in order.

Blocks marked `sh` and `python` are run, `text` blocks are what the commands before them print. `make` commands are not run: the
process that runs the test has them behind it. Nodes listen on free ports, as this machine may run a cluster already.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from tests.free_ports import free_ports

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PATIENCE_SECONDS = 120
"""For a machine that is busy with other things; the commands take a few seconds."""


@attrs.frozen
class Block:
    """A fenced block of a document."""

    kind: str
    text: str


def blocks(document: Path) -> list[Block]:
    """The blocks of a document, without those for `make` and `git`."""
    found = [Block(*match.groups()) for match in BLOCK.finditer(document.read_text())]
    return [block for block in found if not block.text.startswith(("make ", "git "))]


@attrs.frozen
class Shell:
    """A terminal in an empty folder, with `virtuallog` on its path."""

    folder: Path
    environment: dict[str, str]
    _jobs: list[int] = attrs.field(factory=list, init=False)
    """Process groups of scripts that have left something in the background."""

    def run(self, script: str) -> str:
        """Output of `script`; fails at its first command that fails. The variables that it exports are there for the next one."""
        session = f"touch exports; . ./exports\n{script}\nexport -p >exports"
        command = ["bash", "-euo", "pipefail", "-c", session]
        started = subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self._jobs.append(started.pid)
        output, errors = started.communicate(timeout=PATIENCE_SECONDS)
        if not self._signal(started.pid, 0):
            self._jobs.remove(started.pid)
        assert started.returncode == 0, f"{script}\n{output}\n{errors}"
        return output

    def end(self) -> None:
        """End what is left in the background, such as by a script that has failed before the one that would end it."""
        for job in self._jobs:
            self._signal(job, signal.SIGTERM)

    def _signal(self, job: int, number: int) -> bool:
        """Send a signal to a process group. False if it is gone."""
        try:
            os.killpg(job, number)
        except ProcessLookupError:
            return False
        return True


@attrs.define
class Clusters:
    """The clusters that `virtuallog up` starts, each in a terminal of its own, on other ports than those in the document."""

    shell: Shell
    ports: dict[str, str]
    python: str
    running: list[subprocess.Popen[bytes]] = attrs.field(factory=list)

    def moved(self, text: str) -> str:
        """The text with those ports."""
        return re.sub(r"\b[0-9]{4}\b", lambda found: self.ports.get(found[0], found[0]), text)

    def up(self, command: str) -> None:
        """Start one, and return once it is ready."""
        folder = command.split("--data ")[1].split(maxsplit=1)[0]
        named = command if "--base-port" in command else f"{command} --base-port 7001"
        with (self.shell.folder / f"{folder}.log").open("wb") as log:
            started = subprocess.Popen(
                ["bash", "-c", f"exec {self.moved(named)}"],
                cwd=self.shell.folder,
                env=self.shell.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.running.append(started)
        self.shell.run(f"until [ -e {folder}/cluster.toml ]; do sleep 0.1; done")

    def down(self) -> None:
        """End them all, as Ctrl-C does."""
        for cluster in self.running:
            cluster.terminate()
        for cluster in self.running:
            assert cluster.wait(PATIENCE_SECONDS) in {0, -15}
        self.running.clear()


@contextmanager
def open_clusters(folder: Path, python: str = sys.executable) -> Iterator[Clusters]:
    """A shell, and beside it the clusters that the document's own commands start; with what is installed beside this Python."""
    environment = {**os.environ, "PATH": f"{Path(python).parent}:{os.environ['PATH']}"}
    first = free_ports(10)
    named = [*range(7001, 7004), *range(7101, 7104), *range(2181, 2184), 8090]
    ports = {str(port): str(first + number) for number, port in enumerate(named)}
    made = Clusters(Shell(folder, environment), ports, python)
    try:
        yield made
    finally:
        made.shell.end()
        made.down()


def run_document(document: Path, clusters: Clusters, then: Callable[[Block], None] = lambda _: None) -> list[str]:
    """Run all of it, and return the kinds of its blocks. `then` is called after each of them."""
    shell, printed, found = clusters.shell, "", blocks(document)
    for block in found:
        if block.text.startswith("virtuallog up"):
            clusters.up(block.text.strip())
        elif block.text.startswith("rm -r"):
            clusters.down()
            shell.run(block.text)
        elif block.kind == "sh":
            printed = shell.run(clusters.moved(block.text))
        elif block.kind == "python":
            (shell.folder / "example.py").write_text(clusters.moved(block.text))
            printed = shell.run(f"{clusters.python} example.py")
        elif block.kind == "text":
            assert printed.endswith(block.text), f"{printed}\nis not\n{block.text}"
        then(block)
    return [block.kind for block in found]
