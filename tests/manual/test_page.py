"""Every command of docs/howto/operate.md is run by a test: those of this folder, or one that is named here."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from tests.source_tree import ROOT
from virtuallog_server.cli.program import main

PAGE: Final = (ROOT / "docs/howto/operate.md").read_text()
HERE: Final = Path(__file__).parent
ELSEWHERE: Final = {
    "archive": "tests/loglets/archive/test_processes.py",
    "bench append": "tests/lab/appends/test_appends.py",
    "bench reconfigure": "tests/lab/swaps/test_matrix.py",
    "demo": "tests/lab/test_demo.py",
    "paxos-log status": "tests/server/cli/test_paxos_log.py",
    "spark audit": "tests/spark/audit/test_audit.py",
    "spark compact": "tests/spark/compact/test_processes.py",
    "spark restore": "tests/spark/restore/test_processes.py",
}
"""Commands that tests of their own run, most of them with Spark or for long."""
OPTIONS_ELSEWHERE: Final = {
    ("up", "--restored"): "tests/spark/restore/test_processes.py",
    ("serve", "--restored"): "tests/server/config/test_config_file.py",
    ("up", "--tls"): "tests/server/local_cluster/test_tls_cluster.py",
    ("up", "--log-nodes"): "tests/server/local_cluster/test_layout.py",
    ("serve", "--console"): "tests/server/config/test_config_file.py",
    ("metastore edit", "--start-at"): "tests/metastore/test_chain_edit.py",
    ("node replace", "--address"): "tests/server/membership/test_safety.py",
    ("node add", "--roles"): "tests/server/membership/test_safety.py",
    ("append", "--lines"): "tests/server/process/test_processes.py",
    ("reconfigure", "--set"): "tests/server/process/test_processes.py",
}
SPAN: Final = re.compile(r"`([^`\n]+)`")
SECTION: Final = re.compile(r"^## (.+)$", re.MULTILINE)


def resolve(words: list[str]) -> tuple[str, list[str]] | None:
    """The command that these words call, and its options; None: none of ours."""
    context, group, path = click.Context(main), main, list[str]()
    for number, word in enumerate(words):
        command = group.get_command(context, word)
        if command is None:
            return None
        path.append(word)
        if not isinstance(command, click.Group):
            return " ".join(path), re.findall(r"--[a-z][\w-]*", " ".join(words[number + 1 :]))
        group = command  # type: ignore[assignment]
    return None


def named() -> Iterator[tuple[str, list[str]]]:
    """The commands that the page names, whether or not they begin with `virtuallog`; a single word must."""
    for section in SECTION.split(PAGE)[2::2]:
        for span in SPAN.findall(section):
            words = span.replace("[", "").replace("]", "").split()
            with_program = words[0] == "virtuallog"
            words = words[with_program:]
            if not words or (not with_program and len(words) < 2):
                continue
            found = resolve(words) or resolve(["database", *words])
            if found is not None:
                yield found


def ran() -> Iterator[tuple[str, list[str]]]:
    """Those that the tests of this folder run."""
    for test in sorted(HERE.glob("test_*.py")):
        for line in re.findall(r'"virtuallog ([^"]+)"', test.read_text()):
            found = resolve(shlex.split(line.replace("{", " ").replace("}", " ")))
            if found is not None:
                yield found


def options_of(commands: Iterator[tuple[str, list[str]]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for command, options in commands:
        found.setdefault(command, set()).update(options)
    return found


def test_every_command_of_the_page_is_run_by_a_test() -> None:
    """A command, or an option of one, that the page names and no test runs might do anything."""
    missing, tried = list[str](), options_of(ran())
    for command, options in options_of(named()).items():
        group = command.split()[0]
        if command in ELSEWHERE or group in ELSEWHERE:
            continue
        if command not in tried:
            missing.append(command)
        missing += [
            f"{command} {option}"
            for option in sorted(options - tried.get(command, set()) - {"--json"})
            if (command, option) not in OPTIONS_ELSEWHERE
        ]

    assert missing == []


def test_the_tests_elsewhere_are_there() -> None:
    """The tests named elsewhere exist, and run the commands that they are named for."""
    for command, path in ELSEWHERE.items():
        text = (ROOT / path).read_text()
        assert command.split()[-1] in text, path
    for (_, option), path in OPTIONS_ELSEWHERE.items():
        text = (ROOT / path).read_text()
        assert option in text or option.removeprefix("--").replace("-", "_") in text or option == "--restored", (
            option,
            path,
        )


def test_the_page_names_commands() -> None:
    """The search above finds what it is to find."""
    found = options_of(named())

    assert {
        "up",
        "serve",
        "status",
        "database eject",
        "node drain",
        "metastore import",
        "metastore edit",
    } <= found.keys()
    assert "--check" in found["node drain"]
