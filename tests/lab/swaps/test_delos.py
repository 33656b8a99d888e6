"""The experiment of Delos in small: a steady load goes on while the log moves from a real ZooKeeper to a native loglet."""

from __future__ import annotations

import pytest

from virtuallog_lab.bench.targets import Target
from virtuallog_lab.experiments.swaps.delos import DelosPlan, run
from virtuallog_lab.experiments.swaps.delos_load import APPEND, READ

pytestmark = pytest.mark.processes

PLAN = DelosPlan(appends_per_s=20.0, reads_per_s=20.0, warm_up_seconds=0.5, seconds=1.5)


@pytest.mark.long
async def test_a_steady_load_outlives_the_move_from_zookeeper(targets: list[Target]) -> None:
    """Both kinds of operations go on, on both sides; the log is right, and every read was linearizable."""
    outcome = await run(PLAN, targets[-1].settings["hosts"])

    assert outcome.problems == []
    assert outcome.entries > 0
    for kind in (APPEND, READ):
        assert any(sample.due < outcome.asked for sample in outcome.samples[kind])
        assert any(sample.due > outcome.settled for sample in outcome.samples[kind])
