"""The simulator finds bugs: each planted one within a stated number of seeds, by a check for the promise it breaks.

A test here fails when the simulator has gone blind, or when the planted code no longer is where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.planted_bugs.catalogue import MUTANTS, hunt
from tests.planted_bugs.mutant import Mutant
from virtuallog_simulation.runs.runner import run_seed

DOCUMENT = Path(__file__).parents[2] / "docs" / "internals" / "testing.md"
LONG: Final = frozenset(
    {
        "a delete is not told to who watches the parent",
        "a deletion is judged by the parent",
        "a drain does not see the open segment",
        "a lease is ended in spite of a renewal",
        "a new directory has what the former had",
        "a node is removed that has a seat or copies",
        "a replacement is complete when the node answers",
        "a suspended holder trusts its monotonic clock",
        "another loglet is kept",
        "apply counts what this process has applied",
        "archive reads past its stop",
        "assertion of a log server fails",
        "attempts are not counted",
        "batches of a session in any order",
        "calls to the own node are not checked",
        "chain put without an expected version",
        "copy that ends one place early",
        "cursor outside of the transaction",
        "database opens in new directories only",
        "drained nodes count as free for seats",
        "drift of the holder is added",
        "ephemerals outlive their session",
        "events come one command late",
        "frozen reader",
        "holder trusts a wall clock that is set back",
        "holds hold nothing",
        "ignored counts as accepted",
        "index without the last wave",
        "lease is counted from the answer",
        "loser builds on the winner without a seal",
        "manifest before its files",
        "members that are not changed",
        "moved loglet forgotten",
        "nodes do not know the stripes",
        "only one stripe is sealed",
        "only the first stripe is copied",
        "only the last change of a transaction is told",
        "others count from the first grant",
        "others end a lease early",
        "pings are told to nobody",
        "reads beside the holder do not wait for it",
        "reads do not count what they look at",
        "rebuild put before the copy is complete",
        "reliance ends when it is looked at",
        "rights are those of the newest state",
        "roles are what the config says",
        "seal is checked before the slot is created",
        "sealed tails count as filled",
        "servers that are down count as holders",
        "sessions are given half their time",
        "sessions of others are left to them",
        "silence lasts half as long",
        "snapshots are told before they are durable",
        "stripes copied up to an even share",
        "tail behind the holes",
        "the guard counts from the next version on",
        "the guard is put and nothing is sealed",
        "trims to its own snapshot",
        "trims to the newest snapshot",
        "watches ask for no right",
        "watches fire for ever",
        "wave stored behind a hole",
        "what a lagging node knows is believed",
        "what was missed is not told",
        "who waited for the holder is told in between",
        "writes behind a read are not held",
    }
)
"""Bugs whose seed takes several seconds: `make long` hunts them."""


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(each, id=each.name, marks=[pytest.mark.long] if each.name in LONG else []) for each in MUTANTS],
)
def test_a_planted_bug_is_found(mutant: Mutant, record_property: Callable[[str, object], None]) -> None:
    """One that is not found means that no check, or no workload, stands for the promise. The seed in the document is tried first."""
    found = hunt(mutant, [int(row[5]) for row in _rows() if row[1].strip() == mutant.name])

    assert found is not None, f"{mutant.about} Not found within {mutant.within} seeds."
    record_property("found with seed", found.seed)


def test_names_are_not_used_twice() -> None:
    """The table names each bug once."""
    names = [mutant.name for mutant in MUTANTS]

    assert len(set(names)) == len(names)


def test_the_document_lists_all_planted_bugs() -> None:
    """docs/internals/testing.md, section "Planted bugs": the output of `python -m tests.planted_bugs`."""
    assert [row[1].strip() for row in _rows()] == [mutant.name for mutant in MUTANTS]


def _rows() -> list[list[str]]:
    """Rows of the table of planted bugs."""
    section = DOCUMENT.read_text().partition("## Planted bugs")[2].partition("\n## ")[0]
    return [line.split("|") for line in section.splitlines() if line.startswith("| ") and not line.startswith("| bug")]


def test_a_bug_that_is_planted_nowhere_is_refused() -> None:
    """A renamed function must not turn a planted bug into a test of nothing."""
    with pytest.raises(LookupError, match="no_such"):
        run_seed(1, "weak-seal", {"virtuallog.testing.weak_seal:WeakSealLoglet.no_such": None})
