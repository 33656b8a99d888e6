"""A set of seeds of every scenario, chosen to fit the time of `make test`; `make sim` runs as many as you like."""

from __future__ import annotations

from typing import Final

import pytest

from virtuallog_simulation.report.narrative import short_story
from virtuallog_simulation.runs.runner import SeedReport, run_seed
from virtuallog_simulation.scenarios.registry import all_scenarios

SEEDS: Final = {
    "cluster": 60, "mixed": 15, "register": 40, "native": 40, "paxos": 30, "cancelled": 10, "wiped": 6, "zelos": 10,
    "belated": 8, "burden": 8, "comeback": 4, "emptied": 8, "intruders": 4, "leased": 5, "operated": 8, "revived": 8, "rights": 5,
    "strangers": 5,
}  # fmt: skip
"""About half of the time for whole clusters, at half a second each; of a scenario whose seeds take a second or more, a few."""
OTHERS: Final = 20
"""Directed scenarios look for one danger each: whoever plants it finds it within a few seeds."""

CASES: Final = [
    (scenario.name, seed)
    for scenario in all_scenarios()
    for seed in range(1, SEEDS.get(scenario.name, OTHERS) + 1)
]  # fmt: skip


@pytest.mark.parametrize(("scenario", "seed"), CASES)
def test_every_promise_is_kept(scenario: str, seed: int) -> None:
    """A seed that fails says which promise was broken, what led to it, and which command runs it again."""
    report = run_seed(seed, scenario)

    if report.violations:
        pytest.fail(_told(report), pytrace=False)


def _told(report: SeedReport) -> str:
    violation = report.violations[0]
    story = short_story(report.history, violation)
    return "\n".join((f"{violation.check}: {violation.message}", *story, f"replay with: {report.replay}"))
