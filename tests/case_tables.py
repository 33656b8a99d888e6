"""Tables of Markdown that say which test is the one of a case of Mesos."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


def rows(table: Path, columns: int, *, head: str) -> list[list[str]]:
    """Rows of so many columns, without those that begin with `head`."""
    lines = [line for line in table.read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if len(row) == columns and row[0] != head]


@cache
def find_tests(file: Path) -> dict[str, str | None]:
    """Tests of a file, and their docstrings."""
    functions = [
        node for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return {node.name: ast.get_docstring(node) for node in functions if node.name.startswith("test_")}
