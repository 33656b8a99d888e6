"""docs/conformance.md is a program: it runs, and it prints what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from virtuallog.testing.loglet_suite import CLAUSES

PAGE = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text()
BLOCK = re.compile(r"^```(python|)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAM = "\n\n".join(text for language, text in BLOCK.findall(PAGE) if language == "python")
SEAL_CHECK = "        if log.sealed:\n            raise SealedError(refused=True)\n"


def output_of(program: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    exec(compile(program, "docs/conformance.md", "exec"), {"__name__": "toy"})
    return capsys.readouterr().out.splitlines()


def test_the_toy_keeps_every_clause(capsys: pytest.CaptureFixture[str]) -> None:
    """A stranger who copies the page sees one line for each clause, and none of them broken."""
    lines = output_of(PROGRAM, capsys)

    assert [line.split() for line in lines] == [["kept", clause.__name__] for clause in CLAUSES]


def test_the_toy_without_its_seal_check_is_caught_as_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    """The verdicts on the page are those that the suite gives."""
    assert PROGRAM.count(SEAL_CHECK) == 1
    shown = [line for _, text in BLOCK.findall(PAGE) for line in text.splitlines() if line.startswith("BROKEN")]

    lines = output_of(PROGRAM.replace(SEAL_CHECK, ""), capsys)

    assert len(shown) == 2
    assert set(shown) <= set(lines)
