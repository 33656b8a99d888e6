"""`virtuallog paxos-log`, as its manual tells it: docs/howto/paxos-log.md is run, block by block."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Final

import attrs
import pytest
from click.testing import CliRunner, Result

from tests.free_ports import free_ports
from tests.source_tree import ROOT
from virtuallog.connect import connect
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.messages import NOWHERE, Standing, Status
from virtuallog_server.cli import main
from virtuallog_server.cli.paxos_log.replica_status import of_cluster, row_of
from virtuallog_server.local_cluster.supervisor import open_local_cluster

DOCUMENT: Final = (ROOT / "docs/howto/paxos-log.md").read_text()
BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FIGURE: Final = re.compile(r"\d+\.\d{6}|\d{15,}")
"""Times and incarnations are others each time."""
PATIENCE_SECONDS: Final = 120


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["paxos-log", *arguments], env={"VIRTUALLOG_CLUSTER": None})


@pytest.mark.parametrize("name", ["initialize", "read", "replica", "benchmark", "status"])
def test_every_command_teaches_by_example(name: str) -> None:
    """--help of each shows how it is called; the manual lists it."""
    result = run(name, "--help")

    assert result.exit_code == 0
    assert re.search("Examples?:", result.output)
    assert f"virtuallog paxos-log {name}" in result.output
    assert re.search(rf"^    virtuallog paxos-log {name} ", DOCUMENT, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["status"], "--path"),
        (["read", "--path", "{}/missing"], "does not exist"),
        (["read", "--path", "{}", "--from", "4", "--to", "2"], "--to 2 is below --from 4: the range is reversed"),
        (["replica", "--path", "{}/one"], "--quorum"),
        (["replica", "--path", "{}/one", "--quorum", "1", "--servers", "127.0.0.1:2181"], "--znode"),
    ],
)
def test_wrong_usage_starts_nothing(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    """Exit code 2, one line, and no directory."""
    result = run(*(argument.format(tmp_path) for argument in arguments))

    assert result.exit_code == 2
    assert complaint in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--quorum", "1", "--peers", "1@127.0.0.1:5051,2@127.0.0.1:5052"],
        ["--quorum", "2", "--peers", "one"],
        ["--quorum", "2", "--peers", "1@127.0.0.1:5051,1@127.0.0.1:5052"],
        ["--quorum", "1", "--listen", "10.0.0.1:5051"],
        ["--quorum", "1", "--servers", "127.0.0.1:2181", "--znode", "log"],
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, arguments: list[str]) -> None:
    """Too many peers for the quorum, two with one number, invalid addresses or addresses open to others, an invalid path.

    In a process of its own: if one of them were not refused, a replica would run, and for ever.
    """
    replica = [sys.executable, "-P", "-m", "virtuallog_server", "paxos-log", "replica", "--path", str(tmp_path / "one")]
    ended = subprocess.run(
        [*replica, *arguments], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )

    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1
    assert ended.stdout == ""


def test_a_trace_that_cannot_be_read_is_refused_before_the_log_is_opened(tmp_path: Path) -> None:
    """With the line that is wrong."""
    (tmp_path / "trace").write_text("100B\n10 potatoes\n")
    result = run("benchmark", "--quorum", "1", "--path", str(tmp_path / "one"), "--input", str(tmp_path / "trace"))

    assert result.exit_code == 1
    assert "line 2" in result.output
    assert not (tmp_path / "one").exists()


def test_only_what_knows_nothing_is_initialized(tmp_path: Path) -> None:
    """Mesos: "The log is not empty". What a reader finds in a new log is nothing."""
    path = str(tmp_path / "one")
    assert run("status", "--path", str(tmp_path), "--json").exit_code == 0  # an empty directory is an empty log
    assert run("initialize", "--path", path, "--json").output == json.dumps({"path": path, "status": "VOTING"}) + "\n"

    again = run("initialize", "--path", path)

    assert (again.exit_code, "The log is not empty" in again.output) == (1, True)
    assert run("read", "--path", path, "--json").output == '{"position": 0, "state": "missing"}\n'
    assert run("read", "--path", path, "--to", "1").exit_code == 1
    (row,) = json.loads(run("status", "--path", path, "--json").output)["replicas"]
    assert (row["status"], row["begin"], row["end"], row["seal"]) == ("VOTING", 0, 0, None)
    assert "VOTING" in run("status", "--path", path).output


def test_a_status_of_nobody_is_a_failure() -> None:
    """Exit code 3, after the rows: who asks whether replicas live must not take silence for it. Of two with one number, none is asked."""
    unreachable, twice = f"1@127.0.0.1:{free_ports(1)}", "1@127.0.0.1:5051,1@127.0.0.1:5052"
    silent = run("status", "--peers", unreachable, "--json")

    assert silent.exit_code == 3
    assert json.loads(silent.stdout)["replicas"][0]["status"] == "silent"
    assert "no replica answers" in silent.stderr
    assert run("status", "--peers", unreachable).exit_code == 3
    assert run("status", "--peers", twice).exit_code == 1


def test_a_copy_of_a_closed_log_is_whole_without_a_vote() -> None:
    """To an operator who has drained a node "EMPTY" would look like a loss."""
    copy = Standing(
        status=Status.EMPTY,
        incarnation=1,
        promised=0,
        begin=0,
        learned=4,
        end=3,
        uniform_from=4,
        uniform=NOWHERE,
        seal=3,
    )

    assert row_of({}, copy)["status"] == "whole"
    assert row_of({}, attrs.evolve(copy, seal=NOWHERE))["status"] == "EMPTY"
    assert row_of({}, attrs.evolve(copy, status=Status.VOTING))["status"] == "VOTING"


@pytest.mark.processes
async def test_the_replicas_of_a_cluster(tmp_path: Path) -> None:
    """One row for each replica of each paxos loglet in the chain, also for silent ones."""
    async with open_local_cluster(tmp_path, base_port=0, loglet="paxos") as cluster:
        await cluster.wait_ready()
        async with connect(cluster.file) as log:
            await log.append(b"hello")
        await cluster.kill(NodeId(2))
        rows = await of_cluster(cluster.file)

    assert [(row["node"], row["status"]) for row in rows] == [(1, "VOTING"), (2, "silent"), (3, "VOTING")], rows
    assert {row["segment"] for row in rows} == {rows[0]["segment"]}
    assert max(row["end"] for row in rows if "end" in row) == 1


# -- the manual -------------------------------------------------------------------------------------------------------


@attrs.frozen
class Shell:
    """A terminal in an empty folder, with `virtuallog` on its path."""

    folder: Path

    def run(self, script: str) -> str:
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        environment.pop("VIRTUALLOG_CLUSTER", None)
        shell = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-m", "-c", script], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            output, errors = shell.communicate(timeout=PATIENCE_SECONDS)
        except BaseException:
            os.killpg(shell.pid, signal.SIGKILL)
            raise
        assert shell.returncode == 0, f"{script}\n{output}\n{errors}"
        return output


@pytest.mark.processes
@pytest.mark.long
def test_the_session_in_the_manual(tmp_path: Path) -> None:
    """Each block of commands prints what stands below it, but for times and incarnations."""
    blocks = [match.groups() for match in BLOCK.finditer(DOCUMENT)]
    pairs = [(one, two) for (kind, one), (_, two) in pairwise(blocks) if kind == "sh"]
    port, shell = free_ports(3), Shell(tmp_path)
    for commands, expected in pairs:
        output = shell.run(re.sub(r":505([123])", lambda found: f":{port + int(found[1]) - 1}", commands))
        output = re.sub(rf":({port}|{port + 1}|{port + 2})\b", lambda found: f":{5051 + int(found[1]) - port}", output)
        assert FIGURE.sub("N", output) == FIGURE.sub("N", expected)

    assert len(pairs) == 3


def test_the_program_in_the_manual_is_the_example() -> None:
    """The manual prints examples/paxos_log.py, which another test runs."""
    (program,) = (text for kind, text in BLOCK.findall(DOCUMENT) if kind == "python")

    assert program == (ROOT / "examples" / "paxos_log.py").read_text()
