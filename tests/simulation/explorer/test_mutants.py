"""The explorer finds bugs: each planted one within the bounds of a named configuration, or by a directed schedule."""

from __future__ import annotations

import pytest

from tests.simulation.explorer import metastore_mutants, native_mutants, paxos_mutants, raft_mutants, registrar_mutants
from tests.simulation.explorer.mutant import SCHEDULES, ExploredMutant
from virtuallog_simulation.explorer import story
from virtuallog_simulation.explorer.configurations import CONFIGURATIONS

MUTANTS = (
    *raft_mutants.MUTANTS, *native_mutants.MUTANTS, *paxos_mutants.MUTANTS, *metastore_mutants.MUTANTS,
    *registrar_mutants.MUTANTS,
)  # fmt: skip
SEARCHED = [
    pytest.param(mutant, marks=pytest.mark.long) if mutant.is_long else mutant
    for mutant in MUTANTS
    if mutant.is_long or not mutant.schedule
]


@pytest.mark.parametrize("mutant", SEARCHED, ids=str)
def test_a_search_finds_a_planted_bug(mutant: ExploredMutant) -> None:
    """The first broken promise is the one that the bug breaks, and its story says how."""
    found = mutant.hunt()

    assert found.broken is not None and mutant.says in found.broken
    assert found.story


@pytest.mark.parametrize("mutant", [mutant for mutant in MUTANTS if mutant.schedule], ids=str)
def test_a_directed_schedule_finds_a_planted_bug(mutant: ExploredMutant) -> None:
    """A step of the schedule breaks the promise that the bug is about."""
    found = mutant.retell()

    assert found.broken is not None and mutant.says in found.broken


@pytest.mark.parametrize("mutant", [mutant for mutant in MUTANTS if mutant.schedule], ids=str)
def test_a_directed_schedule_is_harmless_by_itself(mutant: ExploredMutant) -> None:
    """Without the bug no step of the schedule breaks a promise; some may be none of the core."""
    lines = story.lines_of((SCHEDULES / f"{mutant.schedule}.txt").read_text())
    protocol = CONFIGURATIONS[mutant.configuration].make()
    taken = 0
    for count in range(1, len(lines) + 1):
        try:
            assert story.replay(protocol, lines[:count]).broken is None
        except story.NoSuchStepError:
            break
        taken = count

    assert taken > len(lines) // 3
