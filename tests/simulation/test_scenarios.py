"""A few seeds of every scenario for `make test`, some dozens for `make long`; `make sim` runs as many as you like."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from _pytest.mark import ParameterSet

from tests.simulation.expensive import EXPENSIVE
from virtuallog_simulation.report.narrative import short_story
from virtuallog_simulation.runs.runner import SeedReport, run_seed
from virtuallog_simulation.scenarios.registry import all_scenarios

SEEDS: Final = {
    "cluster": 60, "mixed": 15, "register": 40, "native": 40, "paxos": 30, "cancelled": 10, "wiped": 6, "zelos": 10,
    "belated": 8, "burden": 8, "comeback": 4, "emptied": 8, "expiring": 10, "intruders": 4, "leased": 5, "operated": 8, "revived": 8, "rights": 5,
    "strangers": 5,
}  # fmt: skip
"""Seeds of a scenario for `make long`."""
OTHERS: Final = 20
"""Seeds of each scenario that is not in `SEEDS`. Directed scenarios look for one danger each, and find it within a few seeds."""
FIRST: Final = {"cluster": 6, "register": 8, "native": 8, "paxos": 6}
"""Seeds of a scenario for `make test`, from 1 on; 1 for those in `EXPENSIVE`, 3 for all others."""


def _cases() -> Iterator[ParameterSet]:
    for scenario in all_scenarios():
        first = FIRST.get(scenario.name, 1 if scenario.name in EXPENSIVE else 3)
        for seed in range(1, SEEDS.get(scenario.name, OTHERS) + 1):
            yield pytest.param(scenario.name, seed, marks=[pytest.mark.long] if seed > first else [])


@pytest.mark.parametrize(("scenario", "seed"), list(_cases()))
def test_every_promise_is_kept(scenario: str, seed: int) -> None:
    """A seed that fails says which promise was broken, what led to it, and which command runs it again."""
    report = run_seed(seed, scenario)

    if report.violations:
        pytest.fail(_told(report), pytrace=False)


def _told(report: SeedReport) -> str:
    violation = report.violations[0]
    story = short_story(report.history, violation)
    return "\n".join((f"{violation.check}: {violation.message}", *story, f"replay with: {report.replay}"))
