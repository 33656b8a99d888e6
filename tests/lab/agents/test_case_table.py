"""The table of README.md names every case of Mesos' state and registrar tests, and each named test exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.case_tables import find_tests, rows

ROOT = Path(__file__).parents[3]
ROWS = rows(Path(__file__).with_name("README.md"), 3, head="Mesos")
CASES = {"StateTest": 7, "LogStateTest": 2, "RegistrarTest": 24, "RegistrarZooKeeperTest": 1}


def test_every_case_of_mesos_has_a_row() -> None:
    """Those of each suite, none twice."""
    names = [row[0] for row in ROWS]

    assert len(names) == len({*names})
    assert {suite: sum(name.startswith(f"{suite}.") for name in names) for suite in CASES} == CASES


@pytest.mark.parametrize(("case", "file", "test"), [tuple(row) for row in ROWS])
def test_a_case_has_a_test(case: str, file: str, test: str) -> None:
    """Each case has an existing test with a docstring."""
    assert find_tests(ROOT / file).get(test), f"{case}: no {test} with a docstring in {file}"
