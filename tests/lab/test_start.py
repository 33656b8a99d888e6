"""`virtuallog bench start`: its report, and a small run."""

from __future__ import annotations

import pytest

from virtuallog_lab.bench import start as starts
from virtuallog_lab.bench.start import BARS_MS, COMMANDS, IMPORTS, Start, Starts
from virtuallog_lab.harness.machine import Machine

MACHINE = Machine(cpus=2, kernel="6", python="3.11", load=0.0)


def test_a_report_has_medians_and_ends_beside_the_bars() -> None:
    """Wall time and CPU time are apart; a start without a bar of its own is there for comparison."""
    found = Starts(rounds=3, nodes=3)
    for wall, cpu in ((0.2, 0.1), (0.4, 0.3), (0.3, 0.2)):
        found.add("append", Start(wall, cpu))
        found.add("python", Start(wall / 10, cpu / 10))

    report = found.report(MACHINE)
    assert report.tables[0].rows == [
        ["append", "300 (200-400)", "200 (100-300)", "300"],
        ["python", "30 (20-40)", "20 (10-30)", ""],
    ]
    assert report.plain["starts"]["append"][0] == {"wall_seconds": 0.2, "cpu_seconds": 0.1}
    assert report.problems == ()


@pytest.mark.processes
@pytest.mark.long
def test_every_start_with_a_bar_is_measured() -> None:
    """One round of real processes; nothing is left running, or lying about."""
    found = starts.run(rounds=1, nodes=1).found

    assert {*BARS_MS} | {*IMPORTS} | {*COMMANDS} == {*found}
    assert all(len(each) == 1 and each[0].wall_seconds > 0 and each[0].cpu_seconds > 0 for each in found.values())
