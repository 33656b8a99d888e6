"""Small runs of the programs that swap and break clusters: real processes, and everything read back."""

from __future__ import annotations

import pytest

from virtuallog_lab.experiments.failover import kill
from virtuallog_lab.experiments.failover.report import report
from virtuallog_lab.experiments.swaps import swap, swap_report
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.trial import TrialLoad

pytestmark = pytest.mark.processes

LOAD = TrialLoad(writers=16)


async def test_three_swaps_under_load_lose_nothing() -> None:
    """Each swap is seen, with its phases; the history is right."""
    evidence, steps = await swap.run(["native"], 3, LOAD, 0.2)
    told = swap_report.report(Machine.look(), evidence, steps, 0.2)

    assert told.problems == ()
    assert told.plain["swaps"] == 3
    assert told.plain["acknowledged"] == evidence.verdict.entries > 0
    assert told.plain["phases"].keys() >= {"promise", "seal", "tail", "vote", "client finds it"}


@pytest.mark.long
async def test_a_log_outlives_the_death_of_its_sequencer() -> None:
    """After a kill -9 appends come back without an operator, and nothing is lost."""
    evidence = await kill.run(["sequencer"], LOAD, 0.2, 20.0)

    assert report(Machine.look(), evidence).problems == []
    assert [blow.kind for blow in evidence.result] == ["sequencer"]
