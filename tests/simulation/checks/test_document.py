"""docs/reference/promises.md lists every check, by the name that a failing seed shows, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
SIMULATION = ROOT / "simulation" / "virtuallog_simulation"
ABOUT_RUNS = {"comes to an end", "no unexpected error", "progress"}
"""Violations found by the runner of a story, not by a check."""


def names_in_code() -> set[str]:
    """Names of the checks in code: the words that begin a violation, or a constant just before it."""
    folders = (SIMULATION / "checks", SIMULATION / "workload" / "database", ROOT / "virtuallog" / "testing")
    database = SIMULATION / "scenarios" / "database"
    others = [SIMULATION / "world" / "stop_reasons.py", database / "lag.py", database / "witness.py"]
    sources = [*(source for folder in folders for source in folder.rglob("*.py")), *others]
    return {name for source in sources for name in _names(ast.parse(source.read_text()))}


def names_in_simulation() -> set[str]:
    """All of the simulator's: stories and the world judge by themselves, too, which the table may explain."""
    sources = SIMULATION.rglob("*.py")
    return {name for source in sources for name in _names(ast.parse(source.read_text()))}


def _names(tree: ast.Module) -> Iterator[str]:
    constants = {
        node.target.id: node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Name(id="Violation") | ast.Attribute(attr="broken" | "_object" | "object"), args=[first, *_]
            ):
                yield from _texts(constants.get(first.id, first) if isinstance(first, ast.Name) else first)
            case ast.AnnAssign(target=ast.Name(id="CHECK"), value=ast.Constant() as value):
                yield from _texts(value)
            case ast.Assign(targets=[ast.Name(id="check")], value=value):
                yield from _texts(value)
            case ast.FunctionDef(name="_passed"):
                for returned in ast.walk(node):
                    if isinstance(returned, ast.Return) and returned.value is not None:
                        yield from _texts(returned.value)
            case _:
                pass


def _texts(node: ast.expr) -> Iterator[str]:
    """Texts of a string, or of either side of a conditional expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from (*_texts(node.body), *_texts(node.orelse))


def tables() -> tuple[set[str], set[str]]:
    """The names that are explained, and those that stand for an invariant."""
    explained, standing = (ROOT / "docs/reference/promises.md").read_text().split("| invariant | checks |")
    standing = standing.partition("\n## ")[0]  # what follows is for users of the database
    return _cells(re.findall(r"^\| (.*?) \|", explained, re.MULTILINE)), _cells(
        re.sub(r"\(.*?\)|[:;].*", "", cell) for cell in re.findall(r"\| ([^|]*) \|$", standing, re.MULTILINE)
    )


def _cells(cells: Iterable[str]) -> set[str]:
    """The names in cells that list some."""
    return {name.strip() for cell in cells for name in cell.split(",")}


def test_every_check_is_explained() -> None:
    """The table explains every check to a reader with a failing seed."""
    explained, _ = tables()

    text = (ROOT / "docs/reference/promises.md").read_text()
    assert {name for name in names_in_code() | ABOUT_RUNS if name not in text} == set()
    assert explained - {"check", "---"} <= names_in_code() | names_in_simulation() | ABOUT_RUNS


def test_every_invariant_names_checks_that_exist() -> None:
    """Every invariant names a check that the table explains."""
    explained, standing = tables()

    assert standing - explained == set()
