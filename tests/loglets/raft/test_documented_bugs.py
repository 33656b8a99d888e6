"""The table of bugs by number names planted bugs, and what finds each."""

from __future__ import annotations

import re

from tests.loglets.raft.planted.evidence import evidence, numbers
from tests.source_tree import ROOT

PAGE = ROOT / "docs/internals/protocols/raft-bugs.md"
BUGS = 34


def planted_in(row: str) -> dict[str, str]:
    """What the last cell of a row says of each planted bug."""
    parts = re.split(r"(?:^|; )\*([^*]+)\*: ", row.rstrip("| \n").rpartition(" | ")[2])
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows() -> list[tuple[int, dict[str, str]]]:
    """Number and planted bugs of each row; 0 for a row without a number."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and "*: " in line]
    return [(int(found[1]) if (found := re.match(r"\| (\d+) \|", line)) else 0, planted_in(line)) for line in lines]


def test_table_has_each_number_once() -> None:
    """In order, each with a planted bug."""
    numbered = [(number, planted) for number, planted in rows() if number]

    assert [number for number, _ in numbered] == list(range(1, BUGS + 1))
    assert all(planted for _, planted in numbered)


def test_table_names_all_planted_bugs_of_raft_and_what_finds_them() -> None:
    """Seed, states and seconds are those of the tables that programs print. Each bug is in one row."""
    named = [(name, says) for _, planted in rows() for name, says in planted.items()]

    assert sorted(named) == sorted(evidence().items())


def test_numbers_are_those_of_the_planted_bugs() -> None:
    """A planted bug that carries a number is in that row."""
    places = {name: number for number, planted in rows() for name in planted}

    assert {name: places.get(name) for name in numbers()} == numbers()
