"""docs/howto/write-a-loglet.md: its code is that of the examples, its reports are those that the kit prints, its table is whole.

What depends on chance is not compared: numbers, times and sessions change whenever a message more or less is sent. To
bring a report up to date, run the command that stands above it, in examples/.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner

from virtuallog.testing.loglet_suite import CLAUSES, RESTART_CLAUSES
from virtuallog_simulation.conformance.cli import conformance
from virtuallog_simulation.conformance.report import PROMISES

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
PAGE = (ROOT / "docs/howto/write-a-loglet.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PYTHON = [text for language, text in BLOCKS if language == "python"]
REPORTS = [text for language, text in BLOCKS if not language and text.startswith("$ virtuallog conformance")]
PROGRAM = [text for text in PYTHON if "import " in text]
ELIDED = "..."


def printed(command: str) -> list[str]:
    name, subcommand, *arguments = shlex.split(command.removeprefix("$ "))
    assert (name, subcommand) == ("virtuallog", "conformance")
    return CliRunner().invoke(conformance, arguments).stdout.splitlines()


def row(line: str) -> tuple[str, ...]:
    """A line without what depends on chance."""
    words = re.sub(r"[0-9a-f]{4,}|\d+", "0", line).split()
    return tuple("struck" if word == "never" else word for word in words if word not in {"0", ">"})


def test_the_code_is_that_of_the_examples() -> None:
    """Every block that is not a program of its own stands in one of the files, as it is."""
    files = "\n".join(path.read_text() for path in sorted(EXAMPLES.rglob("*.py")))
    excerpts = [text for text in PYTHON if text not in PROGRAM]

    assert len(excerpts) >= 4
    for text in excerpts:
        assert text in files


@pytest.mark.slow
def test_the_report_of_the_toy_is_as_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row that is shown is printed, and nothing is broken in those that are left out."""
    monkeypatch.chdir(EXAMPLES)
    command, *shown = REPORTS[0].splitlines()

    lines = printed(command)

    names = {line.split("  ")[0].strip() for line in lines}
    for line in shown:
        assert line.strip() == ELIDED or not row(line) or line.split("  ")[0].strip() in names, line
    assert row(lines[-1]) == row(shown[-1])
    assert not any(re.search(r"BROKEN|seed \d", line) for line in lines)


@pytest.mark.slow
def test_the_report_of_the_broken_toy_is_as_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken clause, its seed, the story of it and the verdict."""
    monkeypatch.chdir(EXAMPLES)
    command, *shown = REPORTS[1].splitlines()

    lines = printed(command)

    until = next(index for index, line in enumerate(shown) if line.startswith("replay"))
    told = [line for line in shown[:until] if " reply " not in line and " request " not in line]
    printed_rows = {row(line) for line in lines}
    assert [line for line in told if row(line) not in printed_rows and not line.startswith(" blackout")] == []
    assert any(line.split()[:1] == ["blackout"] and "seed" in line for line in lines)
    assert row(lines[-1]) == row(shown[-1])


def test_the_page_names_every_clause_and_every_column() -> None:
    """No promise without a row, and no row that asks for what is not there."""
    table = PAGE[PAGE.index("| promise | clause | column |") :]
    clauses = {clause.__name__ for clause in (*CLAUSES, *RESTART_CLAUSES)}

    assert (
        set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", table.partition("\n\n")[0])) - {"expected_tail", "wait_tail"}
        == clauses
    )
    assert set(re.findall(r"^\| (\w+) \| (?:an|a|no|the) ", PAGE, re.MULTILINE)) >= {*PROMISES, "errors"}


async def test_the_program_keeps_every_clause(nursery: trio.Nursery, autojump_clock: trio.testing.MockClock) -> None:
    """A copied test gets one test for each clause, and with the memory loglet all of them pass."""
    (program,) = PROGRAM
    names: dict[str, Any] = {}
    exec(compile(program, "docs/howto/write-a-loglet.md", "exec"), names)

    for clause in names["CLAUSES"]:
        await names["test_clause"](clause, nursery, autojump_clock)
