"""The table of tests by name leads to tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

from tests.source_tree import ROOT

PAGE = "docs/internals/protocols/raft-tests.md"
FOLDER = ROOT / "tests/loglets/raft"


BAD_INPUT = (
    "unknown peer", "wrong store", "older term", "malformed record", "disk full", "version of a newer format",
    "removal of the leader", "second change pending",
)  # fmt: skip
"""Inputs that the table of bad input has, each with its answer and a test."""


def test_each_test_in_the_table_exists() -> None:
    """Files without a folder are those of the core; those of other parts have their whole path."""
    named = re.findall(r"`((?:\w+/)*test_\w+\.py)::(test_\w+)`", (ROOT / PAGE).read_text())
    files = {name: _file_of(name) for name, _ in named}
    texts = {name: file.read_text() if file.exists() else "" for name, file in files.items()}

    assert len(named) > 80
    assert [f"{file}::{name}" for file, name in named if f"def {name}(" not in texts[file]] == []


def _file_of(name: str) -> Path:
    if name.startswith("tests/"):
        return ROOT / name
    return FOLDER / (name if "/" in name else f"core/{name}")


def test_each_bad_input_has_an_answer_and_a_test() -> None:
    """Some have several rows: what a replica answers, and what an operator or a client sees."""
    section = (ROOT / PAGE).read_text().partition("\n## Bad input\n")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in section.splitlines()
        if "`" in line and line[0] == "|"
    ]

    assert list(dict.fromkeys(row[0] for row in rows)) == list(BAD_INPUT)
    assert [row for row in rows if len(row) != 3 or not row[1] or "::test_" not in row[2]] == []


def test_table_has_each_item_once() -> None:
    """Eighty of them, in order; what does not apply says why."""
    items = re.findall(r"^\| (\d+) \|", (ROOT / PAGE).read_text(), re.MULTILINE)

    assert [int(item) for item in items] == list(range(1, 81))
