"""Measurements of toy systems in turn, on a mock clock, and a small run of our own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import attrs
import pytest
import trio

from tests.lab.fixed_rate.mock_clock import MockPunctualClock
from virtuallog_lab.experiments.fixed_rate.fixed_rate import measure_all
from virtuallog_lab.experiments.fixed_rate.open_loop import Answered, Post
from virtuallog_lab.experiments.fixed_rate.report import RatePlan, RateSample, report
from virtuallog_lab.experiments.fixed_rate.systems import DATABASE, LOG, PAXOS_LOG, RatedServers, RatedSystem
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.program import PeerError

PLAN = RatePlan(
    rates=[20, 100], rounds=2, seconds=2.0, warm_up_seconds=1.0, arrivals="constant", in_flight=1000, size=100
)


@attrs.define
class Toy:
    """A system that answers after some seconds, and notes its name in `running` while it is open."""

    seconds: float
    running: list[str]
    broken: int = 0
    """Connections that will break."""

    @asynccontextmanager
    async def open(self, name: str) -> AsyncIterator[RatedServers]:
        self.running.append(name)
        assert len(self.running) == 1, "two systems at once share the processors"
        yield RatedServers([os.getpid()], self.connect)
        self.running.remove(name)

    @asynccontextmanager
    async def connect(self, size: int) -> AsyncIterator[Post]:
        async with trio.open_nursery() as nursery:
            yield lambda calls: nursery.start_soon(self.answer, calls)
            nursery.cancel_scope.cancel()

    async def answer(self, calls: Sequence[Answered]) -> None:
        await MockPunctualClock().sleep(self.seconds)
        outcome, self.broken = PeerError("broken") if self.broken else None, max(0, self.broken - 1)
        for done in calls:
            done(outcome)


def system(name: str, toy: Toy, attempts: int = 1) -> RatedSystem:
    return RatedSystem(name, partial(toy.open, name), attempts)


async def test_one_system_runs_at_a_time_and_each_gets_each_rate(autojump_clock: trio.abc.Clock) -> None:
    """Figures are those of the part that counts: the rate, and the latency, which the warm-up does not touch."""
    running: list[str] = []
    systems = [system("quick", Toy(0.001, running)), system("slow", Toy(0.25, running))]

    samples = await measure_all(systems, PLAN, MockPunctualClock())

    assert [(sample.system, sample.rate) for sample in samples] == [
        ("quick", 20), ("quick", 100), ("slow", 20), ("slow", 100),
    ] * 2  # fmt: skip
    assert [sample.answered_per_s for sample in samples] == pytest.approx([sample.rate for sample in samples], rel=0.03)
    assert [sample.p50_ms for sample in samples] == pytest.approx([1.0, 1.0, 250.0, 250.0] * 2)
    assert [sample.unanswered for sample in samples] == [0] * 8


async def test_a_peer_that_breaks_is_measured_again(autojump_clock: trio.abc.Clock) -> None:
    """As often as it may; a system of ours may not."""
    plan = attrs.evolve(PLAN, rates=[100], rounds=1)
    (sample,) = await measure_all([system("peer", Toy(0.001, [], broken=2), attempts=3)], plan, MockPunctualClock())
    assert sample.p99_ms == pytest.approx(1.0)

    with pytest.RaisesGroup(pytest.RaisesExc(PeerError, match="broken"), flatten_subgroups=True):
        await measure_all([system("ours", Toy(0.001, [], broken=1))], plan, MockPunctualClock())


def sample(system: str, p50_ms: float, unanswered: int = 0) -> RateSample:
    return RateSample(
        system=system, rate=2000, answered_per_s=1999.6, p50_ms=p50_ms, p99_ms=2.0, p999_ms=3.0, max_ms=10 * p50_ms,
        late_p99_ms=0.1, unanswered=unanswered, servers_us=100.4, client_us=20.0,
    )  # fmt: skip


def test_the_table_has_medians_of_the_rounds_and_the_longest_of_all() -> None:
    """Spreads of the percentiles; a sum of what was not answered."""
    samples = [
        sample("a", 1.0),
        sample("b", 4.0),
        sample("a", 3.0, 7),
        sample("b", 4.0),
        sample("a", 2.0, 1),
        sample("b", 4.0),
    ]

    told = report(Machine.look(), attrs.evolve(PLAN, rates=[2000], rounds=3), samples)

    (table,) = told.tables
    assert table.rows[0] == [
        "2,000/s, a", "2,000", "2.00 (1.00-3.00)", "2.00 (2.00-2.00)", "3.00 (3.00-3.00)", "30.0", "0.10", "8", "100", "20",
    ]  # fmt: skip
    assert [row[0] for row in table.rows] == ["2,000/s, a", "2,000/s, b"]
    assert len(told.plain["measurements"]) == 6 and told.plain["arrivals"] == "constant"


@pytest.mark.processes
@pytest.mark.long
def test_a_small_run_measures_each_system_of_ours() -> None:
    """Real servers, the real clock; that peers are missing is said on stderr."""
    arguments = [
        "--rounds",
        "1",
        "--seconds",
        "0.3",
        "--warm-up",
        "0.2",
        "--rate",
        "200",
        "--arrivals",
        "poisson",
        "--json",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "virtuallog_lab.experiments.fixed_rate.fixed_rate", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )

    measured = json.loads(done.stdout)["measurements"]
    assert [each["system"] for each in measured] == [LOG, PAXOS_LOG, DATABASE]
    assert all(each["p50_ms"] > 0 and each["servers_us"] > 0 for each in measured)
    assert "etcd and ZooKeeper are left out" in done.stderr
