"""The program that writes for long over the same znodes: what it counts as wrong, and a small run of it."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest

from virtuallog.contract.types import NodeId
from virtuallog_lab.experiments.churn import churn
from virtuallog_lab.experiments.churn.client import Budget, Writes, shares
from virtuallog_lab.experiments.churn.report import draw, report
from virtuallog_lab.experiments.churn.run import ChurnFindings, ChurnPlan
from virtuallog_lab.experiments.churn.sizes import ClusterSizes, NodeSizes
from virtuallog_lab.harness.machine import Machine

MIB = 1 << 20


def plan(writes: int, *, wipe: bool = True) -> ChurnPlan:
    return ChurnPlan(writes=writes, keys=60, size=100, outstanding=30, loglet="native", wipe=wipe)


def test_what_was_acknowledged_must_be_there() -> None:
    """The value may be a later one that was sent; an older one, or one that was never sent, is wrong."""
    writes = Writes([7, 8], [b""], Budget(10))
    writes.under_way = deque([(7, 1), (8, 2), (7, 3)])
    writes.sent = {7: 3, 8: 2}
    writes.acknowledge(2)
    assert writes.lost({7: 1, 8: 2}) == writes.lost({7: 3, 8: 2}) == []
    assert len(writes.lost({7: 0, 8: 2})) == len(writes.lost({8: 2})) == len(writes.lost({7: 4, 8: 2})) == 1


def test_what_is_unknown_is_sent_again_once() -> None:
    """However often a connection cannot be made."""
    writes = Writes([7, 8], [b""], Budget(0))
    writes.under_way = deque([(7, 1), (8, 2)])
    writes.give_up()
    writes.give_up()
    assert writes.budget.left == 2 and not writes.under_way


def test_each_znode_has_one_writer() -> None:
    """The values of a znode only grow, as it has one writer."""
    assert sorted(key for share in shares(10, 3) for key in share) == list(range(10))


def look(writes: int, log_mib: int) -> ClusterSizes:
    nodes = [
        NodeSizes(node=NodeId(node), log_bytes=log_mib * MIB, store_bytes=2 * MIB, resident_bytes=100 * MIB,
                 state="serving", cursor=writes, snapshot=writes // 2)
        for node in (1, 2, 3)
    ]  # fmt: skip
    return ClusterSizes(at=writes / 10, writes=writes, trim_point=writes // 3, nodes=nodes)


@pytest.mark.parametrize(("last", "change"), [(150, "+7%"), (280, "+100%")])
def test_growth_in_the_second_half_is_shown(tmp_path: Path, last: int, change: str) -> None:
    """Beside the target; and the picture can be drawn."""
    looks = [look(writes, 140) for writes in range(0, 900, 100)] + [look(900, last), look(1000, last)]
    found = ChurnFindings(
        plan=plan(1000), seconds=100.0, looks=looks, marks={"killed": 40.0, "started": 41.0, "serving": 50.0},
        checksums={1: 5, 2: 5, 3: 5}, problems=[],
    )  # fmt: skip
    told = report(Machine.look(), found)
    assert [table.title for table in told.tables][:2] == ["The most that any server took, over the run", "Flat?"]
    assert len(told.tables[0].rows) == 10
    assert told.tables[1].rows[0] == ["log", "140 MiB", f"{last} MiB", change, "at most +25%"]
    assert told.tables[2].rows[1] == ["started to serving", "9.0"]
    draw(found, tmp_path / "churn.png")
    assert (tmp_path / "churn.png").stat().st_size > 10_000


@pytest.mark.processes
async def test_a_small_run() -> None:
    """Real processes: all servers have the same in the end, and no acknowledged write is missing."""
    found = await churn.run(plan(2000, wipe=False))
    assert found.problems == []
    assert len(set(found.checksums.values())) == 1 and len(found.checksums) == 3
    assert found.looks[-1].writes == 2000
    assert min(node.snapshot for node in found.looks[-1].nodes) > 0
