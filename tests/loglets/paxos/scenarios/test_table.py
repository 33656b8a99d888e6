"""The table of README.md names every scenario of Mesos, and each named test exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.case_tables import find_tests, rows

FOLDER = Path(__file__).parent
CASES_OF_MESOS = 47


CASES = rows(FOLDER / "README.md", 3, head="Mesos")
DEFECTS = rows(FOLDER / "README.md", 2, head="defect")


def test_every_case_of_mesos_has_a_line() -> None:
    """47 of them, none twice."""
    names = [row[0] for row in CASES]

    assert len(names) == len(set(names)) == CASES_OF_MESOS


@pytest.mark.parametrize(("case", "file", "test"), [tuple(row) for row in CASES])
def test_a_case_has_a_test(case: str, file: str, test: str) -> None:
    """Each case of Mesos has an existing test with a docstring."""
    assert find_tests(FOLDER / file).get(test), f"{case}: no {test} with a docstring in {file}"


@pytest.mark.parametrize(("defect", "test"), [tuple(row) for row in DEFECTS])
def test_a_defect_has_a_test(defect: str, test: str) -> None:
    """Each defect has an existing test with a docstring."""
    assert find_tests(FOLDER / "test_defects.py").get(test), f"defect {defect}: no {test}"


def test_the_defects_of_the_log_are_all_there() -> None:
    """1 to 8; the later ones concern what is built on the log."""
    assert {row[0] for row in DEFECTS} >= {str(number) for number in range(1, 9)}


def test_no_test_is_missing_in_the_tables() -> None:
    """Each test here can be found by the name that Mesos gave its case."""
    listed = {(row[1], row[2]) for row in CASES} | {("test_defects.py", row[1]) for row in DEFECTS}
    others = {"test_table.py"}

    for path in sorted(FOLDER.glob("test_*.py")):
        if path.name not in others:
            assert {(path.name, test) for test in find_tests(path)} <= listed
