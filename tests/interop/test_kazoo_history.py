"""Three real servers of the database under kills, stops and swaps: the history is one that ZooKeeper's promises allow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.kazoo_run import Plan, run

SHORT = Plan(
    clients=8,
    operations=400,
    swaps=("paxos", "native"),
    swap_seconds=1.0,
    hurt_seconds=1.5,
    stop_seconds=(0.5, 1.5),
    pause_seconds=0.01,
)
"""The long run is `make zelos`."""


@pytest.mark.processes
@pytest.mark.long
async def test_a_history_of_real_processes(tmp_path: Path) -> None:
    """Writes are linearizable, results are ZooKeeper's, reads never go back, watches fire once and first, sessions live."""
    outcome = await run(SHORT, tmp_path)

    assert outcome.violations == []
    assert outcome.compared > SHORT.operations / 2 and outcome.events > 10
