"""Named tests of the raft kind find bugs: each planted one fails the test for its promise, at the line that says so."""

from __future__ import annotations

import pytest

from tests.loglets.raft.planted.mutant import TestedMutant
from tests.loglets.raft.planted.mutants import MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_named_test_finds_a_planted_bug(mutant: TestedMutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that passes stands for nothing, or the planted code is no longer where it was."""
    assert mutant.says in mutant.failure(monkeypatch) != ""


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_named_test_passes_without_the_bug(mutant: TestedMutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is the bug that it finds, also when it is run from here."""
    mutant.run(monkeypatch)
