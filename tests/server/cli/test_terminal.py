"""What a terminal has of the program: completion, the manual page, the version, colours."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.server.cli.test_help import commands
from tests.source_tree import ROOT
from virtuallog_server.cli import main

PROGRAM = Path(sys.executable).parent
BASH = """
source <(virtuallog completion bash)
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_virtuallog_completion virtuallog
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """
compdef() {{ }}
compadd() {{ while [ "$1" != -a ]; do shift; done; print -l -- ${{(P)2}} }}
_describe() {{ print -l -- ${{(P)3}} }}
source <(virtuallog completion zsh)
words=({words}); CURRENT=$#words
_virtuallog_completion
"""
FISH = "virtuallog completion fish | source; complete -C '{words}'"
SHELLS = {"bash": ["bash", "--norc", "-c"], "zsh": ["zsh", "-f", "-c"], "fish": ["fish", "--no-config", "-c"]}
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
COLOUR = re.compile(r"\x1b\[[0-9;]*(?:3[0-9]|4[0-9]|9[0-7])m")


def need(program: str) -> str:
    """The path of a program; without it the test is skipped."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def run(*command: str, **environment: str) -> str:
    """What a command prints, with the program of this environment on its path."""
    path = f"{PROGRAM}:{os.environ['PATH']}"
    done = subprocess.run(
        command, env={**os.environ, "PATH": path, **environment}, capture_output=True, text=True, check=False, timeout=60
    )  # fmt: skip
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("shell", list(SHELLS))
@pytest.mark.parametrize(
    ("words", "expected"),
    [("virtuallog reconf", {"reconfigure"}), ("virtuallog reconfigure --to pa", {"paxos"}), ("virtuallog database exp", set())],
)  # fmt: skip
def test_a_shell_completes(shell: str, words: str, expected: set[str]) -> None:
    """Commands and kinds of loglets, by the script that `virtuallog completion` prints."""
    need(shell)
    offered = run(*SHELLS[shell], SCRIPTS[shell].format(words=words))

    assert {line.split("\t")[0].split(":")[0] for line in offered.split("\n") if line.strip()} == expected


@pytest.mark.processes
def test_the_manual_page_is_whole() -> None:
    """It has all commands, and groff has nothing to complain about."""
    page = ROOT / "share" / "man" / "man1" / "virtuallog.1"
    text = run(need("groff"), "-man", "-Tutf8", "-ww", "-P-cbou", str(page))

    for path in commands(main)[1:]:
        assert " ".join(["virtuallog", *path]) in " ".join(text.split())


def test_help_has_no_marks_of_its_source() -> None:
    """Neither a `\\b` of click nor an escape that was not meant."""
    for path in commands(main):
        output = CliRunner().invoke(main, [*path, "--help"]).output
        assert "\\b" not in output and "\b" not in output, path


def test_version_tells_the_formats() -> None:
    """The first line is for scripts."""
    lines = CliRunner().invoke(main, ["--version"]).output.splitlines()

    assert re.fullmatch(r"virtuallog \d+\.\d+\.\d+", lines[0])
    assert [line.partition(":")[0] for line in lines[1:]] == ["protocol", "formats", "runs on"]


@pytest.mark.processes
def test_no_color_is_obeyed(tmp_path: Path) -> None:
    """Tables have colours on a terminal, and none with NO_COLOR."""
    cluster = tmp_path / "cluster.toml"
    cluster.write_text('[[node]]\nid = 1\naddress = "127.0.0.1:9"\n')
    ask = ("virtuallog", "status", "--cluster", str(cluster))

    assert not COLOUR.search(run(*ask, FORCE_COLOR="1", NO_COLOR="1"))


def test_commands_are_told_apart_from_typos() -> None:
    """The name of the closest command is in the message."""
    result = CliRunner().invoke(main, ["reconfigur"])

    assert result.exit_code == click.UsageError.exit_code
    assert "did you mean 'reconfigure'?" in result.stderr
