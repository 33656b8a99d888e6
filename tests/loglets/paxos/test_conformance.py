"""A PaxosLoglet keeps every clause of the loglet contract: on a good network, and on one that loses, doubles and swaps."""

from __future__ import annotations

import pytest
import trio

from tests.loglets.conformance import QUALITIES, ClusterFixture, check_clause
from tests.loglets.paxos.cluster import running_cluster
from virtuallog.testing.loglet_suite import CLAUSES, Clause


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.__name__)
@pytest.mark.parametrize("network", QUALITIES)
async def test_clause(network: str, clause: Clause, autojump_clock: trio.testing.MockClock) -> None:
    """The loglet keeps the clause (its docstring says which promise that is)."""
    async with running_cluster(quality=QUALITIES[network]) as cluster:
        await check_clause(clause, ClusterFixture(cluster, contiguous=False))
