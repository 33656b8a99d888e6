"""The program that measures backups: a small run of it."""

from __future__ import annotations

import pytest

from virtuallog_lab.experiments.backups import backups
from virtuallog_lab.experiments.backups.report import report
from virtuallog_lab.experiments.backups.run import BackupPlan
from virtuallog_lab.harness.machine import Machine

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.long]


async def test_a_small_run() -> None:
    """Real processes: each restored state is that of a replay, and each figure stands in its table."""
    plan = BackupPlan(writes=2000, keys=100, size=100, outstanding=60, positions=2, seed=1)
    found = await backups.run(plan)
    assert found.problems == []
    saved, times, restores = report(Machine.look(), found).tables
    assert [row[0] for row in saved.rows] == ["full", "on top of it"]
    assert found.backups[0].writes >= 2000 and found.backups[1].writes >= 100
    assert all(each.entries > 0 for each in found.backups)
    assert len(times.rows) == 3 and len(restores.rows) == 2
