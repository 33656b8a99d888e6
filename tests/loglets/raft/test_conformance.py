"""A RaftLoglet keeps every clause of the loglet contract: on a good network, and on one that loses, doubles and swaps."""

from __future__ import annotations

import pytest
import trio

from tests.loglets.conformance import QUALITIES, ClusterFixture, check_clause
from tests.loglets.raft.cluster import LARGE_WAL, SMALL_WAL, running_cluster
from virtuallog.testing.loglet_suite import CLAUSES, Clause


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.__name__)
@pytest.mark.parametrize("network", QUALITIES)
async def test_clause(network: str, clause: Clause, autojump_clock: trio.testing.MockClock) -> None:
    """The loglet keeps the clause (its docstring says which promise that is)."""
    wal_settings = LARGE_WAL if "largest" in clause.__name__ else SMALL_WAL
    async with running_cluster(quality=QUALITIES[network], wal_settings=wal_settings) as cluster:
        await check_clause(clause, ClusterFixture(cluster, contiguous=True))
