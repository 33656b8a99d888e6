"""Parts of the comparison with other systems, as far as they can be tested without them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest

from virtuallog_lab.experiments.contestants.contestant import Figures, RunningContestant
from virtuallog_lab.experiments.contestants.debian import debian_contestants
from virtuallog_lab.experiments.contestants.peers import Comparison, ComparisonPlan, compare, report
from virtuallog_lab.experiments.contestants.sync_counts import count_calls
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.program import PeerError

STRACE = """% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 97.31    0.012160          11      1105           fdatasync
  2.69    0.000336          12        28         2 fsync
------ ----------- ----------- --------- --------- ----------------
100.00    0.012496          11      1133         2 total
"""


def test_syncs_are_counted_in_the_table_of_strace() -> None:
    """With and without errors, and not the line of sums."""
    assert count_calls(STRACE) == 1133
    assert count_calls("") == 0


@attrs.frozen
class Toy:
    """A contestant that reports a given rate, in entries a second."""

    name: str
    rate: float
    durability: str = "nothing"
    pids: list[int] = attrs.field(factory=list)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[RunningContestant]:
        yield self

    async def measure(self, outstanding: int, size: int, seconds: float) -> Figures:
        return Figures(ops_per_s=self.rate * outstanding, p50_ms=1.0, p99_ms=2.0)


PLAN = ComparisonPlan(outstanding=[1, 64], size=100, seconds=1.0, rounds=2, count_syncs=False)


async def test_systems_are_measured_in_turn_and_compared_with_etcd() -> None:
    """Each round measures all; ratios are those of one round."""
    found = await compare([Toy("virtuallog", 400.0), Toy("etcd", 100.0)], PLAN)
    told = report(Machine.look(), PLAN, found)

    assert [len(rounds) for rounds in found.figures.values()] == [2, 2, 2, 2]
    assert told.tables[1].rows[0] == [
        "virtuallog", "25,600 (25,600-25,600)", "4.0 (4.0-4.0)", "1.00 (1.00-1.00)", "2.00 (2.00-2.00)"
    ]  # fmt: skip
    assert len(told.plain["measurements"]) == 8


async def test_without_etcd_there_is_no_ratio() -> None:
    """A dash, rather than a ratio to something else."""
    found: Comparison = await compare([Toy("virtuallog", 400.0)], PLAN)

    assert report(Machine.look(), PLAN, found).tables[0].rows[0][2] == "-"


def test_a_folder_without_the_scripts_is_refused() -> None:
    """By name of what is missing."""
    with pytest.raises(PeerError, match=r"there is no peers\.py"):
        debian_contestants(Path("/"))
