"""Curator's recipes in use, all at once, while servers are killed and the log under them is swapped; and on real ZooKeeper."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.clients.client_program import SESSION_MS, running
from tests.clients.curator.jars import build
from tests.clients.ensembles import ENSEMBLES, Open
from tests.clients.seen import Note
from tests.clients.troubles import Troubles, longest_gaps

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.xdist_group("clients")]

SOURCES: Final = Path(__file__).with_name("recipes")
WRITES: Final = 30
"""Transactions between two troubles, beside the work of all other recipes."""
RECIPES: Final = {
    "InterProcessMutex", "InterProcessSemaphoreMutex", "InterProcessMultiLock", "InterProcessReadWriteLock",
    "InterProcessSemaphoreV2", "LeaderLatch", "LeaderSelector", "DistributedBarrier", "DistributedDoubleBarrier",
    "DistributedQueue", "SimpleDistributedQueue", "DistributedAtomicLong", "SharedCount", "CuratorCache",
    "CuratorCache beside other caches", "TreeCache",
    "PathChildrenCache", "NodeCache", "PersistentNode", "GroupMember", "transaction", "transaction, seen by a reader",
    "tree for caches",
}  # fmt: skip
FAULTS: Final = {"ZooKeeper": {"CuratorCache beside other caches"}}
"""Recipes that break their promise by a fault of this server: in ZooKeeper 3.8 a read with a watch takes the place of a recursive watch of
the same session on the same znode (ZOOKEEPER-4466, mended in 3.9)."""


@pytest.mark.parametrize("open_ensemble", ENSEMBLES)
async def test_each_recipe_keeps_its_promise_through_swaps_and_kills(
    tmp_path: Path, open_ensemble: Open, note: Note
) -> None:
    """Locks exclude, one leads, barriers hold, queues and counters lose nothing, caches are right, znodes of members are there. What each
    recipe must keep is checked in its source; each one has worked.
    """
    command = build(SOURCES, "Recipes", tmp_path)
    async with (
        open_ensemble(tmp_path) as ensemble,
        running(command, ensemble.hosts, "/curator", str(SESSION_MS), errors=tmp_path / "errors") as program,
    ):
        troubles = Troubles(ensemble, lambda: program.advance(WRITES))
        await troubles.run(1)
        await program.end()
    history = program.history
    reports = [line for line in history.lines if "recipe" in line]

    assert history.events("expired") == history.events("stuck") == []
    assert {report["recipe"] for report in reports} == RECIPES
    broken = {report["recipe"]: report["broken"] for report in reports if report["broken"]}
    assert {name: broken[name] for name in broken.keys() - FAULTS.get(ensemble.name, set())} == {}
    assert [report for report in reports if not report["turns"]] == []
    gaps = longest_gaps(troubles.seen, history.times)
    interrupted = sum(report["interrupted"] for report in reports)
    note("Curator 5.4, its recipes", ensemble.name, len(history.acknowledged), interrupted, 0, gaps)
