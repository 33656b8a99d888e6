"""Planted bugs of the raft kind, and what finds each, as docs/internals/protocols/raft-bugs.md writes it.

Seeds, states and seconds are those of the tables in docs/internals/testing.md and docs/internals/explorer.md, which
programs print.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.loglets.raft.planted import mutants as tested_mutants
from tests.planted_bugs.loglets import raft as simulated_mutants
from tests.simulation.explorer import raft_mutants as explored_mutants
from tests.source_tree import ROOT


def evidence() -> dict[str, str]:
    """Evidence by the name of the planted bug."""
    found = {mutant.name: f"test `{mutant.where}`" for mutant in tested_mutants.MUTANTS}
    names = {mutant.name for mutant in simulated_mutants.MUTANTS}
    for bug, _target, _published, scenario, seed, _check in _rows("testing.md", cells=6):
        if bug in names:
            found[bug] = f"seed {seed} of {scenario}"
    names = {mutant.name for mutant in explored_mutants.MUTANTS}
    for bug, _number, configuration, states, depth, seconds, _says in _rows("explorer.md", cells=7):
        if bug in names:
            what = f"schedule, {depth} steps" if states == "schedule" else f"{states} states, {seconds} s"
            found[bug] = f"{found[bug]}, or {what}" if bug in found else f"{configuration}: {what}"
    return found


def numbers() -> dict[str, int]:
    """Number in the list, by name, of those bugs that carry one."""
    found = {mutant.name: mutant.number for mutant in tested_mutants.MUTANTS}
    found |= {mutant.name: int(mutant.number) for mutant in explored_mutants.MUTANTS if mutant.number}
    return found


def _rows(page: str, cells: int) -> Iterator[list[str]]:
    """Rows with so many cells of the tables of planted bugs in docs/internals."""
    section = (ROOT / "docs/internals" / page).read_text().partition("\n## Planted bugs\n")[2].partition("\n## ")[0]
    for line in section.splitlines():
        row = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(row) == cells:
            yield row
