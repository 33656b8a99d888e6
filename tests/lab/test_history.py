"""The program that measures questions about the past: a small run of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from virtuallog.contract.errors import InvalidSettingError
from virtuallog_lab.experiments.history import history
from virtuallog_lab.experiments.history.report import report
from virtuallog_lab.experiments.history.run import ASK, BUILD, SERVE, STATES, HistoryPlan
from virtuallog_lab.harness.machine import Machine

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.long]


def plan(*steps: str) -> HistoryPlan:
    return HistoryPlan(writes=2000, keys=300, size=100, rounds=1, seconds=0.2, steps=steps, loads=("light",))


async def test_a_small_run(tmp_path: Path) -> None:
    """Step by step on one cluster: the answers are what was noted, and each figure stands in its table."""
    with pytest.raises(InvalidSettingError, match="begin with"):
        await history.run(plan(ASK), tmp_path)
    built = await history.run(plan(BUILD), tmp_path)
    found = await history.run(plan(ASK, SERVE), tmp_path)

    assert built.problems == found.problems == [] and found.positions == built.positions > 0
    questions, rates = report(Machine.look(), plan(ASK, SERVE), found).tables
    assert len(questions.rows) == len(found.questions) > 8
    assert [row[0] for row in rates.rows] == [f"light, {state}" for state in STATES]
