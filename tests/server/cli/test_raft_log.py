"""`virtuallog raft-log`, as its manual tells it: docs/howto/raft-log.md is run, block by block."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result

from tests.free_ports import free_ports
from tests.server.cli.test_paxos_log import BLOCK, FIGURE, Shell
from tests.source_tree import ROOT
from virtuallog_server.cli import main

DOCUMENT: Final = (ROOT / "docs/howto/raft-log.md").read_text()
COMMANDS: Final = [
    "initialize",
    "replica",
    "append",
    "read",
    "trim",
    "status",
    "add",
    "remove",
    "transfer",
    "benchmark",
]
ADDRESS: Final = "127.0.0.1:5051"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["raft-log", *arguments])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_teaches_by_example(name: str) -> None:
    """--help of each shows how it is called; the manual lists it."""
    result = run(name, "--help")

    assert result.exit_code == 0
    assert re.search("Examples?:", result.output)
    assert f"virtuallog raft-log {name}" in result.output
    assert re.search(rf"^    virtuallog raft-log {name} ", DOCUMENT, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["status"], "--path"),
        (["read"], "--path"),
        (["read", "--path", "{}", "--peers", ADDRESS], "either"),
        (["read", "--path", "{}", "--linearizable"], "go with --peers"),
        (["read", "--path", "{}", "--from", "4", "--to", "2"], "--to 2 is below --from 4: the range is reversed"),
        (["read", "--path", "{}/missing"], "does not exist"),
        (["initialize", "--path", "{}/one"], "--listen"),
        (["append", "--peers", ADDRESS], "PAYLOAD or --lines"),
        (["remove", "--peers", ADDRESS], "STORE"),
        (["trim", "-1", "--peers", ADDRESS], "-1"),
        (["trim", "--peers", ADDRESS], "OFFSET"),
        (["transfer", "x", "--peers", ADDRESS], "STORE"),
        (["add", "1@host:1"], "--peers"),
        (["append", "x", "--peers", ADDRESS, "--key", "k"], "go together"),
    ],
)
def test_wrong_usage_starts_nothing(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    """Exit code 2, one line, and no directory."""
    result = run(*(argument.format(tmp_path) for argument in arguments))

    assert result.exit_code == 2
    assert complaint in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["add", "127.0.0.1:5052", "--peers", ADDRESS], 1),
        (["append", "x", "--peers", "nowhere"], 1),
        (["append", "x", "--peers", "0@127.0.0.1:5051"], 1),
        (["initialize", "--path", "{}/one", "--listen", "nowhere"], 1),
        (["replica", "--path", "{}/one"], 1),
        (["status", "--path", "{}"], 1),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(tmp_path: Path, arguments: list[str], code: int) -> None:
    """Addresses and stores that cannot be, and directories that are no stores. Nothing is left behind."""
    result = run(*(argument.format(tmp_path) for argument in arguments))

    assert result.exit_code == code
    assert len(result.output.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_initialized_once(tmp_path: Path) -> None:
    """The second time the command names the store that is there. `read` and `status` tell what it has: nothing."""
    path = str(tmp_path / "one")
    first = json.loads(run("initialize", "--path", path, "--listen", ADDRESS, "--json").output)
    assert (first["path"], first["address"], first["founds"]) == (path, ADDRESS, True)

    again = run("initialize", "--path", path, "--listen", ADDRESS)

    assert again.exit_code == 1
    assert f"it is store {first['store']} of log 'log' already" in again.output
    assert run("read", "--path", path).output == ""
    (row,) = json.loads(run("status", "--path", path, "--json").output)["stores"]
    assert (row["store"], row["kind"], row["role"], row["last"]) == (first["store"], "VOTER", "stopped", 0)
    assert "VOTER  stopped" in run("status", "--path", path).output


def test_a_store_that_joins_is_no_member(tmp_path: Path) -> None:
    """Before a log has added it."""
    path = str(tmp_path / "one")
    assert "can be added to log 'log'" in run("initialize", "--path", path, "--listen", ADDRESS, "--join").output

    (row,) = json.loads(run("status", "--path", path, "--json").output)["stores"]
    assert (row["kind"], row["members"]) == ("", 0)


def test_a_log_that_does_not_answer_is_unavailable() -> None:
    """Exit code 3: the same command may succeed later."""
    address = f"127.0.0.1:{free_ports(1)}"
    for arguments in (
        ["status"],
        ["append", "x"],
        ["read"],
        ["trim", "7"],
        ["remove", "7"],
        ["transfer", "7"],
        ["add", "7@host:1"],
    ):
        result = run(*arguments, "--peers", address)
        assert (result.exit_code, len(result.output.splitlines())) == (3, 1), result.output


# -- the manual -------------------------------------------------------------------------------------------------------


@pytest.mark.processes
@pytest.mark.long
def test_the_session_in_the_manual_prints_what_it_shows(tmp_path: Path) -> None:
    """Each block of commands prints what stands below it, but for times and numbers of stores."""
    blocks = [match.groups() for match in BLOCK.finditer(DOCUMENT)]
    pairs = [(one, two) for (kind, one), (_, two) in pairwise(blocks) if kind == "sh"]
    port, shell = free_ports(3), Shell(tmp_path)
    for commands, expected in pairs:
        output = shell.run(re.sub(r":505([123])", lambda found: f":{port + int(found[1]) - 1}", commands))
        output = re.sub(rf":({port}|{port + 1}|{port + 2})\b", lambda found: f":{5051 + int(found[1]) - port}", output)
        assert FIGURE.sub("N", output) == FIGURE.sub("N", expected)

    assert len(pairs) == 2


def test_the_program_in_the_manual_of_the_raft_log_is_the_example() -> None:
    """The manual prints examples/raft_log.py."""
    (program,) = (text for kind, text in BLOCK.findall(DOCUMENT) if kind == "python")

    assert program == (ROOT / "examples" / "raft_log.py").read_text()


@pytest.mark.processes
def test_the_example_of_the_raft_log_runs(tmp_path: Path) -> None:
    """`examples/raft_log.py`, again and again: it finds what it wrote, and trims when there are two."""
    command = [sys.executable, str(ROOT / "examples/raft_log.py"), str(tmp_path / "log")]
    outputs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(3)]

    assert [len(output.splitlines()) for output in outputs] == [1, 2, 2]
    assert outputs[2].startswith("1  ")
