"""The README is run, as somebody would paste it: its shell commands in order, then its Python example.

Blocks marked `sh` and `python` are run, `text` blocks are what the commands before them print. The `make` commands are
not run here: whoever runs this test has. The nodes listen on free ports, as this machine may run a cluster already.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import attrs
import pytest

from tests.source_tree import ROOT

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PATIENCE_SECONDS = 120
"""For a machine that is busy with other things; the commands take a few seconds."""

pytestmark = pytest.mark.processes


@attrs.frozen
class Block:
    kind: str
    text: str


def blocks() -> list[Block]:
    found = [Block(*match.groups()) for match in BLOCK.finditer((ROOT / "README.md").read_text())]
    return [block for block in found if not block.text.startswith(("make ", "git "))]


@attrs.frozen
class Shell:
    """A terminal in an empty folder, with `virtuallog` on its path."""

    folder: Path
    environment: dict[str, str]

    def run(self, script: str) -> str:
        """What `script` prints; fails at its first command that fails. What it exports is there for the next one."""
        session = f"touch exports; . ./exports\n{script}\nexport -p >exports"
        command = ["bash", "-euo", "pipefail", "-c", session]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False,
            timeout=PATIENCE_SECONDS, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def free_ports(count: int) -> int:
    """The first of `count` adjacent ports that nobody listens on, outside the range that systems hand out."""
    for first in range(20_000, 30_000, count):
        with ExitStack() as sockets:
            try:
                for port in range(first, first + count):
                    sockets.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return first
    raise AssertionError("no free ports")


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A shell beside a cluster that the README's own `virtuallog up` runs."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    shell = Shell(tmp_path, environment)
    (up,) = (block.text for block in blocks() if block.text.startswith("virtuallog up"))
    with (tmp_path / "up.log").open("wb") as log:
        cluster = subprocess.Popen(
            ["bash", "-c", f"exec {up.strip()} --base-port {free_ports(3)}"],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        shell.run("until [ -e cluster/cluster.toml ]; do sleep 0.1; done")
        yield shell
    finally:
        cluster.terminate()
        assert cluster.wait(PATIENCE_SECONDS) in {0, -15}


def test_readme_does_what_it_says(shell: Shell) -> None:
    """Three nodes, appends, a live swap, and everything appended is still there; then the same from Python."""
    steps = [block for block in blocks() if not block.text.startswith("virtuallog up")]
    printed = ""
    for block in steps:
        if block.kind == "sh":
            printed = shell.run(block.text)
        elif block.kind == "python":
            (shell.folder / "example.py").write_text(block.text)
            printed = shell.run(f"{sys.executable} example.py")
        elif block.kind == "text":
            assert printed.endswith(block.text)

    assert [block.kind for block in steps] == ["sh", "text", "python", "text", "sh", "text", "sh", "text"]
