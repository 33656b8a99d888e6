"""The table of README.md names every scenario of Mesos, and each named test exists."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
CASES_OF_MESOS = 47


def _rows(columns: int) -> list[list[str]]:
    lines = (FOLDER / "README.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return [row for row in cells if len(row) == columns and row[0] not in {"Mesos", "defect"}]


def _tests_of(name: str) -> dict[str, str | None]:
    """The tests of a file, and what their docstrings say."""
    tree = ast.parse((FOLDER / name).read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {node.name: ast.get_docstring(node) for node in functions if node.name.startswith("test_")}


def test_every_case_of_mesos_has_a_line() -> None:
    """47 of them, none twice."""
    names = [row[0] for row in _rows(3)]

    assert len(names) == len(set(names)) == CASES_OF_MESOS


@pytest.mark.parametrize(("case", "file", "test"), [tuple(row) for row in _rows(3)])
def test_a_case_has_a_test(case: str, file: str, test: str) -> None:
    """Each case of Mesos has an existing test with a docstring."""
    assert _tests_of(file).get(test), f"{case}: no {test} with a docstring in {file}"


@pytest.mark.parametrize(("defect", "test"), [tuple(row) for row in _rows(2)])
def test_a_defect_has_a_test(defect: str, test: str) -> None:
    """Each defect has an existing test with a docstring."""
    assert _tests_of("test_defects.py").get(test), f"defect {defect}: no {test}"


def test_the_defects_of_the_log_are_all_there() -> None:
    """1 to 8; the later ones concern what is built on the log."""
    assert {row[0] for row in _rows(2)} >= {str(number) for number in range(1, 9)}


def test_no_test_is_missing_in_the_tables() -> None:
    """Each test here can be found by the name that Mesos gave its case."""
    listed = {(row[1], row[2]) for row in _rows(3)} | {("test_defects.py", row[1]) for row in _rows(2)}
    others = {"test_table.py"}

    for path in sorted(FOLDER.glob("test_*.py")):
        if path.name not in others:
            assert {(path.name, test) for test in _tests_of(path.name)} <= listed
