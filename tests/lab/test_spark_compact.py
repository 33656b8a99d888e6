"""The program that archives, compacts and trims a log, and wipes a server: a small run of it, and what it counts as wrong."""

from __future__ import annotations

import pytest

from virtuallog.contract.types import NodeId
from virtuallog_lab.experiments.churn.sizes import ClusterSizes, NodeSizes
from virtuallog_lab.experiments.spark_compact import compact
from virtuallog_lab.experiments.spark_compact.report import report
from virtuallog_lab.experiments.spark_compact.run import SEGMENTS, CompactionFindings, CompactionPlan, Step, restored_at
from virtuallog_lab.harness.machine import Machine

MIB = 1 << 20
PLAN = CompactionPlan(writes=6000, keys=200, size=400, outstanding=60)


def look(trim_point: int, log_mib: int) -> ClusterSizes:
    nodes = [
        NodeSizes(node=NodeId(node), log_bytes=log_mib * MIB, store_bytes=2 * MIB, resident_bytes=100 * MIB,
                 state="serving", cursor=900, snapshot=700)
        for node in (1, 2, 3)
    ]  # fmt: skip
    return ClusterSizes(at=1.0, writes=6000, trim_point=trim_point, nodes=nodes)


def test_targets_stand_beside_what_was_measured() -> None:
    """Targets for the disk, the begin of the log, and the first state of the wiped server."""
    steps = [
        Step(what="log grows", seconds=2.0, look=look(10, 320)),
        Step(what="rejoin", seconds=3.0, look=look(500, 128)),
    ]
    found = CompactionFindings(
        plan=PLAN, steps=steps, compactions=[{"position": at} for at in (10, 400, 880)], archived=5, kills=["here"],
        restored_at=880, writes=6100, checksums={1: 5, 2: 5, 3: 5}, problems=[],
    )  # fmt: skip
    table, targets = report(Machine.look(), found).tables
    assert table.rows[0] == ["log grows", "2.0", "6,000", "320", "2", "10", "900"]
    measured = {row[0]: row[1:] for row in targets.rows}
    assert measured["log on the disk, in the end"] == ["128 MiB", "at most 208 MiB, a few segments"]
    assert measured["log begins at"] == ["500", "at least 400, the second compaction"]
    assert measured["server 3 has begun with"] == ["the compaction at 880", "the compaction at 880"]


def test_what_a_server_has_begun_with_is_in_its_log() -> None:
    """The last that it has restored counts: a snapshot of a peer is no compaction."""
    line = "2026-11-22T14:34:37Z [info     ] restored a snapshot            position={} source='{}'"
    compaction, peer = line.format(880, "the compaction at file:///place"), line.format(890, "node 2")
    assert restored_at("") is None
    assert restored_at(f"{peer}\n{compaction}\n") == 880
    assert restored_at(f"{compaction}\n{peer}\n") is None


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.long
async def test_a_small_run() -> None:
    """Real processes, each step by its command: nothing that was acknowledged is missing, and all servers have the same."""
    found = await compact.run(PLAN)
    assert found.problems == []
    assert found.archived >= SEGMENTS, "a busy machine may have closed one more"
    assert len(found.checksums) == 3
    assert len(found.compactions) == 3 and found.restored_at == found.compactions[-1]["position"]
