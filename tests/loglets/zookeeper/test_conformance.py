"""A ZooKeeperLoglet keeps every clause of the loglet contract: with a good ZooKeeper, and with
lagging servers and breaking connections."""

from __future__ import annotations

import pytest
import trio

from tests.loglets.zookeeper.world import running_bench
from virtuallog.testing.loglet_suite import CLAUSES, Clause, run_clause
from virtuallog.testing.sim.zookeeper import ZooKeeperFaults

FAULTS = {
    "good": ZooKeeperFaults(),
    "bad": ZooKeeperFaults(lag_seconds=0.02, breaks=0.01, late=0.5, late_seconds=1.0),
}


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.__name__)
@pytest.mark.parametrize("faults", FAULTS)
async def test_clause(faults: str, clause: Clause, autojump_clock: trio.testing.MockClock) -> None:
    """The loglet keeps the clause (its docstring says which promise that is)."""
    async with running_bench(FAULTS[faults]) as bench:
        await run_clause(clause, bench)
