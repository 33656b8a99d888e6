"""Parts of the comparison with ZooKeeper, as far as they can be tested without one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest

from virtuallog_lab.experiments.database.report import OURS, THEIRS, DatabasePlan, DatabaseSample, draw, report
from virtuallog_lab.experiments.database.zookeeper_comparison import Ours, Served, _Loaded, measure_all
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.program import PeerError

PLAN = DatabasePlan(rounds=2, seconds=1.0, cases=[("write", 1), ("write", 64), ("read", 64)])


@attrs.frozen
class Toy:
    """A system that reports a given rate, and notes its name in `running` while it is open."""

    name: str
    rate: float
    running: list[str]

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Served]:
        self.running.append(self.name)
        assert len(self.running) == 1, "two systems at once share the processors"
        yield self
        self.running.remove(self.name)

    async def measure(self, kind: str, outstanding: int, plan: DatabasePlan) -> DatabaseSample:
        return DatabaseSample(
            system=self.name, kind=kind, outstanding=outstanding, ops_per_s=self.rate, p50_ms=1000 / self.rate, p99_ms=1.0,
            client_us=1.0, servers_us=2.0,
        )  # fmt: skip


async def _measured(ours: float, theirs: float) -> list[DatabaseSample]:
    running: list[str] = []
    return await measure_all([Toy(OURS, ours, running), Toy(THEIRS, theirs, running)], PLAN)


async def test_one_system_runs_at_a_time_and_ratios_are_those_of_a_round(tmp_path: Path) -> None:
    """Each round measures both, one after the other; the table says whether a target is met, the picture is drawn."""
    samples = await _measured(600.0, 1000.0)
    comparison, costs = report(Machine.look(), PLAN, samples).tables
    draw(PLAN, samples, tmp_path / "both.png")

    assert [sample.system for sample in samples] == [OURS, OURS, OURS, THEIRS, THEIRS, THEIRS] * 2
    assert [row[3] for row in comparison.rows] == ["0.60 (0.60-0.60)"] * 3
    assert [row[-1] for row in comparison.rows] == [
        "p50 at most 2.0: met", "ops/s at least 1.0: missed", "ops/s at least 0.5: met",
    ]  # fmt: skip
    assert costs.rows[0][1:] == ["2.0", "2.0", "1.0", "1.0"]
    assert (tmp_path / "both.png").stat().st_size > 1000


SCRIPT = """
import json, sys
print(json.dumps({"rate": 1000.0, "p50": 1.0, "p99": 2.0, "errors": 0, "cpu_client": 0.01, "cpu_server": 0.5, "arguments": sys.argv}))
"""


async def test_what_the_script_says_becomes_a_sample(tmp_path: Path) -> None:
    """CPUs that were busy become microseconds for each operation."""
    (tmp_path / "bench.py").write_text(SCRIPT)

    sample = await _Loaded(OURS, tmp_path, ["zk", "127.0.0.1:1"]).measure("write", 64, PLAN)

    assert (sample.ops_per_s, sample.client_us, sample.servers_us) == (1000.0, 10.0, 500.0)


async def test_an_operation_that_fails_ends_the_comparison(tmp_path: Path) -> None:
    """No rate is reported of an operation that failed."""
    (tmp_path / "bench.py").write_text(SCRIPT.replace('"errors": 0', '"errors": 3'))

    with pytest.raises(PeerError, match="3 operations failed"):
        await _Loaded(OURS, tmp_path, ["zk", "127.0.0.1:1"]).measure("write", 64, PLAN)


@pytest.mark.processes
async def test_ours_is_started_and_the_client_is_sent_to_the_node_that_orders_the_log(tmp_path: Path) -> None:
    """Three servers, and the CPU time of all of them is asked for."""
    (tmp_path / "bench.py").write_text(f"{SCRIPT}\nassert sys.argv[1] == 'zk' and sys.argv.count('--pid') == 3\n")

    async with Ours(tmp_path).open() as served:
        sample = await served.measure("read", 64, PLAN)

    assert sample.kind == "read"
