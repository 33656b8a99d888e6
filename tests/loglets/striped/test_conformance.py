"""A StripedLoglet keeps every clause of the loglet contract, over all kinds of stripes, and on bad
networks too."""

from __future__ import annotations

import random

import pytest
import trio

from tests.loglets.conformance import QUALITIES, check_clause
from tests.loglets.native.cluster import LARGE_WAL, SMALL_WAL
from tests.loglets.striped.cluster import CLUSTERS, MemoryStripes, ReplicatedStripes
from tests.simulation.conformance.fixtures import NoServices
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import NodeId
from virtuallog.testing.loglet_suite import CLAUSES, Clause, run_clause
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.__name__)
@pytest.mark.parametrize("stripes", [1, 2, 3])
async def test_clause_in_memory(stripes: int, clause: Clause, autojump_clock: trio.testing.MockClock) -> None:
    """The loglet keeps the clause (its docstring says which promise that is)."""
    async with trio.open_nursery() as nursery:
        clock = SimulatedClock(Process(NodeId(1)))
        environment = Environment(services=NoServices(), clock=clock, random=random.Random(7), nursery=nursery)
        await run_clause(clause, MemoryStripes(environment, stripes))
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.__name__)
@pytest.mark.parametrize(("stripes", "network"), [(2, "good"), (2, "bad"), (3, "bad")])
@pytest.mark.parametrize("of", CLUSTERS)
async def test_clause_on_replicated_loglets(
    of: str, stripes: int, network: str, clause: Clause, autojump_clock: trio.testing.MockClock
) -> None:
    """The same, with servers."""
    wal_settings = LARGE_WAL if "largest" in clause.__name__ else SMALL_WAL
    async with CLUSTERS[of](quality=QUALITIES[network], wal_settings=wal_settings) as cluster:
        await check_clause(clause, ReplicatedStripes(cluster, contiguous=False, stripes=stripes))
