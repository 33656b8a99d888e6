"""The simulator finds bugs: each planted one within a stated number of seeds, by a check for the promise it breaks.

A test here fails when the simulator has gone blind, or when the planted code no longer is where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.mutants.catalogue import MUTANTS, hunt
from tests.mutants.mutant import Mutant
from virtuallog_simulation.runs.runner import run_seed

DOCUMENT = Path(__file__).parents[2] / "docs/internals/testing.md"
CLEAN_SEEDS = 8
"""Of each scenario."""
DEAR: Final = frozenset({"cluster", "comeback", "intruders", "mixed", "rights", "striped", "zelos"})
"""Scenarios of which a seed takes a second or more: two seeds, as soaks run them by the thousand."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_planted_bug_is_found(mutant: Mutant, record_property: Callable[[str, object], None]) -> None:
    """One that is not found means that no check, or no workload, stands for the promise. The seed in the document is tried first."""
    found = hunt(mutant, [int(row[5]) for row in _rows() if row[1].strip() == mutant.name])

    assert found is not None, f"{mutant.about} Not found within {mutant.within} seeds."
    record_property("found with seed", found.seed)


@pytest.mark.parametrize("scenario", sorted({mutant.scenario for mutant in MUTANTS}))
def test_without_a_planted_bug_there_is_nothing_to_find(scenario: str) -> None:
    """What is found is the bug."""
    for seed in range(1, 3 if scenario in DEAR else CLEAN_SEEDS + 1):
        assert run_seed(seed, scenario).violations == ()


def test_names_are_not_used_twice() -> None:
    """The table names each bug once."""
    names = [mutant.name for mutant in MUTANTS]

    assert len(set(names)) == len(names)


def test_the_document_lists_all_planted_bugs() -> None:
    """docs/internals/testing.md, section "Planted bugs": the output of `python -m tests.mutants`."""
    assert [row[1].strip() for row in _rows()] == [mutant.name for mutant in MUTANTS]


def _rows() -> list[list[str]]:
    """Of the table of planted bugs."""
    section = DOCUMENT.read_text().partition("## Planted bugs")[2].partition("\n## ")[0]
    return [line.split("|") for line in section.splitlines() if line.startswith("| ") and not line.startswith("| bug")]


def test_a_bug_that_is_planted_nowhere_is_refused() -> None:
    """A renamed function must not turn a planted bug into a test of nothing."""
    with pytest.raises(LookupError, match="no_such"):
        run_seed(1, "weak-seal", {"virtuallog.testing.weak_seal:WeakSealLoglet.no_such": None})
