"""Rooms, names and words of the source tree: the rules of CONTRIBUTING.md that a program can check."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.source_tree import ROOT, SHIPPED, documents, modules, parsed

FOLDER_MODULES_MAX: Final = 20
FILE_LINES_MAX: Final = 450

ING: Final = frozenset({"batching", "blocking", "checkpoint_listing", "finding", "view_tracking"})
"""Modules whose names end in -ing: engines of the Delos papers, a public facade, and two nouns."""
METAPHORS: Final = frozenset({
    "agenda", "audience", "calm", "candidacy", "courier", "crew", "deputy", "errand", "ghost", "guest", "house", "hunt", "lane", "parked",
    "patience", "reign", "shelf", "stranger", "tomb",
})  # fmt: skip
"""Words that are no term of the field, in names of modules and classes."""
SHARED: Final = {
    "PlaceHold": "a request of the database's protocol, and the command on disk that it becomes",
    "Login": "a wire request of the simulated client, and the action in traces",
    "Ping": "a wire request of the simulated client, and the action in traces",
}
"""Public class names that a layer has twice, with the reason."""

OPENERS: Final = re.compile(r"(What|Who|Whose|Whom|Which|How|Whether|Where|Of|That|See above)\b")
"""First words of a docstring that does not name its subject."""
RIDDLES: Final = re.compile(r"\b(nobody|somebody|whoever|whatever|is told|his|him)\b", re.IGNORECASE)
"""Actors without a name. The field says client, caller, peer, replica or operator."""


@pytest.mark.parametrize("folders", [SHIPPED, ("tests",)], ids=["product", "tests"])
def test_a_folder_can_be_read_at_a_glance(folders: tuple[str, ...]) -> None:
    """At most twenty modules side by side, and a file of at most 450 lines."""
    counted = Counter(module.parent for module in modules(*folders))
    long = [
        str(module) for module in modules(*folders) if len((ROOT / module).read_text().splitlines()) > FILE_LINES_MAX
    ]

    assert [str(folder) for folder, count in counted.items() if count > FOLDER_MODULES_MAX] == []
    assert long == []


def test_modules_are_nouns() -> None:
    """A module is called after what it holds: no -ing form and no metaphor."""
    names = {module.stem: module for module in modules(*SHIPPED)} | {
        module.parent.name: module for module in modules(*SHIPPED)
    }
    wrong = [
        str(module) for name, module in names.items()
        if (name.endswith("ing") and name not in ING | {"testing", "healing"}) or METAPHORS & {*name.split("_")}
    ]  # fmt: skip

    assert wrong == []


def test_class_names_are_unique_in_a_layer() -> None:
    """A search for a public class finds one definition in each package, and its name is no metaphor."""
    for package in SHIPPED:
        where: dict[str, list[Path]] = defaultdict(list)
        for module in modules(package):
            for node in parsed(module).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    where[node.name].append(module)
        assert {name: found for name, found in where.items() if len(found) > 1 and name not in SHARED} == {}
        words = {name: {word.lower() for word in re.findall(r"[A-Z][a-z]*", name)} for name in where}
        assert [name for name, found in words.items() if found & METAPHORS] == []


def test_docstrings_name_their_subject() -> None:
    """A first line stands alone in a search result: a noun phrase or an imperative."""
    found = [
        f"{module}:{line} {text[:60]}"
        for module in modules(*SHIPPED)
        for line, text in _docstrings(module)
        if OPENERS.match(text)
    ]

    assert len(found) <= OPENERS_LEFT, "\n".join(found)


@pytest.mark.parametrize("part", ["product", "tests", "docs"])
def test_riddles_become_fewer(part: str) -> None:
    """The number of words for actors without a name may fall and not rise; set the limit to the new number then. Messages and
    names of tests count too."""
    files = documents() if part == "docs" else modules(*(SHIPPED if part == "product" else ("tests",)))

    assert sum(len(RIDDLES.findall((ROOT / file).read_text())) for file in files) <= RIDDLES_LEFT[part]


OPENERS_LEFT: Final = 5
RIDDLES_LEFT: Final = {"product": 60, "tests": 28, "docs": 54}
"""Half of them are in names of crash points, which seed the faults of a run: a new name is another run."""


def _docstrings(module: Path) -> Iterator[tuple[int, str]]:
    """Docstrings, and bare strings under attributes, with their lines."""
    for node in ast.walk(parsed(module)):
        for statement in getattr(node, "body", []) if isinstance(getattr(node, "body", None), list) else []:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                text = statement.value.value
                if isinstance(text, str):
                    yield statement.lineno, text.strip()
