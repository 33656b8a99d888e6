"""The simulator finds bugs: each planted one within a stated number of seeds, by a check for the promise it breaks.

A test here fails when the simulator has gone blind, or when the planted code no longer is where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simulation.runner import run_seed
from tests.mutants.catalogue import MUTANTS, hunt
from tests.mutants.mutant import Mutant

DOCUMENT = Path(__file__).parents[2] / "docs" / "testing.md"
CLEAN_SEEDS = 8
"""Of each scenario; of the dear `cluster`, whose seeds others run by the thousand, fewer."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_planted_bug_is_found(mutant: Mutant, record_property: Callable[[str, object], None]) -> None:
    """One that is not found means that no check, or no workload, stands for the promise."""
    found = hunt(mutant)

    assert found is not None, f"{mutant.about} Not found within {mutant.within} seeds."
    record_property("found with seed", found.seed)


@pytest.mark.parametrize("scenario", sorted({mutant.scenario for mutant in MUTANTS}))
def test_without_a_planted_bug_there_is_nothing_to_find(scenario: str) -> None:
    """What is found is the bug."""
    for seed in range(1, 3 if scenario == "cluster" else CLEAN_SEEDS + 1):
        assert run_seed(seed, scenario).violations == ()


def test_names_are_not_used_twice() -> None:
    """The table names each bug once."""
    names = [mutant.name for mutant in MUTANTS]

    assert len(set(names)) == len(names)


def test_the_document_lists_all_planted_bugs() -> None:
    """docs/testing.md, section "Planted bugs": the output of `python -m tests.mutants`."""
    section = DOCUMENT.read_text().partition("## Planted bugs")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| ") and not line.startswith("| bug")]

    assert [row[1].strip() for row in rows] == [mutant.name for mutant in MUTANTS]


def test_a_bug_that_is_planted_nowhere_is_refused() -> None:
    """A renamed function must not turn a planted bug into a test of nothing."""
    with pytest.raises(LookupError, match="no_such"):
        run_seed(1, "weak-seal", {"virtuallog.testing.weak_seal:WeakSealLoglet.no_such": None})
